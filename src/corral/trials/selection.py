"""Selection: which changes of a trial are to be applied, and as which steps. Pure, but for stamps."""

from __future__ import annotations

from corral.model.record import Record
from corral.trials.change import ChangeAction, EntryKind, Reserve, TrialChange
from corral.trials.journal import ApplyStep, StepKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from corral.trials.stamp import Stamp


class Selection(Record):
    chosen: tuple[TrialChange, ...]
    reserved: tuple[TrialChange, ...] = ()  # asked for, but not taken over: protected, of git, special
    unknown: tuple[str, ...] = ()  # asked for, and not changed


def select_changes(
    changes: Iterable[TrialChange],
    paths: Collection[str] = (),
    *,
    without: Collection[str] = (),
    protected: Collection[str] = (),
) -> Selection:
    """Changes at or beneath some paths (all, if there are none), but for others.

    Directories on the way to what is chosen come along. What is protected is taken by its own name alone. A
    directory is not removed while something in it stays.
    """
    listed = tuple(changes)
    wanted = [change for change in listed if _is_chosen(change, paths, without, protected)]
    reserved = tuple(change for change in wanted if not _is_permitted(change, protected))
    chosen = {change.path for change in wanted if _is_permitted(change, protected)}
    by_path = {change.path: change for change in listed}
    for directory in {path.rpartition("/")[0] for path in chosen}:
        above = (directory, *above_of(directory)) if directory else ()
        chosen.update(path for path in above if path in by_path and _leads(by_path[path]))
    stays = {above for change in listed if _stays(change, chosen) for above in above_of(change.path)}
    kept = [change for change in listed if change.path in chosen and not _is_held(change, stays)]
    asked = (*paths, *protected)
    unknown = tuple(path for path in asked if not any(is_at(change.path, path) for change in listed))
    return Selection(tuple(kept), reserved, unknown)


def _is_chosen(
    change: TrialChange, paths: Collection[str], without: Collection[str], protected: Collection[str]
) -> bool:
    if change.path in protected:
        return True
    is_asked = not paths or any(is_at(change.path, path) for path in paths)
    return is_asked and not any(is_at(change.path, path) for path in without)


def _is_permitted(change: TrialChange, protected: Collection[str]) -> bool:
    if change.reserve is Reserve.PROTECTED:
        return change.path in protected
    return change.reserve is Reserve.NONE


def _leads(change: TrialChange) -> bool:
    """Whether what lies beneath needs it: a directory that is new."""
    is_new = change.action is ChangeAction.ADDED or change.before is not EntryKind.DIRECTORY
    return (
        change.kind is EntryKind.DIRECTORY and is_new and change.reserve in {Reserve.NONE, Reserve.PROTECTED}
    )


def _stays(change: TrialChange, chosen: Collection[str]) -> bool:
    return change.action is ChangeAction.DELETED and change.path not in chosen


def _is_held(change: TrialChange, stays: Collection[str]) -> bool:
    """Whether a directory would have to go in which something stays."""
    goes = change.before is EntryKind.DIRECTORY and change.kind is not EntryKind.DIRECTORY
    return change.path in stays and (goes or change.action is ChangeAction.DELETED)


def is_at(path: str, place: str) -> bool:
    """Whether a path is a place or lies beneath it."""
    return place in {path, ""} or path.startswith(f"{place}/")


def above_of(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def build_steps(
    changes: Iterable[TrialChange], stamp: Callable[[str], Stamp | None], text: Callable[[str], str]
) -> tuple[ApplyStep, ...]:
    """What to do, in an order in which each step can be done: what goes, what comes, modes of directories.

    `stamp` and `text` look at the host: what is there, and where a link leads.
    """
    opening: list[ApplyStep] = []  # of directories that were closed: what lies inside comes next
    going: list[ApplyStep] = []
    coming: list[ApplyStep] = []
    modes: list[ApplyStep] = []
    for change in changes:
        before = stamp(change.path)
        link = text(change.path) if before is not None and before.kind == EntryKind.LINK else ""
        is_other_kind = change.before is not None and EntryKind.DIRECTORY in {change.kind, change.before}
        if change.action is ChangeAction.DELETED or (is_other_kind and change.kind is not change.before):
            is_directory = change.before is EntryKind.DIRECTORY
            do = StepKind.REMOVE_DIRECTORY if is_directory else StepKind.REMOVE
            going.append(ApplyStep(do, change.path, before=before, text=link))
            before, link = None, ""
        if change.action is ChangeAction.DELETED:
            continue
        if change.only_mode and change.kind is EntryKind.DIRECTORY and change.before_mode & 0o700 != 0o700:
            opening.append(ApplyStep(StepKind.MODE, change.path, change.mode | 0o700, before))
            modes += (
                [ApplyStep(StepKind.MODE, change.path, change.mode)] if change.mode & 0o700 != 0o700 else []
            )
        elif change.only_mode:
            (modes if change.kind is EntryKind.DIRECTORY else coming).append(
                ApplyStep(StepKind.MODE, change.path, change.mode, before)
            )
        elif change.kind is EntryKind.DIRECTORY:
            coming.append(ApplyStep(StepKind.DIRECTORY, change.path, change.mode))
            if change.mode & 0o700 != 0o700:
                modes.append(ApplyStep(StepKind.MODE, change.path, change.mode))
        else:
            do = StepKind.LINK if change.kind is EntryKind.LINK else StepKind.FILE
            coming.append(ApplyStep(do, change.path, change.mode, before, link))
    return (*opening, *going, *coming, *reversed(modes))
