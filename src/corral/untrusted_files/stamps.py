"""Stamps: whether the files that say what is protected are as they were when the sandbox was planned.

A git configuration names hooks and programs, and it can be changed in its place, which no mount notices.
"""

from __future__ import annotations

import os
import stat as stat_bits

from corral.model.plan import FileStamp
from corral.model.policy import FsAccess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.plan import Plan


class Stamps:
    """Of one kept sandbox. Not for several threads at once."""

    def __init__(self, plan: Plan) -> None:
        """Commands may make or write some of these files: the configuration of a repository that they make.

        Those have a new stamp whenever everything has ended: what is different later is the host's doing.
        """
        writable = {g.target.path for g in plan.resolved.grants if g.access is FsAccess.WRITE}
        shielded = {shield.target.path for shield in plan.shields}
        self._firm = {stamp.path: stamp for stamp in plan.readings}
        self._loose: dict[str, FileStamp] = {}
        for path in self._firm.copy():
            real = os.path.realpath(path)
            if is_inside(real, writable) and not is_inside(real, shielded):
                self._loose[path] = self._firm.pop(path)

    def changed(self, *, is_idle: bool) -> list[str]:
        """Those that are different from what was read; of what commands may write, if none of them runs."""
        compared = (*self._firm.values(), *(self._loose.values() if is_idle else ()))
        return [stamp.path for stamp in compared if stamp_of(stamp.path) != stamp]

    def settle(self) -> None:
        """Nothing runs any more: what commands wrote is theirs."""
        self._loose = {path: stamp_of(path) for path in self._loose}

    def renew(self, written: Iterable[FileStamp]) -> None:
        """The runner itself has written files, which may have been read by other names."""
        for new in written:
            for path, old in self._firm.items():
                if (old.device, old.inode) == (new.device, new.inode):
                    self._firm[path] = new.replace(path=path)


def stamp_of(path: str) -> FileStamp:
    """How a file is now."""
    try:
        return stamp_from(path, os.stat(path))
    except (OSError, ValueError):  # which says as much to who reads it: there is nothing
        return FileStamp(path)


def stamp_from(path: str, status: os.stat_result) -> FileStamp:
    """The stamp of a status. What is no file is not read, and changes with every name that is made in it."""
    if not stat_bits.S_ISREG(status.st_mode):
        return FileStamp(path, status.st_dev, status.st_ino)
    return FileStamp(path, status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


def is_inside(path: str, places: set[str]) -> bool:
    """Whether a path is one of them or lies in one. There may be thousands of both."""
    while path not in places and path != "/":
        path = os.path.dirname(path)
    return path in places
