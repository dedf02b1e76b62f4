"""AuditLog: a file that lines are appended to, by any number of processes, and that is rotated.

INVARIANT: under the lock, the file ends with a whole line before and after every write. What a crash has torn
is closed by the next writer, whose line says so.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from _thread import allocate_lock

from corral.audit.chain import NOTHING, PREV_END, SEQ, TAIL, TAIL_BYTES, Hasher, encode_line, plain_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Record = Mapping[str, object]

CURRENT = "audit.jsonl"
_LOCK = "lock"
DEFAULT_ROTATE_BYTES = 64 * 1024 * 1024
#: No line is longer: texts in records are cut.
_MOST_LINE_BYTES = 256 * 1024
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class AuditLog:
    """A sink for audit records: `write` appends them, all or none. Safe between threads and processes."""

    def __init__(
        self, directory: str, *, rotate_bytes: int = DEFAULT_ROTATE_BYTES, key: bytes | None = None
    ) -> None:
        self.directory = directory
        self._rotate_bytes = rotate_bytes
        self._hasher = Hasher(key)
        self._lock = allocate_lock()
        self._owner = 0
        self._lock_file = self._file = -1
        self._known = (0, 0)  # inode and size after our own last line
        self._last, self._number = NOTHING, 0

    def write(self, records: Sequence[Record]) -> None:
        """Append the records. Raises OSError if that is not possible; then none of them is there."""
        with self._lock:
            if self._owner != os.getpid():  # INVARIANT: a lock is of one process; a fork would share it
                self._open()
            fcntl.flock(self._lock_file, fcntl.LOCK_EX)
            try:
                self._append(records)
            finally:
                fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close its files; the next write opens them again."""
        with self._lock:
            for descriptor in (self._file, self._lock_file):
                if descriptor >= 0 and self._owner == os.getpid():
                    os.close(descriptor)
            self._file = self._lock_file = -1
            self._owner = 0

    def _open(self) -> None:
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        self._file = -1
        self._known = (0, 0)
        self._lock_file = os.open(os.path.join(self.directory, _LOCK), _FLAGS, 0o600)
        self._owner = os.getpid()

    def _append(self, records: Sequence[Record]) -> None:
        size = self._current()
        lines: list[bytes] = []
        if size == 0:
            self._begin(lines)
        elif self._known != (os.fstat(self._file).st_ino, size):
            self._read_tail(size, lines)
        known, self._known = self._known, (0, 0)  # what follows may fail halfway: then the tail is read again
        for record in records:
            self._add(record, lines)
        self._known = known
        self._put(b"".join(lines), size)

    def _add(self, record: Record, lines: list[bytes]) -> None:
        line, digest = encode_line(record, self._last, self._number + 1, self._hasher)
        if len(line) > _MOST_LINE_BYTES:
            raise OSError(errno.EMSGSIZE, "a record of the audit log is too long")
        lines.append(line)
        self._last, self._number = digest, self._number + 1

    def _current(self) -> int:
        """The size of the file that lines go to, which others may have rotated away."""
        path = os.path.join(self.directory, CURRENT)
        try:
            status = os.stat(path, follow_symlinks=False)
        except FileNotFoundError:
            status = None
        if self._file >= 0 and (status is None or os.fstat(self._file).st_ino != status.st_ino):
            os.close(self._file)
            self._file = -1
        if self._file < 0:
            self._file = os.open(path, _FLAGS, 0o600)
            status = os.fstat(self._file)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                os.close(self._file)
                self._file = -1
                raise PermissionError(errno.EPERM, "it is not a file of one's own", path)
        assert status is not None
        if status.st_size > self._rotate_bytes:
            self._rotate(path, status.st_size)
            return self._current()
        return status.st_size

    def _rotate(self, path: str, size: int) -> None:
        """Put the file aside, under the number of its last line; the chain goes on in a new one."""
        torn: list[bytes] = []
        self._read_tail(size, torn)
        if torn:
            self._put(b"".join(torn), size)
        os.rename(path, os.path.join(self.directory, f"audit-{self._number:012}.jsonl"))
        os.close(self._file)
        self._file = -1

    def _begin(self, lines: list[bytes]) -> None:
        """The first line of a file: which log it is, and by which algorithm it is chained."""
        if self._known == (0, 0) or self._number == 0:
            self._last, self._number = self._last_of_rotated()
        kernel = os.uname()
        about = {"event": "opened", "time": now(), "algorithm": self._hasher.algorithm}
        self._add({**about, "uid": os.geteuid(), "host": kernel.nodename, "kernel": kernel.release}, lines)

    def _last_of_rotated(self) -> tuple[str, int]:
        older = sorted(name for name in os.listdir(self.directory) if name.startswith("audit-"))
        if not older:
            return NOTHING, 0
        with open(os.path.join(self.directory, older[-1]), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_LINE_BYTES))
            return _parse_last(file.read())

    def _read_tail(self, size: int, lines: list[bytes]) -> None:
        """Where the chain stands; what a crash has torn gets an end, and a line that says so."""
        start = max(0, size - 2 * _MOST_LINE_BYTES)
        data = os.pread(self._file, size - start, start)
        whole, feed, torn = data.rpartition(b"\n")
        self._last, self._number = _parse_last(whole + feed)
        if not self._number:  # a crash has torn its first line, which followed those that were put aside
            self._last, self._number = self._last_of_rotated()
        if torn:
            lines.append(b"\n")
            about = {"event": "torn", "time": now(), "bytes": len(torn), "sha256": plain_hash(torn)}
            self._add(about, lines)

    def _put(self, data: bytes, size: int) -> None:
        """INVARIANT: all of it, or the file is as it was: a half line would be taken for a crash."""
        try:
            written = os.write(self._file, data)
            if written != len(data):
                raise OSError(errno.ENOSPC, "no space is left for the audit log", self.directory)
        except OSError:
            self._known = (0, 0)
            os.ftruncate(self._file, size)
            raise
        self._known = (os.fstat(self._file).st_ino, size + len(data))


def _parse_last(data: bytes) -> tuple[str, int]:
    """Hash and number of the last line that looks like one."""
    for line in reversed(data.splitlines(keepends=True)):
        if (
            line[-TAIL_BYTES : -TAIL_BYTES + len(TAIL)] == TAIL
            and line[PREV_END : PREV_END + len(SEQ)] == SEQ
        ):
            number, _, _ = line[PREV_END + len(SEQ) :].partition(b",")
            digest = line[-67:-3]
            if number.isdigit() and digest.isalnum():
                return digest.decode("ascii"), int(number)
    return NOTHING, 0


_second: tuple[int, str] = (0, "")  # the last whole second, and how it is written


def now(seconds: float | None = None) -> str:
    """A time as records have it: UTC, RFC 3339, microseconds."""
    moment = time.time() if seconds is None else seconds
    whole = int(moment)
    known, text = _second
    if known != whole:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        globals()["_second"] = (whole, text)
    return f"{text}.{int((moment - whole) * 1e6):06}Z"
