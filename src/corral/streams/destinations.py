"""Destinations: output that goes to a function, a path or a file of the caller's, and not into memory."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys

from corral.model.errors import PolicyError, SetupError
from corral.model.record import Record
from corral.streams.sinks import Passed, Sink
from corral.untrusted_files.steps import open_down

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class BinaryFile(Protocol):
        """Whatever bytes can be written to."""

        def write(self, data: bytes, /) -> Any: ...

    #: Called with "stdout" or "stderr" and a piece, as soon as it comes.
    Stream = Callable[[str, bytes], object]
    Target = str | os.PathLike[str] | BinaryFile

_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Appending: one file may be given for both streams. Not truncated before it is known to be a file.
_FILE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NULL_DEVICE = os.makedev(1, 3) if sys.platform == "linux" else os.stat(os.devnull).st_rdev


class Destinations(Record):
    """Where the caller wants the output; None: into the result."""

    stream: Stream | None = None
    stdout: Target | None = None
    stderr: Target | None = None

    def open(self, name: str) -> Sink | None:
        """The sink of one stream, if it is not to be kept. Raises PolicyError if it cannot be had."""
        target = self.stdout if name == "stdout" else self.stderr
        takers: list[Sink] = [] if self.stream is None else [_Called(name, self.stream)]
        if target is not None:
            takers.insert(0, _open_target(name, target))  # first: what the function is told of is there
        return Passed(takers) if takers else None


class _Called(Sink):
    """Calls a function of the caller's with every piece."""

    def __init__(self, name: str, function: Stream) -> None:
        if not callable(function):
            raise PolicyError(
                "output-target",
                f"output cannot be streamed to {function!r}",
                why="it is not a function",
                fix="give one that takes a name and bytes, as in `def hear(name, data): ...`",
            )
        self._name = name
        self._function = function

    def take(self, piece: bytes) -> None:
        self._function(self._name, piece)


class _Written(Sink):
    """Writes every piece to a file object, which stays the caller's own."""

    def __init__(self, name: str, file: BinaryFile, label: str) -> None:
        self._name = name
        self._file = file
        self._label = label

    def take(self, piece: bytes) -> None:
        try:
            while piece:
                piece = piece[self._write(piece) :]
        except OSError as problem:
            raise self._not_written(problem) from problem

    def _write(self, piece: bytes) -> int:
        written = self._file.write(piece)
        if isinstance(written, int) and written > 0:
            return written
        if written is None and not isinstance(self._file, io.RawIOBase):
            return len(piece)  # it does not count
        raise BlockingIOError(errno.EAGAIN, "it takes nothing now")

    def finish(self) -> None:
        """What is told as done is done: a full disk must not show itself after the answer."""
        try:
            if hasattr(self._file, "flush"):
                self._file.flush()
        except OSError as problem:
            raise self._not_written(problem) from problem

    def _not_written(self, problem: OSError) -> SetupError:
        return SetupError(
            "output-not-written",
            f"what the command printed on {self._name} could not be written to {self._label}",
            why=problem.strerror or str(problem),
            fix="free some space or choose another place; the command was ended, the earlier output is there",
            ran=True,
        )


class _Opened(_Written):
    """Writes to a file that was opened here, and so is closed here."""

    def __init__(self, name: str, descriptor: int, label: str) -> None:
        self._raw = io.FileIO(descriptor, "wb")
        super().__init__(name, self._raw, label)

    def finish(self) -> None:
        try:
            self._raw.close()  # on some file systems, only now it shows that the disk was full
        except OSError as problem:
            raise self._not_written(problem) from problem

    def close(self) -> None:
        self._raw.close()


def _open_target(name: str, target: Target) -> Sink:
    if isinstance(target, str | os.PathLike):
        path = os.fsdecode(target)
        return _Opened(name, _open_path(path), repr(path))
    if isinstance(target, io.TextIOBase) or not callable(getattr(target, "write", None)):
        raise PolicyError(
            "output-target",
            f"{name} cannot go to {target!r}",
            why="it is neither a path nor a file object that takes bytes",
            fix="open the file with mode 'wb', or give the `buffer` of a text file",
        )
    return _Written(name, target, type(target).__name__)


def _open_path(path: str) -> int:
    """A descriptor to write to an empty file with. Nothing but a file is ever opened for writing."""
    try:
        directory = _open_directory(os.path.dirname(path))
        try:
            return _open_file(os.path.basename(path), directory)
        finally:
            os.close(directory)
    except (OSError, ValueError) as problem:
        raise _not_opened(path, problem) from problem


def _open_directory(path: str) -> int:
    # TRUST: an earlier command may have put a link where it could write, so none is followed.
    return open_down(os.open("/" if path.startswith("/") else ".", _DIRECTORY), path, _DIRECTORY)


def _open_file(name: str, directory: int) -> int:
    with contextlib.suppress(FileNotFoundError):  # looked at first: opening a device may be an act in itself
        _check_kind(os.stat(name, dir_fd=directory, follow_symlinks=False))
    descriptor = os.open(name, _FILE, 0o600, dir_fd=directory)
    try:
        found = os.fstat(descriptor)
        _check_kind(found)
        if stat.S_ISREG(found.st_mode):
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "it is a link, which a command may have made")
    is_null = stat.S_ISCHR(found.st_mode) and found.st_rdev == _NULL_DEVICE
    if not stat.S_ISREG(found.st_mode) and not is_null:
        raise OSError(errno.EINVAL, "it is neither a file nor /dev/null")


def _not_opened(path: str, problem: OSError | ValueError) -> PolicyError:
    is_name = isinstance(problem, OSError)  # else there can be no such path at all
    real = os.path.realpath(path) if is_name else ""
    why = getattr(problem, "strerror", None) or str(problem)
    linked = is_name and os.path.abspath(path) != real
    return PolicyError(
        "output-target",
        f"output cannot be written to {path!r}",
        why=f"links are not followed, and it points to {real}" if linked else why,
        fix="name the real path, if that is meant" if linked else "name a file that this user can write",
    )
