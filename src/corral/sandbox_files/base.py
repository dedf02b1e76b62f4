"""Files: read, write, list and copy files of a kept sandbox from outside, while commands run in it.

Paths are the sandbox's: absolute, or relative to the working directory that was given. Errors are those
of Python's own functions (FileNotFoundError, IsADirectoryError, PermissionError, ...) with the sandbox's
path as `filename`; what the policy forbids is a PolicyError.

TRUST: all of this is done with the caller's rights, on names, links, modes and sizes that a hostile
command chooses and changes meanwhile. `place.py` says how objects are held, `put.py` how they are
written, `root.py` and `granted.py` how they are found.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from abc import ABC, abstractmethod

from corral.model.file_entry import CopyBounds, FileEntry, FileKind
from corral.sandbox_files.held_file import HeldFile, Spot, naming, refusal
from corral.sandbox_files.put import check_writable, put_file, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    #: Whether a name in the directory with this status must not be made: the planner watches it.
    IsProtected = Callable[["HeldFile", str], bool]

#: What `read` takes at most unless told: a sparse file costs a command nothing, and the caller his memory.
MOST_READ = 256 * 1024**2
#: Names in one listing.
MOST_LISTED = 100_000
_CHUNK = 1024**2
#: Of link after link; as the kernel, path_resolution(7).
MOST_LINKS = 40
#: Of what `parents` makes.
_DIRECTORY_MODE = 0o755
_BOUNDS = CopyBounds()
_BY_TYPE = {stat.S_IFREG: FileKind.FILE, stat.S_IFDIR: FileKind.DIRECTORY, stat.S_IFLNK: FileKind.LINK}


class Files(ABC):
    """May be used by several threads at once."""

    def __init__(self, is_protected: IsProtected, *, cwd: str = "/") -> None:
        self._is_protected = is_protected
        self._cwd = cwd

    # How things are found differs; what is done with them does not.

    @abstractmethod
    def find(self, path: str) -> HeldFile:
        """Hold what is at an absolute path, links followed. Raises OSError, PolicyError."""

    @abstractmethod
    def find_spot(self, path: str, *, parents: bool) -> Spot:
        """Hold the directory in which a path ends, links followed to the last. Raises as `find` does."""

    @abstractmethod
    def child(self, parent: HeldFile, name: str) -> HeldFile:
        """Hold an entry of a directory itself, a link included. Raises OSError, PolicyError."""

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        """The contents of a regular file; one of more than `limit` bytes is an error (EFBIG), never cut."""
        most = MOST_READ if limit is None else limit
        with naming(path), self.find(self.absolute(path)) as place:
            descriptor = place.open_file(os.O_RDONLY)
            try:
                return _read(descriptor, place.status.st_size, most)
            finally:
                os.close(descriptor)

    def write(self, path: str, data: bytes, *, mode: int = 0o644, parents: bool = False) -> None:
        """Make a file, or give one new contents at once; a file that is there keeps its mode and owner.

        `parents` makes the directories that are missing. A link is followed as inside, never out.
        """
        if not 0 <= mode <= 0o777:
            raise ValueError(f"{mode:#o} is more than permission bits")
        contents = memoryview(data).cast("B")
        with naming(path), self.find_spot(self.absolute(path, file=True), parents=parents) as spot:
            self.check_name(spot.parent, spot.name, path)
            put_file(spot, lambda descriptor: write_all(descriptor, contents), mode)

    def status(self, path: str) -> FileEntry:
        """What a path leads to, links followed; its name is the one that was asked for."""
        absolute = self.absolute(path)
        with naming(path), self.find(absolute) as place:
            return _entry(absolute.rstrip("/").rpartition("/")[2] or "/", place.status)

    def list(self, path: str = ".") -> tuple[FileEntry, ...]:
        """The entries of a directory, sorted by name. Links are told, not followed."""
        with naming(path), self.find(self.absolute(path)) as place:
            descriptor = place.open_directory()
            try:
                entries = _entries(descriptor)
            finally:
                os.close(descriptor)
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def upload(
        self,
        source: str | os.PathLike[str],
        path: str,
        *,
        parents: bool = False,
        bounds: CopyBounds = _BOUNDS,
    ) -> None:
        """Copy a file or a tree of the host to this very path of the sandbox; see `transfer.py`."""
        from corral.sandbox_files.transfer import Upload

        Upload(self, bounds).copy(os.fspath(source), path, parents=parents)

    def download(self, path: str, target: str | os.PathLike[str], *, bounds: CopyBounds = _BOUNDS) -> None:
        """Copy a file or a tree of the sandbox to this very path of the host; see `transfer.py`."""
        from corral.sandbox_files.transfer import Download

        Download(self, bounds).copy(path, os.fspath(target))

    def absolute(self, path: str, *, file: bool = False) -> str:
        """The absolute path that a caller means. Raises ValueError for NUL, OSError for no name at all."""
        path = os.fspath(path)
        if "\0" in path:
            raise ValueError("embedded null byte")
        if not path:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        if file and path.rpartition("/")[2] in {"", ".", ".."}:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        return path if path.startswith("/") else f"{self._cwd}/{path}"

    def check_name(self, parent: HeldFile | None, name: str, path: str) -> None:
        """Raise PolicyError if nobody may make this name in the directory that is really held."""
        if parent is not None and self._is_protected(parent, name):
            raise refusal(
                "file-protected",
                f"{path} cannot be written",
                why=f"{name} is protected there: the host may run or obey it later",
                fix="write it from outside the sandbox",
            )

    def make_directory(self, parent: HeldFile, name: str, path: str, mode: int = _DIRECTORY_MODE) -> HeldFile:
        """Make a directory, if there is none, and hold it. A link of that name is not followed."""
        self.check_name(parent, name, path)
        try:
            place = self.child(parent, name)
        except FileNotFoundError:
            check_writable(Spot(parent, name, None))
            with contextlib.suppress(FileExistsError):  # made meanwhile: it is looked at like anything else
                os.mkdir(name, mode, dir_fd=parent.descriptor)
            place = self.child(parent, name)
        return place.as_directory()


def _read(descriptor: int, size: int, most: int) -> bytes:
    # The size is a claim: the file may grow, and a sparse one may be larger than memory.
    if size > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes")
    parts: list[bytes] = []
    total = 0
    while part := os.read(descriptor, min(max(size - total, 0) + 1, _CHUNK)):
        total += len(part)
        if total > most:
            raise OSError(errno.EFBIG, f"it has more than {most} bytes")
        parts.append(part)
        size = max(size, total + len(part))  # of one that grows: in steps that grow with it
    return b"".join(parts) if len(parts) != 1 else parts[0]


def _entries(descriptor: int) -> list[FileEntry]:
    entries: list[FileEntry] = []
    with os.scandir(descriptor) as found:
        for entry in found:
            if len(entries) >= MOST_LISTED:
                raise OSError(errno.EFBIG, f"it has more than {MOST_LISTED} entries")
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # gone meanwhile
            entries.append(_entry(entry.name, status))
    return entries


def _entry(name: str, status: os.stat_result) -> FileEntry:
    kind = _BY_TYPE.get(stat.S_IFMT(status.st_mode), FileKind.OTHER)
    return FileEntry(name, kind, status.st_size, stat.S_IMODE(status.st_mode), status.st_mtime)
