"""Stamp: how something in the workspace was when it was looked at, so that a change since then is seen."""

from __future__ import annotations

import os

from corral.model.record import Record
from corral.trials.change import EntryKind, kind_of


class Stamp(Record):
    kind: str
    device: int
    inode: int
    changed_ns: int  # the time that nobody can set; 0 of a directory, whose content has a say in it
    size: int
    mode: int
    uid: int
    gid: int

    def is_same(self, other: Stamp | None) -> bool:
        """Whether it is the same object, unchanged."""
        if other is None:
            return False
        return self._identity() == other._identity()

    def _identity(self) -> tuple[str, int, int, int]:
        return self.kind, self.device, self.inode, self.changed_ns

    def to_json(self) -> list[object]:
        return list(self._values())


def stamp_of(status: os.stat_result) -> Stamp:
    kind = kind_of(status)
    is_directory = kind is EntryKind.DIRECTORY
    return Stamp(
        *(kind.value, status.st_dev, status.st_ino, 0 if is_directory else status.st_ctime_ns),
        *(0 if is_directory else status.st_size, status.st_mode & 0o7777, status.st_uid, status.st_gid),
    )


def stamp_at(directory: int, name: str) -> Stamp | None:
    """What is at a name; None if there is nothing."""
    try:
        return stamp_of(os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None
