"""Originals: how files were before a trial changed them, kept where that costs nothing.

A copy that shares its blocks with a file (a reflink) is made at once, whatever the size. Where the file
system cannot do that (ext4), there are no originals, and what git has must do (`merge.py`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

from corral.trials.change import EntryKind
from corral.trials.stamp import stamp_of
from corral.untrusted_files.steps import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.trials.host_tree import HostTree
    from corral.trials.record import TrialRecord
    from corral.trials.stamp import Stamp

_ORIGINALS = "originals"
_FICLONE = 0x40049409
_CANNOT = frozenset({errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS})
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def original_path(record: TrialRecord, path: str) -> str:
    """Where the copy of a file is."""
    import hashlib

    return os.path.join(record.directory, _ORIGINALS, hashlib.sha256(os.fsencode(path)).hexdigest())


class Originals:
    """Of one trial."""

    def __init__(self, record: TrialRecord) -> None:
        self._record = record
        self._is_able = True  # whether this file system can

    def keep(self, tree: HostTree, path: str, stamp: Stamp) -> None:
        """How a file is that a trial has changed. Raises OSError where nothing can be written at all."""
        if not self._is_able or stamp.kind != EntryKind.FILE:
            return
        place = original_path(self._record, path)
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        try:
            source = open_regular(*tree.parent(path), os.O_RDONLY)
        except OSError:
            return
        try:
            self._clone(source, place, stamp)
        finally:
            os.close(source)

    def _clone(self, source: int, place: str, stamp: Stamp) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)
        target = os.open(place, _NEW, 0o600)
        try:
            fcntl.ioctl(target, _FICLONE, source)
            os.fchmod(target, stamp.mode & 0o777 | 0o400)
            is_that = stamp_of(os.fstat(source)) == stamp
        except OSError as problem:
            self._is_able = problem.errno not in _CANNOT
            is_that = False
        finally:
            os.close(target)
        if not is_that:
            os.unlink(place)
        if not self._is_able:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(place))


def copy_originals(record: TrialRecord, other: TrialRecord) -> None:
    """A fork has those of the trial before it: the same files, which nobody writes."""
    source, target = (os.path.join(each.directory, _ORIGINALS) for each in (record, other))
    with contextlib.suppress(FileNotFoundError):
        names = os.listdir(source)
        os.mkdir(target, 0o700)
        for name in names:
            os.link(os.path.join(source, name), os.path.join(target, name))
