"""What a trial has changed, in lines for a person."""

from __future__ import annotations

from corral.model.printable import printable, quoted
from corral.model.rules.quantities import format_duration, format_size
from corral.trials.change import ChangeAction, EntryKind, Reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from corral.trials.change import TrialChange
    from corral.trials.git.plan import GitChanges
    from corral.trials.record import TrialRecord

#: Longer lists are cut on a terminal; `corral changes` has all.
MOST_LINES = 40


def summarize(changes: Sequence[TrialChange], git: Sequence[GitChanges] = ()) -> str:
    """How many of each kind: `2 added, 1 changed, 3 deleted`, and whether repositories have changed."""
    listed = [change for change in worth_listing(changes) if change.reserve is not Reserve.GIT]
    counts = {action: sum(change.action is action for change in listed) for action in ChangeAction}
    said = [f"{count} {action.value}" for action, count in counts.items() if count]
    moves = sum(len(tuple(each.parts())) for each in git)
    said += [f"{moves} in git"] if moves else []
    return ", ".join(said) or "no changes"


def worth_listing(changes: Sequence[TrialChange]) -> list[TrialChange]:
    """Without directories that only hold other changes."""
    above = {change.path.rpartition("/")[0] for change in changes}
    plain = {ChangeAction.ADDED, ChangeAction.DELETED}
    return [
        change
        for change in changes
        if not (change.kind is EntryKind.DIRECTORY and change.action in plain and change.path in above)
    ]


def describe_changes(
    changes: Sequence[TrialChange], most: int | None = None, git: Sequence[GitChanges] = ()
) -> Iterator[str]:
    """A line for each change; files of git directories are counted."""
    listed = [change for change in worth_listing(changes) if change.reserve is not Reserve.GIT]
    width = min(max((len(printable(change.path)) for change in listed[:most]), default=0), 60)
    for change in listed[:most]:
        yield describe_change(change, width)
    if most is not None and len(listed) > most:
        yield f"... and {len(listed) - most} more; `corral changes` lists all"
    for line in (line for each in git for line in each.lines()):
        yield printable(line)
    in_git = len(changes) - sum(change.reserve is not Reserve.GIT for change in changes)
    if in_git:
        files = "1 other file" if in_git == 1 else f"{in_git} other files"
        yield f"git      {files} in git directories stay{'s' * (in_git == 1)} in the trial"


def describe_change(change: TrialChange, width: int = 0) -> str:
    """What happened to one path."""
    slash = "/" if change.kind is EntryKind.DIRECTORY else ""
    leads = f" -> {printable(change.target)}" if change.target else " (a link)"
    path = f"{printable(change.path)}{slash}{leads if change.kind is EntryKind.LINK else ''}"
    return "  ".join(
        filter(None, (f"{change.action.value:<7}", f"{path:<{width}}", _size(change), _mark(change)))
    )


def _size(change: TrialChange) -> str:
    if change.only_mode:
        return f"mode {change.before_mode:o} -> {change.mode:o}"
    if change.kind is not EntryKind.FILE:
        return ""
    before, after = (format_size(size, rounded=True) for size in (change.before_size, change.size))
    if change.action is ChangeAction.ADDED:
        return after
    if change.action is ChangeAction.DELETED:
        return before
    return before if before == after else f"{before} -> {after}"


def _mark(change: TrialChange) -> str:
    match change.reserve:
        case Reserve.PROTECTED:
            return f"! protected; only with --protected {quoted(change.path)}"
        case Reserve.GIT:
            return "stays in the trial: it belongs to git"
        case Reserve.SPECIAL:
            return "stays in the trial: no file, link or directory"
        case Reserve.UNREADABLE:
            return "stays in the trial: unknown kind of file"
        case _:
            return "! the host runs this later" if change.is_run_later else ""


def describe_room(record: TrialRecord) -> str:
    """How much of its size a trial has used."""
    used, size = (format_size(each, rounded=True) for each in (record.used_bytes, record.size_bytes))
    return f"{used} of {size} and {record.used_files} of {record.files} files are used"


def describe_trial(
    record: TrialRecord, changes: Sequence[TrialChange], size: int, git: Sequence[GitChanges] = ()
) -> str:
    """One line of the list of trials."""
    age = format_duration(int(record.age_seconds)) if record.age_seconds >= 1 else "0s"
    command = f"  {printable(record.command)}" if record.command else ""
    taken = format_size(size, rounded=True)
    return f"{record.identity}  {age:>10}  {taken:>9}  {summarize(changes, git)}{command}"
