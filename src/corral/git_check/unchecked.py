"""Runs whose check of git directories has not ended well, or not at all: marks in the state directory.

What such a run left is no host's own. The next run in the same place checks it first, against what was there
when that run began. A mark is locked for as long as its run lasts.
"""

from __future__ import annotations

import contextlib
import fcntl
import marshal
import os
import time

from corral.git_check.pointers import is_beneath
from corral.untrusted_files.quarantine import make_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_FORMAT = 1
OF_ENTRY = b"CORMARK\x01"
_CLAIMED, _UNFINISHED = ".checked", ".new"
_MOST_BYTES = 1 << 28
_KEPT_SECONDS = 30 * 24 * 3600  # of a workspace that is not there, and may be on a disk that comes back
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_UNREADABLE = (OSError, ValueError, EOFError, TypeError)


class Mark:
    """Of one run or session, in a directory of corral's own; nowhere if there is none."""

    def __init__(self, directory: str, path: str = "", lock: int = -1) -> None:
        self._directory, self.path, self._lock = directory, path, lock

    def set(self, roots: Sequence[str], state: tuple[Any, ...]) -> None:
        """A command is about to start. Replaces the one before as a whole.

        ORDER: locked before it has its name: who finds one without a lock takes it for a dead run's.
        Where nothing can be written, there is no mark: the check itself is made all the same.
        """
        if not self._directory:
            return
        with contextlib.suppress(OSError, ValueError):
            data = marked(roots, state)
            make_private(self._directory)
            path = self.path or os.path.join(self._directory, os.urandom(8).hex())
            temporary = path + _UNFINISHED
            lock = os.open(temporary, _NEW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                with open(lock, "wb", closefd=False) as file:
                    file.write(data)
                os.rename(temporary, path)
            except BaseException:
                os.close(lock)
                os.unlink(temporary)
                raise
            self._release()
            self.path, self._lock = path, lock

    def read(self) -> tuple[Any, ...] | None:
        """What it holds; None if that is nothing."""
        try:
            kind, _, state = _decode(os.pread(self._lock, os.fstat(self._lock).st_size, 0))
        except _UNREADABLE:
            return None
        return state if kind == _FORMAT else None

    def claim(self) -> bool:
        """Say that its run has ended, and is checked; False if another one has done that meanwhile."""
        with contextlib.suppress(OSError):
            if not self.path.endswith(_CLAIMED):
                os.rename(self.path, self.path + _CLAIMED)
                self.path += _CLAIMED
            return os.path.samestat(os.stat(self.path), os.fstat(self._lock))
        return False

    def remove(self) -> None:
        """All was checked."""
        if self.path:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
            self.path = ""
        self._release()

    def _release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def close(self) -> None:
        """What has not been removed stays for the next run."""
        self._release()


def marked(roots: Sequence[str], state: tuple[Any, ...]) -> bytes:
    """What is in the file of a mark."""
    return marshal.dumps((_FORMAT, tuple(roots), state))


def _decode(data: bytes) -> tuple[int, tuple[str, ...], tuple[Any, ...]]:
    """A mark of the entry program's has its own time, and the rest from a run before (`entry/mark.c`)."""
    if not data.startswith(OF_ENTRY):
        found: tuple[int, tuple[str, ...], tuple[Any, ...]] = marshal.loads(data)  # noqa: S302 - corral's own file
        return found
    since_ns = int.from_bytes(data[len(OF_ENTRY) : len(OF_ENTRY) + 8], "little")
    kind, roots, (scope, begun, own) = marshal.loads(data[len(OF_ENTRY) + 8 :])  # noqa: S302
    return kind, roots, (scope, (since_ns, *begun[1:]), own)


def find_abandoned(directory: str, roots: Sequence[str]) -> Iterator[tuple[Mark, tuple[Any, ...]]]:
    """The marks that nobody holds, of runs that wrote where these roots are; each is locked meanwhile."""
    try:
        names = os.listdir(directory) if directory else []
    except FileNotFoundError:
        return
    for name in names:
        path = os.path.join(directory, name)
        try:
            lock = os.open(path, _READ)
        except OSError:
            continue  # gone meanwhile
        mark = Mark(directory, path, lock)
        try:
            state = _read(lock, path, roots)
            if state is not None and mark.claim():
                yield mark, state
        finally:
            mark.close()


def _read(lock: int, path: str, roots: Sequence[str]) -> tuple[Any, ...] | None:
    """TRUST: a file of the caller's own; in the state directory of somebody else nothing is believed."""
    try:
        # Who finds one that another run checks waits for that: it may fail.
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if path.endswith(_CLAIMED) else fcntl.LOCK_NB))
        if path.endswith(_UNFINISHED):
            os.unlink(path)  # of a run that was killed before its command began
            return None
        status = os.fstat(lock)
        if status.st_uid != os.geteuid() or status.st_size > _MOST_BYTES:
            return None
        kind, places, state = _decode(os.pread(lock, status.st_size, 0))
    except _UNREADABLE:
        return None
    if status.st_mtime < time.time() - _KEPT_SECONDS and not any(map(os.path.lexists, places)):
        os.unlink(path)  # a workspace that is gone
    is_near = any(is_beneath(one, other) or is_beneath(other, one) for one in places for other in roots)
    return state if kind == _FORMAT and is_near else None
