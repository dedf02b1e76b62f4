"""Recovery: whether the steps at which an apply was stopped have happened."""

from __future__ import annotations

import contextlib
import errno
import os

from corral.trials.carry_out import set_mode
from corral.trials.exchange import load_exchange
from corral.trials.journal import StepKind
from corral.trials.stamp import stamp_at, stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.trials.host_tree import HostTree
    from corral.trials.journal import Journal

_MANY = 1 << 30


def recover(journal: Journal, tree: HostTree) -> None:
    """Find out about each step that may have been begun, note what was done, and clear up after the rest.

    INVARIANT: these are two at most: no step is begun before the one before the last is written down.
    """
    begun = 0
    for number, step in enumerate(journal.steps):
        if number in journal.done or number in journal.left:
            continue
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            _settle(journal, number, *tree.parent(step.path))
        begun += 1
        if begun == 2:
            break
    journal.settle()


def _settle(journal: Journal, number: int, directory: int, name: str) -> None:
    step, now = journal.steps[number], stamp_at(directory, name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(journal.temporary(number), dir_fd=directory)
    staged = journal.staged.get(number)
    if staged is not None and now is not None:
        if (now.device, now.inode) == (staged.device, staged.inode):
            _settle_staged(journal, number, directory, name)
    elif step.do is StepKind.REMOVE and now is None:
        if _is_kept(journal, number):  # else the host has removed it
            journal.note_done(number, None)
    elif step.do is StepKind.REMOVE_DIRECTORY and now is None:
        journal.note_done(number, None)
    elif step.do is StepKind.DIRECTORY and now is not None and now.kind == "directory":
        set_mode(directory, name, step.mode | 0o700)
        journal.note_done(number, stamp_at(directory, name))
    elif step.do is StepKind.MODE and now is not None and now.mode == step.mode:
        journal.note_done(number, now)


def _settle_staged(journal: Journal, number: int, directory: int, name: str) -> None:
    """What was made is in its place."""
    staged = journal.staged[number]
    if staged.by_exchange and not _is_kept(journal, number, itself=True):
        _exchange_back(journal, number, directory, name)
        return
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    stamp = stamp_of(status)
    if status.st_mtime_ns != staged.written_ns:
        stamp = stamp.replace(changed_ns=0)  # somebody has written there since: it is no more as it was left
    journal.note_done(number, stamp)


def _is_kept(journal: Journal, number: int, *, itself: bool = False) -> bool:
    """Whether what was there can be put back. A link is made again, a file may have been copied."""
    step = journal.steps[number]
    if step.before is None or step.before.kind != "file":
        return True
    try:
        kept = os.lstat(journal.backup(number))
    except FileNotFoundError:
        return False
    return not itself or (kept.st_dev, kept.st_ino) == (step.before.device, step.before.inode)


def _exchange_back(journal: Journal, number: int, directory: int, name: str) -> None:
    """What came out is the host's, put there at the last moment."""
    exchange = load_exchange(_MANY)
    if exchange is None:  # there was one
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), name)
    backups = os.open(journal.backups, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        exchange(backups, str(number), directory, name, -1)
    finally:
        os.close(backups)
