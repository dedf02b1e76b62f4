"""The last part of the tour: what used to fail or vanish in silence, and what corral says of it."""

from __future__ import annotations

import os
import textwrap

from corral.model.errors import CorralError
from corral.model.feature import Feature
from corral.model.record import Record
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from corral.selftest.chore import make_repository
from corral.selftest.stage import Stage, StagedHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.event import Event

_WIDTH = 76
_NATIVE = "native"
_DEMO_POLICY = "moderate"


class Silence(Record):
    """Something that a command does, and the guarantee that the answer is about."""

    script: str
    feature: Feature
    capabilities: tuple[str, ...] = ()


SILENCES = (
    Silence("exec 3<>/dev/tcp/registry.example/443", Feature.NET_NONE),
    Silence("exec 3<>/dev/tcp/tracker.example/443", Feature.NET_DOMAINS, ("network:https:registry.example",)),
    Silence("echo important > ../result.txt", Feature.FS_PRIVATE),
    Silence("git worktree add -q ../x", Feature.FS_PRIVATE),
    Silence("echo date > .git/hooks/pre-commit", Feature.FS_PROTECT),
    Silence("echo 127.0.0.1 example >> /etc/hosts", Feature.FS_WRITE),
    Silence("unshare --user true", Feature.SYSCALLS),
)


def show_explained(backend: str, say: Callable[[str], None]) -> bool:
    """Do each and repeat what was said of it; False if native has nothing to say."""
    is_whole = True
    for silence in SILENCES:
        with Stage() as stage:
            has_git = make_repository(stage)
            if "git" in silence.script and not has_git:
                continue
            event = _ask(stage, backend, silence)
        is_whole &= event is not None
        say(f"{'·' if event is None else '✔'} {silence.script}")
        for line in _lines(event):
            say(f"    {line}")
    return is_whole or backend != _NATIVE


def _ask(stage: Stage, backend: str, silence: Silence) -> Event | None:
    policy = build_policy(_DEMO_POLICY, silence.capabilities)
    # Not in /tmp, whose files nobody expects to stay.
    workspace = stage.at("ws")
    sandbox = Sandbox(policy, backend=backend, workspace=workspace, host=StagedHost(stage))
    script = silence.script
    if script.startswith("git worktree"):
        script = f"git commit -q --allow-empty -m first; {script}"
    try:
        result = sandbox.run(["bash", "-c", script], cwd=workspace)
    except CorralError:
        return None
    found = [event for event in result.events if event.feature is silence.feature]
    if not found:
        return None
    top = os.path.dirname(workspace)
    return found[0].replace(
        subject=found[0].subject.replace(top, "~"), hint=found[0].hint.replace(top, "~").replace("\\", "")
    )


def _lines(event: Event | None) -> list[str]:
    if event is None:
        return ["this backend does not tell"]
    return textwrap.wrap(f"{event.describe()} [{event.evidence.value}]", _WIDTH)
