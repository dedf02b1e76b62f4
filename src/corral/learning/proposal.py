"""Proposal: the smallest policy for what was observed, on top of `strict`; what is broad is said."""

from __future__ import annotations

import os

from corral.model.decision import Reason
from corral.model.record import Record
from corral.model.rules.capability import PolicyDraft, parse_capability
from corral.planning.decide import decide_path
from corral.policy.preset import load_preset
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.learning.observation import Observation

BASE = "strict"
TOOLS = "filesystem:tools:path"
_WORKSPACE = "${workspace}"
#: More files of one directory are taken together.
_FEW = 3
_MOST_MISSED = 8


class Proposal(Record):
    readonly: tuple[str, ...]
    readwrite: tuple[str, ...]
    uses_tools: bool
    writes_workspace: bool
    hosts: tuple[str, ...]
    flags: tuple[str, ...]  # what is broad, or was not granted, a sentence each
    seconds: float


class _Judge:
    """What a policy permits already; the plan is made once."""

    def __init__(self, workspace: str, *capabilities: str) -> None:
        draft = PolicyDraft(load_preset(BASE))
        for text in capabilities:
            draft.add(parse_capability(text), optional=True)
        sandbox = Sandbox(draft.build(), workspace=workspace)
        self._plan = sandbox.planner.plan(sandbox.read_command(("true",)))
        self._host = sandbox.planner.host

    def lacks(self, path: str, *, writes: bool) -> Reason | None:
        """Why it would be refused, or be another one; None if it is permitted."""
        decision = decide_path(self._plan, self._host, path, writes=writes)
        settled = decision.reason is Reason.STRUCTURAL or (
            decision.allowed and decision.reason is not Reason.PRIVATE
        )
        return None if settled else decision.reason


def propose(seen: Observation, workspace: str) -> Proposal:
    """What the observed runs need beyond the base. Nothing is granted that was not used."""
    flags: list[str] = []
    base, with_tools = _Judge(workspace), _Judge(workspace, TOOLS)
    unread = {path for path in seen.reads if base.lacks(path, writes=False) is not None}
    remaining = {path for path in unread if with_tools.lacks(path, writes=False) is not None}
    uses_tools = len(remaining) < len(unread)
    # ORDER: what is never granted goes first; else it would stand for what lies beneath it.
    reads = _gathered(_checked(remaining, with_tools, flags))
    reads = _checked(reads, with_tools, flags)
    writes = _writes(seen, base, workspace, flags)
    whole = workspace in writes
    if whole:
        flags.append("it makes and removes files right in the workspace, so all of that is writable")
    kept = () if whole else tuple(_spelled(path, workspace) for path in sorted(writes))
    outside = tuple(path for path in sorted(writes) if whole and not _beneath(path, workspace))
    flags += _missed(seen, base)
    flags += (
        f"the network refused {host}; to let it, run `corral learn` with --allow"
        for host in sorted(seen.refused)
    )
    return Proposal(
        tuple(_spelled(path, workspace) for path in sorted(reads)),
        kept or outside,
        uses_tools,
        whole,
        tuple(sorted(seen.hosts)),
        tuple(flags),
        seen.seconds,
    )


def _writes(seen: Observation, base: _Judge, workspace: str, flags: list[str]) -> set[str]:
    wanted = {*seen.directories, *seen.parents, *seen.files}
    wanted = {path for path in wanted if base.lacks(path, writes=True) not in {None, Reason.PROTECTED}}
    places = _checked(filter(os.path.lexists, wanted), base, flags, keeps=workspace)
    return {path for path in places if not any(path != other and _beneath(path, other) for other in places)}


def _checked(paths: Iterable[str], judge: _Judge, flags: list[str], keeps: str = "") -> set[str]:
    """Without what is never granted because it was merely used: homes, what holds one, `/`, secrets."""
    kept = set()
    home = os.path.expanduser("~")
    for path in sorted(paths):
        if judge.lacks(path, writes=False) is Reason.HIDDEN:
            flags.append(f"{path} is a secret and is not granted; name it yourself if you mean it")
        elif path != keeps and (path in {"/", "/home", "/root", "/Users", home} or _beneath(home, path)):
            flags.append(
                f"{path} is a home, or contains one, and is not granted; grant a directory further down"
            )
        else:
            kept.add(path)
            if path.count("/") < 2 and f"{path} is broad" not in flags:
                flags.append(f"{path} is broad")
    return kept


def _gathered(paths: set[str]) -> set[str]:
    """Files one by one, unless there are many in one directory; then that."""
    by_parent: dict[str, set[str]] = {}
    for path in paths:
        by_parent.setdefault(os.path.dirname(path), set()).add(path)
    found: set[str] = set()
    for parent, members in by_parent.items():
        found |= {parent} if len(members) > _FEW and parent.count("/") > 1 else members
    found = {path for path in found if os.path.exists(path)}
    return {path for path in found if not any(path != other and _beneath(path, other) for other in found)}


def _missed(seen: Observation, base: _Judge) -> list[str]:
    """What the runs looked for, the host has, and they did without."""
    absent = [p for p in sorted(seen.missed) if os.path.exists(p) and base.lacks(p, writes=False) is not None]
    shown = [path for path in absent if base.lacks(path, writes=False) is not Reason.HIDDEN][:_MOST_MISSED]
    return [f"it looked for {path}, and did without; if it needs that: --read" for path in shown]


def _beneath(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top.rstrip('/')}/")


def _spelled(path: str, workspace: str) -> str:
    if path == workspace:
        return _WORKSPACE
    if _beneath(path, workspace):
        return f"{_WORKSPACE}{path[len(workspace) :]}"
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and _beneath(path, home) else path
