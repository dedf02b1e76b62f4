"""Carry out the steps of a journal, one after the other, from wherever it stopped.

INVARIANT: a file is made beside its place, whole, as a new object of the caller's: a command may have sent a
descriptor of the one in its layer to somebody, who would still write there.
"""

from __future__ import annotations

import contextlib
import errno
import os

from corral.trials.change import EntryKind
from corral.trials.copying import copy_content
from corral.trials.exchange import CANNOT, load_exchange, passes_on
from corral.trials.journal import JournalMark, StepKind
from corral.trials.layer import open_parent, open_stack
from corral.trials.stamp import Stamp, stamp_at, stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.trials.host_tree import HostTree
    from corral.trials.journal import ApplyStep, Journal
    from corral.trials.layer import Entry, LayerStack
    from corral.trials.record import TrialRecord

#: What no second name can be made of, or not there: then it is copied.
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES})
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Taken(OSError):
    """Something else is at a path than what was seen there."""


class Carrier:
    """Does the steps of one journal."""

    def __init__(self, record: TrialRecord, journal: Journal, tree: HostTree) -> None:
        self._journal, self._tree = journal, tree
        self._stack = open_stack(record.layers)
        self._last: tuple[str, LayerStack] | None = None  # the layers of the directory that was used last
        self._has_nameless = True  # whether this file system makes files without a name
        self._backups = os.open(journal.backups, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        replaced = sum(step.do is StepKind.FILE and step.before is not None for step in journal.steps)
        self._exchange = load_exchange(replaced)
        self._passing_on: tuple[str, bool] | None = None  # a directory, and whether it does that

    def __enter__(self) -> Carrier:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # whoever comes next finds it out
            self._journal.settle()
        self._forget()
        self._stack.close()
        os.close(self._backups)

    def run(self) -> None:
        """All steps that are not done. Raises OSError at the first that fails; the next call goes on."""
        journal = self._journal
        for number, step in enumerate(journal.steps):
            if number in journal.done or number in journal.left:
                continue
            try:
                self._step(number, step)
            except (Taken, FileNotFoundError, NotADirectoryError, FileExistsError):
                journal.note(JournalMark.LEFT, number)
        journal.note(JournalMark.APPLIED)

    def _step(self, number: int, step: ApplyStep) -> None:
        directory, name = self._tree.parent(step.path)
        if step.do is StepKind.FILE or step.do is StepKind.LINK:  # these look just before
            stamp = self._put(number, step, directory, name)
            self._journal.note_done(number, stamp)
            return
        self._journal.settle()
        self._check_as_seen(number, step, directory, name)
        match step.do:
            case StepKind.REMOVE:
                self._keep(number, step, directory, name)
                os.unlink(name, dir_fd=directory)
            case StepKind.REMOVE_DIRECTORY:
                self._remove_directory(directory, name)
            case StepKind.DIRECTORY:
                os.mkdir(name, 0o700, dir_fd=directory)
                set_mode(directory, name, step.mode | 0o700)
            case StepKind.MODE:
                set_mode(directory, name, step.mode)
        self._journal.note_done(number, stamp_at(directory, name))
        self._journal.settle()

    def _remove_directory(self, directory: int, name: str) -> None:
        try:
            os.rmdir(name, dir_fd=directory)
        except OSError as problem:
            if problem.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise
            raise Taken(errno.ENOTEMPTY, "the host has put something there", name) from None

    def _put(self, number: int, step: ApplyStep, directory: int, name: str) -> Stamp | None:
        """Put a file or a link in its place, in the way that takes least here; returns what is there."""
        stamp = None
        if step.do is StepKind.FILE and step.before is None and self._has_nameless:
            stamp = self._put_new(number, step, directory, name)
        elif self._can_exchange(step, directory):
            stamp = self._put_by_exchange(number, step, directory, name)
        if stamp is not None:
            return stamp
        self._put_beside(number, step, directory, name)
        return stamp_at(directory, name)

    def _put_new(self, number: int, step: ApplyStep, directory: int, name: str) -> Stamp | None:
        """A file that gets its name when it is whole. What has appeared there meanwhile stays."""
        stack, entry = self._layer(step.path)
        try:
            target = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, step.mode, dir_fd=directory)
        except OSError as problem:
            if problem.errno not in {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}:
                raise
            self._has_nameless = False
            return None
        try:
            self._journal.note_staged(number, _copy(stack, entry, target, step))
            os.link(f"/proc/self/fd/{target}", name, dst_dir_fd=directory, follow_symlinks=True)
            return stamp_of(os.fstat(target))
        finally:
            os.close(target)

    def _can_exchange(self, step: ApplyStep, directory: int) -> bool:
        if self._exchange is None or step.do is not StepKind.FILE:
            return False
        if step.before is None or step.before.kind != EntryKind.FILE:
            return False
        above = step.path.rpartition("/")[0]
        if self._passing_on is None or self._passing_on[0] != above:
            self._passing_on = above, passes_on(directory)
        return not self._passing_on[1]

    def _put_by_exchange(self, number: int, step: ApplyStep, directory: int, name: str) -> Stamp | None:
        """Make it among the backups, and have both change places: the old one is kept by the same call."""
        assert self._exchange is not None
        assert step.before is not None
        stack, entry = self._layer(step.path)
        backup = str(number)
        target = self._open_among_backups(number, step, directory, name)
        try:
            made = _copy(stack, entry, target, step)
            self._journal.note_staged(number, made, by_exchange=True)
            self._check_as_seen(number, step, directory, name)
            try:
                self._exchange(self._backups, backup, directory, name, target)
            except OSError as problem:
                if problem.errno not in CANNOT:
                    raise
                self._exchange = None
                os.unlink(backup, dir_fd=self._backups)
                return None
            old = os.stat(backup, dir_fd=self._backups, follow_symlinks=False)
            if (old.st_dev, old.st_ino) != (step.before.device, step.before.inode):
                self._exchange(self._backups, backup, directory, name, -1)
                raise _taken(step)
            return stamp_of(os.fstat(target))
        finally:
            os.close(target)

    def _open_among_backups(self, number: int, step: ApplyStep, directory: int, name: str) -> int:
        try:
            return os.open(str(number), _NEW, step.mode, dir_fd=self._backups)
        except FileExistsError:  # of somebody who was stopped; or the old one, if the host was here since
            self._check_as_seen(number, step, directory, name)
            os.unlink(str(number), dir_fd=self._backups)
            return os.open(str(number), _NEW, step.mode, dir_fd=self._backups)

    def _put_beside(self, number: int, step: ApplyStep, directory: int, name: str) -> None:
        temporary = self._journal.temporary(number)
        stack, entry = self._layer(step.path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        try:
            if step.do is StepKind.LINK:
                os.symlink(stack.read_link(entry), temporary, dir_fd=directory)
            else:
                target = os.open(temporary, _NEW, 0o600, dir_fd=directory)
                try:
                    _copy(stack, entry, target, step)
                finally:
                    os.close(target)
            made = os.stat(temporary, dir_fd=directory, follow_symlinks=False)
            if step.before is not None:
                self._keep(number, step, directory, name)
            self._journal.note_staged(number, made)
            self._check_as_seen(number, step, directory, name)
            place(directory, temporary, name, is_new=step.before is None)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise

    def _check_as_seen(self, number: int, step: ApplyStep, directory: int, name: str) -> None:
        """Raise Taken unless the host has what it had: but for a second name, the backup that corral made."""
        try:
            now = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            if step.before is not None or step.do is StepKind.MODE:
                raise _taken(step) from None
            return
        if step.before is None:
            if step.do is not StepKind.MODE:
                raise _taken(step)
        elif not step.before.is_of(now):
            kept = _look(self._journal.backup(number))
            if not kept == (now.st_dev, now.st_ino) == (step.before.device, step.before.inode):
                raise _taken(step)

    def _keep(self, number: int, step: ApplyStep, directory: int, name: str) -> None:
        """Keep what a step removes: by a second name if that can be, else as a copy."""
        if step.before is None or step.before.kind != "file":
            return
        backup = self._journal.backup(number)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(backup)
        try:
            os.link(name, backup, src_dir_fd=directory, follow_symlinks=False)
        except OSError as problem:
            if problem.errno not in _NO_LINK:
                raise
            _copy_to_backup(directory, name, backup)

    def _layer(self, path: str) -> tuple[LayerStack, Entry]:
        above, _, name = path.rpartition("/")
        if self._last is None or self._last[0] != above:
            self._forget()
            parent, entry = open_parent(self._stack, path)
            self._last = (above, parent)
            return parent, entry
        return self._last[1], self._last[1].entry(name)

    def _forget(self) -> None:
        if self._last is not None:
            self._last[1].close()
        self._last = None


def _look(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _taken(step: ApplyStep) -> Taken:
    return Taken(errno.EEXIST, "the host has changed it in the meantime", step.path)


def _copy(stack: LayerStack, entry: Entry, target: int, step: ApplyStep) -> os.stat_result:
    """Returns what was made.

    TRUST: somebody may hold a descriptor of the file in the layer. What changes meanwhile is not taken; the
    time of change is one that nobody can set."""
    source = stack.open_file(entry)
    try:
        status = os.fstat(source)
        copy_content(source, target, status.st_size)
        if step.before is not None and (step.before.uid, step.before.gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.fchown(target, step.before.uid, step.before.gid)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        made = os.fstat(target)
        if made.st_mode & 0o7777 != step.mode:
            os.fchmod(target, step.mode)
        after = os.fstat(source)
        if (after.st_ctime_ns, after.st_size) != (status.st_ctime_ns, status.st_size):
            raise OSError(errno.EBUSY, "it changes while it is copied", step.path)
        return made
    finally:
        os.close(source)


def _copy_to_backup(directory: int, name: str, backup: str) -> None:
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        status = os.fstat(source)
        target = os.open(backup, _NEW, 0o600)
        try:
            copy_content(source, target, status.st_size)
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(target)
    finally:
        os.close(source)


def place(directory: int, temporary: str, name: str, *, is_new: bool) -> None:
    """Put what was made beside it in its place. What has appeared at a new name is never replaced."""
    if is_new:
        try:
            os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
        except OSError as problem:
            if problem.errno not in _NO_LINK or stamp_at(directory, name) is not None:
                raise
        else:
            os.unlink(temporary, dir_fd=directory)
            return
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)


def set_mode(directory: int, name: str, mode: int) -> None:
    """TrialChange the mode of the very object at a name, which is no link."""
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.chmod(f"/proc/self/fd/{held}", mode)
    finally:
        os.close(held)
