"""Put: give a name in a directory of the sandbox new contents.

A file is replaced: the contents go to a new file beside it, which then takes the name. So

- a write that fails (no room, interrupted) leaves the old contents, and no reader sees half of the new;
- a hard link to a file elsewhere, left in the workspace, is no way to that file: only the name changes hands;
- a set-user-id bit does not stay on new contents; owner and other permission bits do.

Only where the name cannot be given away is the file written in place: a mount point or granted file, a
directory that the caller may not write to, an owner whom he may not give files to. Then a file with other
names, or with a set-user-id bit, is refused.

TRUST: a mount protects the name it lies on against the commands inside, and not against us. Whoever
renames a file over a mount point of *another* mount namespace succeeds, and the kernel takes the mount
away (rename(2) says EBUSY for mounts of one's own namespace only). So a name with a mount on it is never
replaced (`is_fixed`); the write goes through the mount, and a read-only one refuses it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from corral.sandbox_files.held_file import HeldFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.sandbox_files.held_file import Spot

    #: Writes the contents to a descriptor; may be called a second time, for another one.
    Fill = Callable[[int], None]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SET_ID = stat.S_ISUID | stat.S_ISGID
#: Why a name cannot be given to another file, though the file itself may be writable.
_NAME_STAYS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})


def put_file(spot: Spot, fill: Fill, mode: int) -> None:
    """Make or replace a regular file; `mode` is that of a new one. Raises OSError."""
    existing = spot.existing
    check_writable(spot)
    if existing is None:
        _replace(spot, fill, mode)
        return
    existing.check_file()
    if not existing.is_fixed and not existing.may_be_written():
        # What could not be written to is not replaced either, as a mode of 0444 is meant. Opening says why.
        os.close(existing.open_file(os.O_WRONLY))
    if existing.is_fixed or not _replace(spot, fill, existing.status.st_mode & 0o777):
        _overwrite(existing, fill)


def put_link(spot: Spot, text: str) -> None:
    """Make a symbolic link; a file or link of that name is replaced. Raises OSError."""
    check_writable(spot)
    existing = spot.existing
    if existing is not None and (existing.is_fixed or existing.is_directory):
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
    parent = _parent(spot).descriptor
    temporary = temporary_name()
    os.symlink(text, temporary, dir_fd=parent)
    with removed_on_failure(parent, temporary):
        os.rename(temporary, spot.name, src_dir_fd=parent, dst_dir_fd=parent)


def check_writable(spot: Spot) -> None:
    """Raise OSError if the policy grants reading only, or the place is no directory of files."""
    if spot.parent is not None:
        spot.parent.check_directory()
    place = spot.existing if spot.existing is not None and spot.existing.is_fixed else spot.parent
    if place is None or not place.is_writable:
        raise OSError(errno.EACCES, "the policy grants it for reading only")


def _replace(spot: Spot, fill: Fill, mode: int) -> bool:
    """Let a new file take the name; False if the name has to stay with the file that has it."""
    existing, parent = spot.existing, _parent(spot).descriptor
    temporary = temporary_name()
    try:
        descriptor = os.open(temporary, _NEW, 0o600, dir_fd=parent)
    except OSError as problem:
        if existing is not None and problem.errno in _NAME_STAYS:
            return False
        raise
    with removed_on_failure(parent, temporary):
        try:
            if existing is not None and not _give(descriptor, existing.status):
                os.unlink(temporary, dir_fd=parent)
                return False
            fill(descriptor)
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)
        try:
            os.rename(temporary, spot.name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError as problem:
            if existing is None or problem.errno not in _NAME_STAYS:
                raise
            os.unlink(temporary, dir_fd=parent)
            return False
    return True


def _give(descriptor: int, status: os.stat_result) -> bool:
    """Give the new file the owner and group of the old one; False if that is not permitted."""
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) == (status.st_uid, status.st_gid):
        return True
    try:
        os.fchown(descriptor, status.st_uid, status.st_gid)
    except OSError:
        return False
    return True


def _overwrite(existing: HeldFile, fill: Fill) -> None:
    status = os.fstat(existing.descriptor)
    if status.st_mode & _SET_ID:
        raise OSError(errno.EPERM, "it has a set-user-id or set-group-id bit and cannot be replaced")
    if status.st_nlink != 1 and not existing.is_fixed:
        raise OSError(errno.EPERM, "it has other names (hard links), which would change with it")
    descriptor = existing.open_file(os.O_WRONLY)
    try:
        os.ftruncate(descriptor, 0)
        fill(descriptor)
    finally:
        os.close(descriptor)


def _parent(spot: Spot) -> HeldFile:
    assert spot.parent is not None  # only what is fixed has none, and that is never replaced
    return spot.parent


def temporary_name() -> str:
    """A name that nobody can have prepared anything under."""
    return f".corral-{os.urandom(12).hex()}"


class removed_on_failure:  # noqa: N801
    """A temporary file or link of ours goes away if what follows fails, however it fails."""

    __slots__ = ("_directory", "_name")

    def __init__(self, directory: int, name: str) -> None:
        self._directory = directory
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._name, dir_fd=self._directory)


def write_all(descriptor: int, data: memoryview) -> None:
    """Write all of it. Raises OSError."""
    while data:
        data = data[os.write(descriptor, data) :]
