"""Apply a trial, wholly or in part, and undo what was applied."""

from __future__ import annotations

import os
from enum import StrEnum

from corral.model.errors import PolicyError, SetupError
from corral.model.printable import printable
from corral.model.record import Record
from corral.trials.base import Bases
from corral.trials.carry_out import Carrier
from corral.trials.changes import find_changes
from corral.trials.git.bring_over import bring_objects, changed_since, move_all, move_back
from corral.trials.git.plan import find_git_changes
from corral.trials.host_tree import HostTree
from corral.trials.journal import make_journal, read_journals
from corral.trials.record import hold_trial, reading_trial
from corral.trials.recovery import recover
from corral.trials.selection import Selection, build_steps, is_at, select_changes
from corral.trials.undo import Reverser, find_changed_since, find_unsafe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from corral.trials.change import TrialChange
    from corral.trials.git.plan import GitChanges
    from corral.trials.journal import Journal
    from corral.trials.record import TrialRecord

_MOST_SAID = 8


class Prefer(StrEnum):
    """What to do where the host has changed a path meanwhile."""

    NEITHER = "neither"  # nothing at all is applied
    THEIRS = "theirs"  # the trial's
    OURS = "ours"  # the host's: such paths are left out
    MERGE = "merge"  # both, where it is known how a file was before; else nothing at all is applied


class Applied(Record):
    changes: tuple[TrialChange, ...]  # that were applied
    left: tuple[str, ...] = ()  # where the host was there first, or which were left out for that
    reserved: tuple[TrialChange, ...] = ()  # not taken over unless named, or at all
    resumed: int = 0  # steps of an earlier apply that was stopped, and has been finished now
    git: tuple[GitChanges, ...] = ()  # what was brought over into repositories
    git_left: tuple[GitChanges, ...] = ()  # what cannot be, and why


def apply_trial(
    record: TrialRecord,
    paths: Collection[str] = (),
    *,
    without: Collection[str] = (),
    protected: Collection[str] = (),
    prefer: Prefer = Prefer.NEITHER,
) -> Applied:
    """Take over changes. Raises PolicyError where the host has changed the same, SetupError if stopped."""
    with reading_trial(record), hold_trial(record), HostTree(record) as tree:
        resumed = _finish(record, tree)
        bases = Bases(record)
        changes = tuple(find_changes(record))
        bases.settle(changes)
        selection = select_changes(changes, paths, without=without, protected=protected)
        repositories = [
            each for each in find_git_changes(record) if _is_asked(each.repository, paths, without)
        ]
        _check_asked(selection, protected, record.repositories)
        if prefer is Prefer.MERGE:
            selection = _merge(record, bases, tree, selection)
        chosen, git, left = _decide(bases, tree, selection, repositories, prefer)
        unable = tuple(each for each in repositories if each.problem or each.left)
        if not chosen and not git:
            return Applied((), left, selection.reserved, resumed, git_left=unable)
        bring_objects(record, git)
        steps = build_steps(
            *(chosen, lambda path: bases.seen[path] if path in bases.seen else tree.stamp(path)),
            lambda path: _text(tree, path),
        )
        with make_journal(record, steps, git) as journal:
            moved = _carry_out(record, journal, tree, bases)
            taken = {journal.steps[number].path for number in journal.left}
        done = tuple(change for change in chosen if change.path not in taken)
        return Applied(done, (*left, *sorted(taken), *moved), selection.reserved, resumed, git, unable)


def undo_trial(record: TrialRecord, prefer: Prefer = Prefer.NEITHER) -> tuple[str, ...]:
    """Undo the last apply that is not undone; returns the paths. Raises PolicyError if they changed."""
    with reading_trial(record), hold_trial(record), HostTree(record) as tree:
        journals = read_journals(record)
        try:
            last = next((journal for journal in reversed(journals) if not journal.is_over), None)
            if last is None:
                raise _nothing_applied(record)
            if last.is_unfinished and not last.is_undoing:
                _recover(last, tree, "undo")  # ORDER: before what was done is compared
            changed = [*find_changed_since(record, last), *changed_since(record, last.git)]
            if changed and prefer is Prefer.NEITHER:
                raise _not_undone("the workspace has changed since it was applied", changed)
            leave = frozenset(changed) if prefer is Prefer.OURS else frozenset()
            unsafe = find_unsafe(record, last, tree, leave)
            if unsafe and prefer is Prefer.NEITHER:
                raise _not_undone("by what has changed since, git would work elsewhere than it did", unsafe)
            return _undo(record, last, tree, leave.union(unsafe))
        finally:
            for journal in journals:
                journal.close()


def _undo(record: TrialRecord, journal: Journal, tree: HostTree, leave: frozenset[str]) -> tuple[str, ...]:
    try:
        kept = move_back(record, journal.git, keep=tuple(leave)) if journal.git else ()
        now = Reverser(journal, tree).run(leave)
    except OSError as problem:
        raise _stopped(problem, "undo") from None
    Bases(record).note(now)
    repositories = {each.repository for each in journal.git if f"{each.repository}: HEAD" not in kept}
    return tuple(sorted({path for path, _ in now} | repositories))


def has_something_to_undo(record: TrialRecord) -> bool:
    """Whether an apply of this trial is not undone."""
    journals = read_journals(record)
    for journal in journals:
        journal.close()
    return any(not journal.is_over and (journal.done or journal.git) for journal in journals)


def _finish(record: TrialRecord, tree: HostTree) -> int:
    """Go on with what was stopped; returns the number of steps."""
    journals = read_journals(record)
    try:
        last = journals[-1] if journals else None
        if last is None or not last.is_unfinished:
            return 0
        if last.is_undoing:
            _undo(record, last, tree, frozenset(find_unsafe(record, last, tree, frozenset())))
            return 1
        before = len(last.done)
        _recover(last, tree, "apply")
        _carry_out(record, last, tree, Bases(record))
        return len(last.done) - before
    finally:
        for journal in journals:
            journal.close()


def _recover(journal: Journal, tree: HostTree, verb: str) -> None:
    try:
        recover(journal, tree)
    except OSError as problem:
        raise _stopped(problem, verb) from None


def _carry_out(record: TrialRecord, journal: Journal, tree: HostTree, bases: Bases) -> tuple[str, ...]:
    """Returns what of the repositories the host had moved meanwhile."""
    left: tuple[str, ...] = ()
    try:
        if journal.git:  # ORDER: before the steps, whose end is the end of the journal
            left = move_all(record, journal.git)
        with Carrier(record, journal, tree) as carrier:
            carrier.run()
    except OSError as problem:
        raise _stopped(problem, "apply") from None
    bases.note((journal.steps[number].path, stamp) for number, stamp in sorted(journal.done.items()))
    return left


def _merge(record: TrialRecord, bases: Bases, tree: HostTree, selection: Selection) -> Selection:
    """What is chosen, once the trial has what comes of both where they conflict. Raises PolicyError."""
    conflicts = bases.conflicts(tree, selection.chosen)
    if not conflicts:
        return selection
    from corral.trials.merge import merge_conflicts

    problems = merge_conflicts(record, bases, tree, selection.chosen, conflicts)
    if problems:
        raise _conflicting({path: f"{conflicts[path]}; {why}" for path, why in problems.items()})
    wanted = {change.path for change in selection.chosen}
    chosen = tuple(change for change in find_changes(record) if change.path in wanted)
    return selection.replace(chosen=chosen)


def _decide(
    bases: Bases, tree: HostTree, selection: Selection, repositories: Sequence[GitChanges], prefer: Prefer
) -> tuple[tuple[TrialChange, ...], tuple[GitChanges, ...], tuple[str, ...]]:
    """The changes to make, what to bring over of repositories, and what is left to the host."""
    conflicts = bases.conflicts(tree, selection.chosen)
    moved = {
        f"{each.repository}: {name}": "it was moved on the host meanwhile"
        for each in repositories
        for name in each.conflicts()
    }
    if (conflicts or moved) and prefer in {Prefer.NEITHER, Prefer.MERGE}:
        raise _conflicting({**conflicts, **moved})
    able = [each for each in repositories if not each.problem and any(each.parts())]
    if prefer is Prefer.THEIRS:
        return selection.chosen, tuple(each.taking_theirs() for each in able), ()
    able = [part for each in able if any((part := each.without_conflicts()).parts())]
    kept = tuple(
        change
        for change in selection.chosen
        if not any(change.path == path or change.path.startswith(f"{path}/") for path in conflicts)
    )
    return kept, tuple(able), (*sorted(conflicts), *sorted(moved))


def _is_asked(repository: str, paths: Collection[str], without: Collection[str]) -> bool:
    is_named = not paths or any(is_at(repository, path) for path in paths)
    return is_named and not any(is_at(repository, path) for path in without)


def _check_asked(selection: Selection, protected: Collection[str], repositories: Collection[str]) -> None:
    unknown = [path for path in selection.unknown if not any(is_at(each, path) for each in repositories)]
    if unknown:
        raise PolicyError(
            "trial-path",
            f"the trial has not changed {printable(unknown[0])}",
            why="only what a trial changed can be applied, by its path in the workspace",
            fix="`corral changes` lists the paths",
        )
    named = [change for change in selection.reserved if change.path in protected]
    if named:
        raise PolicyError(
            "trial-reserved",
            f"{printable(named[0].path)} cannot be taken over by anyone",
            why="it belongs to a git directory, or is not a file, link or directory",
            fix="leave it out",
        )


def _text(tree: HostTree, path: str) -> str:
    directory, name = tree.parent(path)
    return os.readlink(name, dir_fd=directory)


def _listed(lines: Sequence[str]) -> str:
    more = f"; and {len(lines) - _MOST_SAID} more" if len(lines) > _MOST_SAID else ""
    return "; ".join(map(printable, lines[:_MOST_SAID])) + more


def _conflicting(conflicts: dict[str, str]) -> PolicyError:
    return PolicyError(
        "trial-conflict",
        "nothing was applied: the workspace has changed where the trial did",
        why=_listed([f"{path}: {why}" for path, why in sorted(conflicts.items())]),
        fix="`corral apply --theirs` takes the trial's, `--ours` leaves these paths as they are, "
        "`--merge` puts both together where it can",
    )


def _not_undone(why: str, paths: Sequence[str]) -> PolicyError:
    return PolicyError(
        "trial-conflict",
        f"nothing was undone: {why}",
        why=_listed(paths),
        fix="`corral undo --ours` leaves these paths as they are and undoes the others",
    )


def _nothing_applied(record: TrialRecord) -> PolicyError:
    return PolicyError(
        "trial-nothing-applied",
        "there is nothing to undo",
        why=f"nothing of trial {record.identity} is applied, or it is undone",
        fix="`corral trials` lists the trials of this workspace",
    )


def _stopped(problem: OSError, verb: str) -> SetupError:
    place = f"{printable(os.fsdecode(problem.filename))}: " if problem.filename else ""
    return SetupError(
        "trial-stopped",
        f"the {verb} stopped on its way; no file is half written",
        why=f"{place}{problem.strerror or problem}",
        fix="fix that and run the same command again, which goes on from there; or `corral undo`",
        ran=True,
    )
