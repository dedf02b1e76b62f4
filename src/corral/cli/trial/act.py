"""What the commands about trials do."""

from __future__ import annotations

import os
import sys

from corral.cli.run import print_json, report_error, say
from corral.cli.trial.show import describe_changes, describe_trial, summarize
from corral.cli.trial.tried import tell_applied
from corral.config.find import working_directory
from corral.model.errors import CorralError, PolicyError, SetupError
from corral.model.printable import printable
from corral.model.rules.quantities import parse_duration
from corral.trials.apply import Prefer, apply_trial, has_something_to_undo, undo_trial
from corral.trials.changes import find_changes
from corral.trials.git.plan import find_git_changes
from corral.trials.record import is_busy
from corral.trials.selection import is_at
from corral.trials.shelf import discard_trial, find_trial, list_trials, measure_trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from corral.trials.change import TrialChange
    from corral.trials.git.plan import GitChanges
    from corral.trials.record import TrialRecord


def _answer(act: Callable[[], None], *, as_json: bool = False) -> int:
    try:
        act()
    except CorralError as problem:
        return report_error(problem, as_json=as_json, about_command=False)
    return 0


def _workspace(cwd: str | None) -> str:
    return os.path.realpath(os.path.join(working_directory(), cwd or ""))


def show_changes(identity: str | None, cwd: str | None, *, as_json: bool) -> int:
    """`corral changes`."""

    def act() -> None:
        record = find_trial(identity, _workspace(cwd))
        changes, git = tuple(find_changes(record)), find_git_changes(record)
        if as_json:
            listed = [change.to_json() for change in changes]
            repositories = [each.to_json() for each in git]
            print_json(
                {"v": 1, "id": record.identity, "root": record.root, "changes": listed, "git": repositories}
            )
            return
        running = "; a command runs in it" if is_busy(record) else ""
        if running and record.size_bytes:
            running += ", in memory: its changes are listed when that has ended"
        sys.stdout.write(f"trial {record.identity}: {summarize(changes, git)}{running}\n")
        sys.stdout.writelines(f"{line}\n" for line in describe_changes(changes, git=git))

    return _answer(act, as_json=as_json)


def show_diff(words: Sequence[str], cwd: str | None, *, stat: bool) -> int:
    """`corral diff`."""

    def act() -> None:
        from corral.cli.trial.diff import print_diff

        record, paths = _split(words, cwd)
        changes = [
            change
            for change in find_changes(record)
            if not paths or any(is_at(change.path, path) for path in paths)
        ]
        print_diff(record, changes, stat=stat)

    return _answer(act)


def apply_words(words: Sequence[str], options: Mapping[str, Any]) -> int:
    """`corral apply`."""

    def act() -> None:
        preferred = [each for each in (Prefer.THEIRS, Prefer.OURS, Prefer.MERGE) if options[each.value]]
        if len(preferred) > 1:
            raise PolicyError(
                "contradiction",
                " and ".join(f"--{each.value}" for each in preferred) + " contradict each other",
                why="each says what to do where the workspace has changed as well",
                fix="use one of them",
            )
        record, paths = _split(words, options["cwd"])
        applied = apply_trial(
            *(record, paths),
            without=_relative(record, options["without"], options["cwd"]),
            protected=_relative(record, options["protected"], options["cwd"]),
            prefer=preferred[0] if preferred else Prefer.NEITHER,
        )
        if options["as_json"]:
            listed = [change.to_json() for change in applied.changes]
            reserved = [change.to_json() for change in applied.reserved]
            git = [each.to_json() for each in applied.git]
            left = {"left": applied.left, "reserved": reserved}
            print_json({"v": 1, "id": record.identity, "applied": listed, "git": git, **left})
        else:
            tell_applied(applied, record.identity)

    return _answer(act, as_json=options["as_json"])


def undo_last(identity: str | None, cwd: str | None, *, ours: bool, as_json: bool) -> int:
    """`corral undo`: of the latest trial of the workspace that has something applied."""

    def act() -> None:
        workspace = _workspace(cwd)
        applied = [] if identity else [r for r in list_trials(workspace) if has_something_to_undo(r)]
        record = applied[0] if applied else find_trial(identity, workspace)
        paths = undo_trial(record, Prefer.OURS if ours else Prefer.NEITHER)
        if as_json:
            print_json({"v": 1, "id": record.identity, "undone": list(paths)})
            return
        count = "1 path is" if len(paths) == 1 else f"{len(paths)} paths are"
        say(f"undone: {count} as before; trial {record.identity} can be applied again")

    return _answer(act, as_json=as_json)


def discard_trials(identities: Sequence[str], cwd: str | None, *, as_json: bool) -> int:
    """`corral discard`."""

    def act() -> None:
        discarded = []
        for record in [find_trial(identity, _workspace(cwd)) for identity in identities or (None,)]:
            lost = has_something_to_undo(record)
            discard_trial(record)
            discarded.append(record.identity)
            if not as_json:
                more = "; what was applied stays, and cannot be undone any more" if lost else ""
                say(f"trial {record.identity} is discarded{more}")
        if as_json:
            print_json({"v": 1, "discarded": discarded})

    return _answer(act, as_json=as_json)


def list_all(cwd: str | None, *, prune: bool, older: str | None, as_json: bool) -> int:
    """`corral trials`."""

    def act() -> None:
        seconds = parse_duration(older) if older is not None else None
        listed, discarded = [], 0
        for record in list_trials(None if cwd is None else _workspace(cwd)):
            changes, git = _changes_of(record)
            is_old = seconds is not None and record.age_seconds > seconds
            if prune and not is_busy(record) and (not (changes or git) or is_old):
                discard_trial(record)
                say(f"trial {record.identity} is discarded")
                discarded += 1
                continue
            listed.append((record, changes, measure_trial(record), git))
        if prune and not discarded:
            say("no trial is discarded" + (": each has something to apply, or is in use" if listed else ""))
        if as_json:
            print_json({"v": 1, "trials": [_trial_json(*each) for each in listed]})
            return
        if not listed:
            sys.stdout.write(
                "no trials in any workspace\n" if cwd is None else "no trials in this workspace\n"
            )
        for each in listed:
            place = f"  {printable(each[0].workspace)}" if cwd is None else ""
            sys.stdout.write(f"{describe_trial(*each)}{place}\n")

    return _answer(act, as_json=as_json)


def _changes_of(record: TrialRecord) -> tuple[tuple[TrialChange, ...], tuple[GitChanges, ...]]:
    try:
        return tuple(find_changes(record)), find_git_changes(record)
    except SetupError:  # its workspace is gone
        return (), ()


def _trial_json(
    record: TrialRecord, changes: tuple[TrialChange, ...], size: int, git: tuple[GitChanges, ...]
) -> dict[str, Any]:
    return {
        "id": record.identity,
        "workspace": record.workspace,
        "root": record.root,
        "began": record.began_ns / 1e9,
        "command": record.command,
        "bytes": size,
        "changes": len(changes),
        "git": sum(len(tuple(each.parts())) for each in git),
        "is_busy": is_busy(record),
    }


def _split(words: Sequence[str], cwd: str | None) -> tuple[TrialRecord, tuple[str, ...]]:
    """The trial, and paths in it. The first word is an id if one begins so and no such path is there."""
    workspace = _workspace(cwd)
    known = {record.identity for record in list_trials()}
    first = words[0] if words else ""
    names_one = bool(first) and any(identity.startswith(first) for identity in known)
    if names_one and not os.path.lexists(os.path.join(workspace, first)):
        record = find_trial(first, workspace)
        return record, _relative(record, words[1:], cwd)
    record = find_trial(None, workspace)
    return record, _relative(record, words, cwd)


def _relative(record: TrialRecord, paths: Sequence[str], cwd: str | None) -> tuple[str, ...]:
    """Paths as the trial has them: relative to its root, whose links are not followed."""
    here = _workspace(cwd)
    found = []
    for path in paths:
        place = os.path.normpath(os.path.join(here, path))
        if place != record.root and not place.startswith(f"{record.root.rstrip('/')}/"):
            raise PolicyError(
                "trial-path",
                f"{printable(path)} is not in the workspace of the trial",
                why=f"that is {record.root}",
                fix="`corral changes` lists the paths",
            )
        found.append(place[len(record.root.rstrip("/")) + 1 :])
    return tuple(found)
