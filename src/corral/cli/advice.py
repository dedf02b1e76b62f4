"""Programs that cannot work in a sandbox as they do outside: a sentence, when one of them has failed."""

from __future__ import annotations

import os
import shlex

from corral.backends.registry import UNCONFINED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.model.result import Result

_ENGINE = (
    "{name} needs its engine's socket, which controls the whole host; corral hides it: run {name} outside"
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


#: What git cannot do where commands may not replace what git itself reads.
_GIT = {
    (
        "submodule",
        "add",
    ): "`git submodule add` writes .gitmodules and .git/modules, which corral protects: add it outside",
    (
        "worktree",
        "remove",
    ): "a worktree that was there before is held in its place: remove it outside of corral",
    ("worktree", "move"): "a worktree that was there before is held in its place: move it outside of corral",
}
#: Options before git's own command that have a word of their own.
_GIT_OPTIONS = frozenset({"-c", "-C", "--git-dir", "--work-tree", "--namespace"})

#: Programs that run another one, which their words name.
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
_MOST_STEPS = 4


def advise(command: str | Sequence[str], result: Result) -> str:
    """What is to be known of the program that was run; nothing if it has succeeded, or has what it needs."""
    words = _words(command)
    if result.ok or not words or result.enforcement.backend == UNCONFINED:
        return ""
    name = os.path.basename(words[0])
    if name == "git":
        return _advise_on_git([*words[1:]])
    advice = _ADVICE.get(name, "")
    if advice is _BROWSER:
        is_met = "--no-sandbox" in words
    else:  # without anything to do it has said itself what is wrong
        is_met = all(word.startswith("-") and word != "-p" for word in words[1:])
    return "" if is_met or (advice is _TRACER and result.policy.debug) else advice.format(name=name)


def _advise_on_git(words: list[str]) -> str:
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in _GIT_OPTIONS else 1 :]
    return _GIT.get((words[0], words[1]), "") if len(words) > 1 else ""


def _words(command: str | Sequence[str]) -> Sequence[str]:
    """The program with its arguments, also where a shell or `env` is asked to start it."""
    words = _split(command)
    for _ in range(_MOST_STEPS):
        name = os.path.basename(words[0]) if words else ""
        if name in _SHELLS and len(words) > 2 and words[1] == "-c":
            words = _split(words[2])
        elif name in {"env", "exec"}:
            words = words[1:]
            while words and ("=" in words[0] or words[0] == "-i"):
                words = words[1:]
        else:
            break
    return words


def _split(command: str | Sequence[str]) -> Sequence[str]:
    if not isinstance(command, str):
        return command
    try:
        return shlex.split(command)
    except ValueError:
        return ()
