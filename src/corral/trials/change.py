"""TrialChange: one difference between a workspace and what a trial made of it."""

from __future__ import annotations

import stat
from enum import StrEnum

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any


class ChangeAction(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"


class EntryKind(StrEnum):
    FILE = "file"
    LINK = "link"
    DIRECTORY = "directory"
    OTHER = "other"  # a device, a FIFO, a socket: never taken over


class Reserve(StrEnum):
    """Why a change is not simply taken over."""

    NONE = ""
    PROTECTED = "protected"  # the host may run it: only by its own name
    GIT = "git"  # of a repository: never as files
    SPECIAL = "special"  # no file, link or directory: never
    UNREADABLE = "unreadable"  # nobody knows what it means: never


class TrialChange(Record):
    path: str  # relative to the root of the trial
    action: ChangeAction
    kind: EntryKind  # of what is there afterwards; of what was there if it is deleted
    before: EntryKind | None = None  # what is there now
    size: int = 0
    before_size: int = 0
    mode: int = 0  # afterwards, without set-id bits
    before_mode: int = 0
    reserve: Reserve = Reserve.NONE
    is_run_later: bool = False  # build tools and test runners take it without being asked
    only_mode: bool = False  # what is in it is the same
    target: str = ""  # where a link leads afterwards

    def to_json(self) -> dict[str, Any]:
        """The change as plain values; names that are no text are escaped as Python does."""
        return {
            "path": self.path,
            "action": self.action.value,
            "kind": self.kind.value,
            "before": self.before.value if self.before is not None else None,
            "size": self.size,
            "before_size": self.before_size,
            "mode": f"{self.mode:o}",
            "before_mode": f"{self.before_mode:o}" if self.before is not None else None,
            "reserve": self.reserve.value or None,
            "is_run_later": self.is_run_later,
            "only_mode": self.only_mode,
            "target": self.target or None,
        }


_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFLNK: EntryKind.LINK, stat.S_IFDIR: EntryKind.DIRECTORY}


def kind_of(status: os.stat_result) -> EntryKind:
    """What an object is, as far as anybody may take it over."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), EntryKind.OTHER)
