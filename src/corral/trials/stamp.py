"""Stamp: how something in the workspace was when it was looked at, so that a change since then is seen."""

from __future__ import annotations

import os
import stat

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
        return (
            self.inode == other.inode
            and self.changed_ns == other.changed_ns
            and self.kind == other.kind
            and self.device == other.device
        )

    def is_of(self, status: os.stat_result) -> bool:
        """The same, of what the system has just said."""
        changed = 0 if stat.S_ISDIR(status.st_mode) else status.st_ctime_ns
        return (
            self.inode == status.st_ino
            and self.changed_ns == changed
            and self.device == status.st_dev
            and self.kind == kind_of(status)
        )

    def to_json(self) -> str:
        """As one text, without the way through a general encoder: there are some for each file."""
        what = f"{self.device}, {self.inode}, {self.changed_ns}, {self.size}"
        return f'["{self.kind}", {what}, {self.mode}, {self.uid}, {self.gid}]'


def stamp_of(status: os.stat_result) -> Stamp:
    kind = kind_of(status)
    is_directory = kind is EntryKind.DIRECTORY
    return Stamp(
        *(kind, status.st_dev, status.st_ino, 0 if is_directory else status.st_ctime_ns),
        *(0 if is_directory else status.st_size, status.st_mode & 0o7777, status.st_uid, status.st_gid),
    )


def stamp_at(directory: int, name: str) -> Stamp | None:
    """What is at a name; None if there is nothing."""
    try:
        return stamp_of(os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None
