"""The workspace, reached from its root one name at a time.

TRUST: what was applied before was of a command's making, and other commands may run in the workspace. No
link is followed on the way to anything, and the root must be the one that the trial lay over.
"""

from __future__ import annotations

import errno
import os

from corral.model.errors import SetupError
from corral.trials.stamp import stamp_at
from corral.untrusted_files.steps import open_down

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.trials.record import TrialRecord
    from corral.trials.stamp import Stamp

_DIRECTORY = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class HostTree:
    """Keeps the directory open that was used last: most changes lie beside one another."""

    def __init__(self, record: TrialRecord) -> None:
        self._root = open_root(record)
        self._directory, self._above = -1, ""
        self._missing = ""  # a directory that was not there when somebody asked last

    def __enter__(self) -> HostTree:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        os.close(self._root)

    def parent(self, path: str) -> tuple[int, str]:
        """The directory that holds a path, open until the next call, and the name there. Raises OSError."""
        above, _, name = path.rpartition("/")
        self._missing = ""
        if name in {"", ".", ".."}:
            raise OSError(errno.EINVAL, "this is not a name", path)
        if self._directory < 0 or above != self._above:
            self.forget()
            self._directory, self._above = self._open(above), above
        return self._directory, name

    def stamp(self, path: str) -> Stamp | None:
        """What is at a path; None if there is nothing."""
        above = path.rpartition("/")[0]
        if above and above == self._missing:
            return None
        try:
            return stamp_at(*self.parent(path))
        except (FileNotFoundError, NotADirectoryError):
            self._missing = above
            return None

    def forget(self) -> None:
        """Look the next path up from the root."""
        if self._directory >= 0:
            os.close(self._directory)
        self._directory = -1

    def _open(self, directory: str) -> int:
        return open_down(os.dup(self._root), directory, _DIRECTORY)


def open_root(record: TrialRecord) -> int:
    """The directory that the layers lay over. Raises SetupError if another one is there."""
    try:
        handle = os.open(record.root, _DIRECTORY)
    except OSError as problem:
        raise _another_root(record, problem.strerror or str(problem)) from None
    status = os.fstat(handle)
    if (status.st_dev, status.st_ino) == (record.device, record.inode):
        return handle
    os.close(handle)
    raise _another_root(record, "another directory is there now")


def _another_root(record: TrialRecord, why: str) -> SetupError:
    return SetupError(
        "trial-workspace",
        f"the workspace of trial {record.identity} is not there any more",
        why=f"{record.root}: {why}",
        fix="put it back in its place, or `corral discard` the trial",
    )
