"""A git configuration and the copy of it that a command may change: what is harmless is taken over.

INVARIANT: the file itself is never replaced, only written. A rename over it would take the mounts of every
other sandbox off it, that of a command which runs right now included, and leave the new file open to it. And
a new file would have a name for a moment, by which such a command could get hold of it for later.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time

from corral.model.feature import Feature
from corral.model.launch import COPY_NAME
from corral.model.plan import MOST_COPIED_BYTES
from corral.model.violation import Evidence, Violation
from corral.untrusted_files.removal import open_up, remove_tree
from corral.untrusted_files.stamps import stamp_from
from corral.untrusted_files.steps import open_beneath, open_regular, read_bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.git_formats.judge import Judgement
    from corral.model.plan import ConfigCopy, FileStamp

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Where git itself says that it is writing; who finds it there waits, or gives up.
_LOCK = "config.lock"
_LOCK_SECONDS, _LOCK_PAUSE_SECONDS = 1.0, 0.01
#: Something else is there by now.
_ANOTHER = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.EFBIG})
_MOST_NAMES, _MOST_CHARACTERS = 8, 80


class Changed(Exception):
    """The file is not what was planned, or not what it was when the copy was made."""


class GitSettings:
    """One configuration: the file, its copy in a directory of the run, and how much of that is judged."""

    def __init__(self, copy: ConfigCopy, parent: int, name: str, original: bytes | None = None) -> None:
        """Make the copy. `parent` is a descriptor of a private directory. Raises OSError and Changed.

        Or it was made of this `original` by somebody else.
        """
        self._copy = copy
        self._parent, self._name = parent, name
        self.written: FileStamp | None = None  # how the file was when it was last written here
        if original is not None:
            self._original = self._judged = original
            return
        os.mkdir(name, 0o700, dir_fd=parent)
        self._original = self._judged = self._read_original()
        self._write_copy(self._original)

    @property
    def path(self) -> str:
        """The file itself."""
        return self._copy.target.path

    def refresh(self) -> None:
        """Make the copy what the file is. Nothing runs that could use it. Raises OSError and Changed."""
        self._original = self._read_original()
        with self._directory() as directory:
            try:
                is_same = _read(directory, COPY_NAME) == self._original
            except OSError:
                is_same = False
            if not is_same:
                remove_tree(directory, COPY_NAME)
        if not is_same:
            self._write_copy(self._original)
        self._judged = self._original

    def take_over(self) -> tuple[Violation, ...]:
        """Write what is harmless into the file; what is not, and why, is what is returned."""
        try:
            with self._directory() as directory:
                data = _read(directory, COPY_NAME)
        except OSError as problem:
            return self._nothing(f"the copy cannot be read: {problem.strerror or problem}")
        if data == self._judged:
            return ()
        self._judged = data
        from corral.git_formats.config import MalformedConfig
        from corral.git_formats.judge import Unproved, judge

        try:
            judgement = judge(self._original, data)
        except MalformedConfig as problem:
            return self._nothing(f"git would not read it: {problem}")
        except Unproved as problem:
            return self._nothing(str(problem))
        return self._settle(judgement)

    def _settle(self, judgement: Judgement) -> tuple[Violation, ...]:
        found: tuple[Violation, ...] = ()
        if judgement.refused:
            found = (self._violation(f"not taken over: {_listed(judgement.refused)}"),)
        if not judgement.taken:
            return found
        try:
            self._write_original(judgement.data)
        except Changed:
            return (*found, *self._nothing("another process changed the file in the meantime"))
        except OSError as problem:
            return (*found, *self._nothing(f"the file cannot be written: {problem.strerror or problem}"))
        self._original = judgement.data
        return found

    def _nothing(self, why: str) -> tuple[Violation, ...]:
        return (self._violation(f"no change of the configuration is taken over: {why}"),)

    def _violation(self, detail: str) -> Violation:
        return Violation(Feature.FS_PROTECT, self.path, Evidence.OBSERVED, detail)

    @contextlib.contextmanager
    def _directory(self) -> Iterator[int]:
        handle = open_up(self._parent, self._name)  # the command may have closed it to its owner
        try:
            yield handle
        finally:
            os.close(handle)

    def _write_copy(self, data: bytes) -> None:
        with self._directory() as directory:
            descriptor = os.open(COPY_NAME, _NEW_FILE, 0o600, dir_fd=directory)
            try:
                _write_whole(descriptor, data, 0)
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _opened(self, flags: int) -> Iterator[tuple[int, int]]:
        """The directory of the file and the file, if it is the planned one."""
        folder, name = os.path.split(self.path)
        directory = open_beneath(self._copy.root, folder)
        try:
            descriptor = open_regular(directory, name, flags)
            try:
                status = os.fstat(descriptor)
                planned = (self._copy.target.device, self._copy.target.inode)
                if (status.st_dev, status.st_ino) != planned or status.st_nlink != 1:
                    raise Changed(self.path)
                yield directory, descriptor
            finally:
                os.close(descriptor)
        finally:
            os.close(directory)

    def _read_original(self) -> bytes:
        try:
            with self._opened(os.O_RDONLY) as (_, descriptor):
                return read_bounded(descriptor, MOST_COPIED_BYTES)
        except OSError as problem:
            if problem.errno in _ANOTHER:
                raise Changed(self.path) from problem
            raise

    def _write_original(self, data: bytes) -> None:
        """Write the file in its place, from the first byte that differs, as far as it is still what it was.

        ORDER: what is longer than the new text becomes empty lines before it is cut off. So a file that fits
        a page, as most do, is whole for everyone who reads it meanwhile, or after we were killed.
        """
        with self._opened(os.O_RDWR) as (directory, descriptor), _locked(directory):
            before = read_bounded(descriptor, MOST_COPIED_BYTES)
            if before != self._original:
                raise Changed(self.path)
            pairs = enumerate(zip(before, data, strict=False))
            same = next((at for at, (old, new) in pairs if old != new), min(len(before), len(data)))
            _write_whole(descriptor, data[same:].ljust(len(before) - same, b"\n"), same)
            os.ftruncate(descriptor, len(data))
            self.written = stamp_from(self.path, os.fstat(descriptor))


@contextlib.contextmanager
def _locked(directory: int) -> Iterator[None]:
    """Hold the lock that git itself takes, so that no git of the host writes meanwhile. Raises OSError."""
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            lock = os.open(_LOCK, _NEW_FILE, 0o600, dir_fd=directory)
            break
        except FileExistsError:
            if time.monotonic() >= until:
                raise OSError(errno.EEXIST, f"somebody holds {_LOCK}") from None
            time.sleep(_LOCK_PAUSE_SECONDS)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            there = os.stat(_LOCK, dir_fd=directory, follow_symlinks=False)
            if os.path.samestat(there, os.fstat(lock)):
                os.unlink(_LOCK, dir_fd=directory)
        os.close(lock)


def _read(directory: int, name: str) -> bytes:
    descriptor = open_regular(directory, name, os.O_RDONLY)
    try:
        return read_bounded(descriptor, MOST_COPIED_BYTES)
    finally:
        os.close(descriptor)


def _write_whole(descriptor: int, data: bytes, at: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written


def _listed(refused: tuple[tuple[str, str], ...]) -> str:
    """Names and reasons for a person. TRUST: a command chose the names."""
    by_reason: dict[str, list[str]] = {}
    for name, why in refused[:_MOST_NAMES]:
        shown = name if name.isprintable() else ascii(name)
        by_reason.setdefault(why, []).append(shown[:_MOST_CHARACTERS])
    more = len(refused) - _MOST_NAMES
    listed = "; ".join(f"{', '.join(names)} ({why})" for why, names in by_reason.items())
    return f"{listed}; and {more} more" if more > 0 else listed
