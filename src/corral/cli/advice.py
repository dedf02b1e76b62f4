"""Programs that cannot work in a sandbox as they do outside: a sentence, when one of them has failed."""

from __future__ import annotations

import os
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.model.policy import Policy
    from corral.model.result import Result

_ENGINE = (
    "{name} needs its engine's socket, by which one has the whole host; corral hides it: use {name} outside"
)
_BROWSER = "{name}'s own sandbox cannot be made inside corral's: pass --no-sandbox; corral confines all of it"
_TRACER = "tracing processes takes `--cap process:debug`"
_ADVICE = {
    **dict.fromkeys(("docker", "docker-compose", "podman", "nerdctl"), _ENGINE),
    **dict.fromkeys(
        ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"), _BROWSER
    ),
    **dict.fromkeys(("gdb", "lldb", "strace", "ltrace"), _TRACER),
}


def advise(command: str | Sequence[str], policy: Policy, result: Result) -> str:
    """What is to be known of the program that was run; nothing if it has succeeded, or has what it needs."""
    words = _words(command)
    if result.ok or not words:
        return ""
    name = os.path.basename(words[0])
    advice = _ADVICE.get(name, "")
    is_met = (advice is _TRACER and policy.debug) or (advice is _BROWSER and "--no-sandbox" in words)
    return "" if is_met else advice.format(name=name)


def _words(command: str | Sequence[str]) -> Sequence[str]:
    if not isinstance(command, str):
        return command
    try:
        return shlex.split(command)
    except ValueError:
        return ()
