"""Undo: put back what an apply changed, as long as it is as the apply left it."""

from __future__ import annotations

import contextlib
import errno
import os

from corral.git_formats.index import MalformedIndex
from corral.trials.carry_out import Taken, place, set_mode
from corral.trials.changes import PARTS, folded, is_repository
from corral.trials.copying import copy_content
from corral.trials.git.links import LinksOfGit, find_links_before
from corral.trials.git.plan import directories_back
from corral.trials.host_tree import HostTree
from corral.trials.journal import JournalMark, StepKind
from corral.trials.selection import above_of
from corral.trials.stamp import Stamp, stamp_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.trials.git.plan import GitChanges
    from corral.trials.journal import ApplyStep, Journal
    from corral.trials.record import TrialRecord

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def find_changed_since(record: TrialRecord, journal: Journal) -> list[str]:
    """Paths that are no longer as an apply left them."""
    last: dict[str, int] = {}
    for number in journal.done:
        last[journal.steps[number].path] = number
    with HostTree(record) as tree:
        return [
            path
            for path, number in sorted(last.items())
            if number not in journal.undone and not _is_as_left(tree, journal, number)
        ]


def _is_as_left(tree: HostTree, journal: Journal, number: int) -> bool:
    try:
        after, now = journal.done[number], tree.stamp(journal.steps[number].path)
    except PermissionError:
        return True  # in a directory that was closed by the apply itself, which is looked at as well
    if after is None:
        return now is None or journal.is_undoing
    if now is not None and (now.device, now.inode) == journal.restaged.get(number):
        return True
    return after.is_same(now) or (journal.is_undoing and now is None)


def find_unsafe(record: TrialRecord, journal: Journal, tree: HostTree, leave: frozenset[str]) -> list[str]:
    """What is not to be put back: with what came meanwhile it would lead git elsewhere.

    TRUST: by itself each was the host's own, or harmless. A later command knows it, and can make the rest.
    """
    back = {step.path: step for step in _to_undo(journal) if not _is_left(step.path, leave)}
    found, indexes = [], dict[str, frozenset[bytes]]()
    for plan in journal.git:
        name = f"{plan.repository}: index"
        if plan.index is None or name in leave:
            continue
        try:
            whole, new = directories_back(plan.index, plan.hash_length)
            is_safe = {*_links_before(record, plan, new)} <= {*back}
        except (OSError, MalformedIndex):
            is_safe = False
        if is_safe:
            indexes[os.path.dirname(os.path.join(record.root, plan.repository))] = whole
        else:
            found.append(name)
    links = LinksOfGit(record, folded)
    for path, step in back.items():
        is_link = step.before is not None and step.before.kind == "link"
        if (is_link and links.are_tracked_with(path, indexes)) or _completes_repository(tree, back, path):
            found.append(path)
    return found


def _is_left(path: str, leave: frozenset[str]) -> bool:
    """Also what is in there: it is no directory any more."""
    return path in leave or any(above in leave for above in above_of(path))


def _to_undo(journal: Journal) -> Iterator[ApplyStep]:
    return (journal.steps[number] for number in journal.done if number not in journal.undone)


def _links_before(record: TrialRecord, plan: GitChanges, directories: frozenset[bytes]) -> list[str]:
    top = os.path.dirname(plan.repository)
    return [os.path.join(top, link) for link in find_links_before(record, plan.repository, directories)]


def _completes_repository(tree: HostTree, back: dict[str, ApplyStep], path: str) -> bool:
    above, name = os.path.split(path)
    if name not in PARTS or back[path].before is None:
        return False
    here = {part: os.path.join(above, part) for part in PARTS}
    now = {part for part, place in here.items() if tree.stamp(place) is not None}
    then = {part for part, place in here.items() if (back[place].before if place in back else part in now)}
    return is_repository(then) and not is_repository(now)


class Reverser:
    """Undoes the steps of one journal, the last first."""

    def __init__(self, journal: Journal, tree: HostTree) -> None:
        self._journal, self._tree = journal, tree

    def run(self, leave: frozenset[str] = frozenset()) -> list[tuple[str, Stamp | None]]:
        """Undo all but some paths; returns what is there now. Raises OSError, and the next call goes on."""
        journal = self._journal
        if not journal.is_undoing:
            journal.note(JournalMark.UNDOING)
        for number in sorted(journal.done, reverse=True):
            step = journal.steps[number]
            if number in journal.undone or _is_left(step.path, leave):
                continue
            with contextlib.suppress(Taken):
                self._reverse(number, step)
                journal.note(JournalMark.UNDONE, number)
        journal.note(JournalMark.OVER)
        return list(self._now())

    def _now(self) -> Iterator[tuple[str, Stamp | None]]:
        for path in {self._journal.steps[number].path: None for number in self._journal.undone}:
            yield path, self._tree.stamp(path)

    def _reverse(self, number: int, step: ApplyStep) -> None:
        directory, name = self._tree.parent(step.path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._journal.temporary(number), dir_fd=directory)
        now = stamp_at(directory, name)
        if now is not None and (now.device, now.inode) == self._journal.restaged.get(number):
            return
        match step.do:
            case StepKind.DIRECTORY:
                _remove_directory(directory, name, now)
            case StepKind.REMOVE_DIRECTORY:
                self._make_directory(step, directory, name, now)
            case StepKind.MODE:
                if now is not None:  # what was made new is removed next, with what is in it
                    set_mode(directory, name, step.before.mode if step.before is not None else 0o700)
            case StepKind.FILE | StepKind.LINK | StepKind.REMOVE:
                if step.before is not None:
                    self._restore(number, step, directory, name)
                elif now is not None:
                    os.unlink(name, dir_fd=directory)

    def _make_directory(self, step: ApplyStep, directory: int, name: str, now: Stamp | None) -> None:
        assert step.before is not None
        if now is None:
            os.mkdir(name, 0o700, dir_fd=directory)
        set_mode(directory, name, step.before.mode)

    def _restore(self, number: int, step: ApplyStep, directory: int, name: str) -> None:
        """The old object itself, where it was kept by a second name; else a copy."""
        assert step.before is not None
        temporary = self._journal.temporary(number)
        if step.before.kind == "link":
            os.symlink(step.text, temporary, dir_fd=directory)
        elif not self._has_old_object(number, step, directory, temporary):
            self._copy_back(number, step, directory, temporary)
        made = os.stat(temporary, dir_fd=directory, follow_symlinks=False)
        self._journal.note(JournalMark.RESTAGED, number, made.st_dev, made.st_ino)
        place(directory, temporary, name, is_new=self._journal.done[number] is None)

    def _has_old_object(self, number: int, step: ApplyStep, directory: int, temporary: str) -> bool:
        assert step.before is not None
        backup = self._journal.backup(number)
        status = os.lstat(backup)
        if (status.st_dev, status.st_ino) != (step.before.device, step.before.inode):
            return False
        os.link(backup, temporary, dst_dir_fd=directory, follow_symlinks=False)
        return True

    def _copy_back(self, number: int, step: ApplyStep, directory: int, temporary: str) -> None:
        assert step.before is not None
        source = os.open(self._journal.backup(number), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(source)
            target = os.open(temporary, _NEW, 0o600, dir_fd=directory)
            try:
                copy_content(source, target, status.st_size)
                with contextlib.suppress(PermissionError):
                    os.fchown(target, step.before.uid, step.before.gid)
                os.fchmod(target, step.before.mode)
                os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
            finally:
                os.close(target)
        finally:
            os.close(source)


def _remove_directory(directory: int, name: str, now: Stamp | None) -> None:
    if now is None:
        return
    try:
        os.rmdir(name, dir_fd=directory)
    except OSError as problem:
        if problem.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        raise Taken(errno.ENOTEMPTY, "it is no longer empty", name) from None
