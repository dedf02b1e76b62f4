"""Layers of an overlay, read as the hostile thing they are: every entry was made by a command.

TRUST: everything is reached by descriptor, one name at a time, and no link is followed. Nothing is opened but
directories, and files that are files.
"""

from __future__ import annotations

import errno
import os
import stat

from corral.model.record import Record
from corral.untrusted_files.steps import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPAQUE = "user.overlay.opaque"
#: What overlayfs writes down for itself. Whatever else begins like this changes what an entry means.
_KNOWN = frozenset(
    {_OPAQUE, *(f"user.overlay.{name}" for name in ("origin", "impure", "nlink", "uuid", "upper"))}
)
_PREFIX = "user.overlay."


class Entry(Record):
    """What the layers have at a name: an object, or that there is none (`status` None: it was removed)."""

    name: str
    status: os.stat_result | None
    holders: tuple[int, ...] = ()  # directories that have it: one, or of a directory several, from the top
    is_opaque: bool = False  # of a directory: nothing below the layers shows through
    problem: str = ""  # why nobody knows what it means


class LayerStack:
    """Directories of one path in several layers, from the top down, as descriptors of its own.

    A command may have closed its directories to everybody. They are open to their owner as long as this is.
    """

    def __init__(self, handles: tuple[int, ...], *, is_opaque: bool = False) -> None:
        self.handles = handles
        self.is_opaque = is_opaque
        self._lifted: list[tuple[int, int]] = []  # and the mode to give back

    def close(self) -> None:
        for handle, mode in self._lifted:
            os.fchmod(handle, mode)
        for handle in self.handles:
            os.close(handle)

    def copy(self) -> LayerStack:
        """The same directories, by descriptors of its own."""
        return LayerStack(tuple(map(os.dup, self.handles)), is_opaque=self.is_opaque)

    def _lift(self) -> None:
        for handle in self.handles:
            mode = stat.S_IMODE(os.fstat(handle).st_mode)
            if mode & 0o700 != 0o700 and os.geteuid() != 0:
                os.fchmod(handle, mode | 0o700)
                self._lifted.append((handle, mode))

    def __enter__(self) -> LayerStack:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def entries(self) -> Iterator[Entry]:
        """What the layers have here, by name."""
        names: set[str] = set()
        for handle in self.handles:
            names.update(os.listdir(handle))
        for name in sorted(names):
            yield self.entry(name)

    def entry(self, name: str) -> Entry:
        """What is at one name; the topmost layer decides, and directories are merged until one is opaque."""
        holders: list[int] = []
        top: os.stat_result | None = None
        for handle in self.handles:
            try:
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if is_whiteout(status) or (holders and not stat.S_ISDIR(status.st_mode)):
                return Entry(name, top, tuple(holders), is_opaque=True)
            if not stat.S_ISDIR(status.st_mode):
                return Entry(name, status, (handle,), True, "")  # by position: most are files
            top = top or status
            holders.append(handle)
            marks = _marks(handle, name)
            if not marks <= _KNOWN:
                return Entry(name, status, tuple(holders), problem="it has an attribute that is not known")
            if _OPAQUE in marks:
                return Entry(name, top, tuple(holders), is_opaque=True)
        return Entry(name, top, tuple(holders), is_opaque=self.is_opaque)

    def enter(self, entry: Entry) -> LayerStack:
        """The directories of an entry that is one."""
        handles: list[int] = []
        try:
            for holder in entry.holders:
                handles.append(_open_directory(holder, entry.name))
        except OSError:
            LayerStack(tuple(handles)).close()
            raise
        below = LayerStack(tuple(handles), is_opaque=entry.is_opaque)
        below._lift()
        return below

    def open_file(self, entry: Entry) -> int:
        """A file, for reading. Raises OSError if it is none by now."""
        try:
            return open_regular(entry.holders[0], entry.name, os.O_RDONLY)
        except PermissionError:  # a command may take its own rights away
            return _open_closed(entry.holders[0], entry.name)

    def read_link(self, entry: Entry) -> str:
        return os.readlink(entry.name, dir_fd=entry.holders[0])


def open_stack(paths: tuple[str, ...]) -> LayerStack:
    """The tops of layers: corral's own directories."""
    handles: list[int] = []
    try:
        for path in paths:
            handles.append(os.open(path, _DIRECTORY))
    except OSError:
        LayerStack(tuple(handles)).close()
        raise
    return LayerStack(tuple(handles))


def open_parent(stack: LayerStack, path: str) -> tuple[LayerStack, Entry]:
    """The layers of the directory above a path (the caller closes them), and what they have there."""
    *above, name = path.split("/")
    here = stack.copy()
    try:
        for part in above:
            found = here.entry(part)
            if found.status is None or not stat.S_ISDIR(found.status.st_mode):
                raise OSError(errno.ENOTDIR, "it is no longer a directory", path)
            inner = here.enter(found)
            here.close()
            here = inner
        return here, here.entry(name)
    except OSError:
        here.close()
        raise


def is_whiteout(status: os.stat_result) -> bool:
    """Whether it stands for something that was removed."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def copy_marks(source: int, target: int) -> None:
    """What overlayfs has noted at a directory and still means the same in another place."""
    for mark in os.listxattr(source):
        if mark == _OPAQUE or (mark.startswith(_PREFIX) and mark not in _KNOWN):
            os.setxattr(target, mark, os.getxattr(source, mark))


def _marks(handle: int, name: str) -> set[str]:
    """What overlayfs has noted at a directory; nothing of a command's, which cannot write such attributes."""
    directory = _open_directory(handle, name)
    try:
        marks = {mark for mark in os.listxattr(directory) if mark.startswith(_PREFIX)}
        if _OPAQUE in marks and os.getxattr(directory, _OPAQUE) != b"y":
            marks.add(f"{_PREFIX}unknown")
        return marks
    finally:
        os.close(directory)


def _open_directory(handle: int, name: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=handle)
    except PermissionError:
        held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
        try:
            return _with_rights(held, 0o700, _DIRECTORY)
        finally:
            os.close(held)


def _open_closed(handle: int, name: str) -> int:
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
    try:
        if not stat.S_ISREG(os.fstat(held).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", name)
        return _with_rights(held, 0o400, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(held)


def _with_rights(held: int, rights: int, flags: int) -> int:
    """Open what its owner has closed to himself, and leave it as it was: its mode is to be taken over."""
    path, mode = f"/proc/self/fd/{held}", stat.S_IMODE(os.fstat(held).st_mode)
    os.chmod(path, mode | rights)
    try:
        return os.open(path, flags & ~os.O_NOFOLLOW)
    finally:
        os.chmod(path, mode)
