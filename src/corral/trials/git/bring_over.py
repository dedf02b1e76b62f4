"""Bring what a trial committed over, as one part of an apply; and undo that."""

from __future__ import annotations

import base64
import json
import os

from corral.git_formats.refs import LogEntry
from corral.model.errors import SetupError
from corral.model.printable import printable
from corral.trials.git.move import Mover, find_moved, reverse
from corral.trials.git.objects import import_objects
from corral.trials.git.plan import GitChanges, IndexMove, RefMove, StashMove, tips
from corral.trials.git.program import GitFailed, GitProgram
from corral.trials.git.state import GitBases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from corral.trials.record import TrialRecord

_NAME = "git"


def bring_objects(record: TrialRecord, plans: Iterable[GitChanges]) -> None:
    """All objects that some plans need. Raises SetupError if git does not take them; nothing is moved yet."""
    git = _program(record)
    for plan in plans:
        try:
            import_objects(record, plan.repository, tips(plan), plan.hash_length, git)
        except GitFailed as problem:
            raise SetupError(
                "trial-git",
                "nothing was applied: git does not take what the trial committed",
                why=f"{plan.repository}: {printable(str(problem))}",
                fix=f"`corral apply --except {plan.repository}` applies the files alone",
                ran=True,
            ) from None


def move_all(record: TrialRecord, plans: Iterable[GitChanges]) -> tuple[str, ...]:
    """Move references, HEAD, stash and index; returns what was left, in words. Raises OSError."""
    return _move(record, plans, f"corral apply {record.identity}", ())


def move_back(
    record: TrialRecord, plans: Iterable[GitChanges], *, keep: Sequence[str] = ()
) -> tuple[str, ...]:
    """The other way, but for some."""
    return _move(record, map(reverse, plans), f"corral undo {record.identity}", keep)


def _move(
    record: TrialRecord, plans: Iterable[GitChanges], about: str, keep: Sequence[str]
) -> tuple[str, ...]:
    git, left = _program(record), []
    for plan in plans:
        mover = Mover(record, plan, git, about)
        mover.run(skip=[name for name in _names(plan) if f"{plan.repository}: {name}" in keep])
        GitBases(record).note(plan.repository, mover.done)
        left += [f"{plan.repository}: {name}" for name in mover.left]
    return tuple(left)


def _names(plan: GitChanges) -> list[str]:
    return [*(move.name for move in plan.moves), "HEAD", "refs/stash", "index"]


def changed_since(record: TrialRecord, plans: Iterable[GitChanges]) -> list[str]:
    """What is no longer as an apply left it."""
    return [f"{plan.repository}: {name}" for plan in plans for name in find_moved(record, plan)]


def _program(record: TrialRecord) -> GitProgram:
    return GitProgram((record.root,))


def write_plans(directory: str, plans: Sequence[GitChanges]) -> None:
    """Into a journal, before anything is moved."""
    if not plans:
        return
    path = os.path.join(directory, _NAME)
    with open(f"{path}.new", "w", encoding="ascii") as file:
        json.dump([_to_json(plan) for plan in plans], file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)


def read_plans(directory: str) -> tuple[GitChanges, ...]:
    try:
        with open(os.path.join(directory, _NAME), encoding="ascii") as file:
            return tuple(map(_from_json, json.load(file)))
    except FileNotFoundError:
        return ()


def _to_json(plan: GitChanges) -> dict[str, Any]:
    head, stash, index = plan.head, plan.stash, plan.index
    return {
        "repository": plan.repository,
        "hash_length": plan.hash_length,
        "moves": [[move.name, move.old, move.new] for move in plan.moves],
        "head": [head.name, head.old, head.new] if head is not None else None,
        "stash": [_log(stash.old), _log(stash.new)] if stash is not None else None,
        "index": [_text(index.old), _text(index.new), index.changed] if index is not None else None,
    }


def _from_json(found: dict[str, Any]) -> GitChanges:
    stash, index = found["stash"], found["index"]
    return GitChanges(
        found["repository"],
        moves=tuple(RefMove(*fields) for fields in found["moves"]),
        head=RefMove(*found["head"]) if found["head"] is not None else None,
        stash=StashMove(_read_log(stash[0]), _read_log(stash[1])) if stash else None,
        index=IndexMove(base64.b64decode(index[0]), base64.b64decode(index[1]), index[2]) if index else None,
        hash_length=found["hash_length"],
    )


def _read_log(log: Iterable[Sequence[str]]) -> tuple[LogEntry, ...]:
    return tuple(LogEntry(*each) for each in log)


def _log(log: Iterable[LogEntry]) -> list[list[str]]:
    return [[entry.new, entry.name, entry.email, entry.date, entry.message] for entry in log]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
