"""HeldFile: an object of the sandbox that is held fast, and the ways to open it.

TRUST: whoever runs inside may rename, replace and link everything at any moment. So nothing is looked at
by name and then opened by name: an object is first held by a descriptor that can do nothing (O_PATH;
opening a FIFO or a device in earnest already has effects, or blocks), then judged by its own status,
which no rename changes, and the same object is opened through that descriptor.
"""

from __future__ import annotations

import errno
import os
import stat

from corral.model.errors import PolicyError
from corral.untrusted_files.openat2 import is_kernel_interface

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

#: O_NONBLOCK also for files: one under a lease (fcntl F_SETLEASE) would hold the caller up for 45 seconds.
_HARMLESS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class naming:  # noqa: N801 - a context manager, lower case as those of contextlib
    """An OSError inside gets this path as its `filename`, whatever component or descriptor it was about."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise OSError(problem.errno, problem.strerror, self._path) from None


class HeldFile:
    """INVARIANT: the descriptor is O_PATH and was opened without leaving what the sandbox may reach."""

    __slots__ = ("descriptor", "is_fixed", "is_writable", "status")

    def __init__(self, descriptor: int, *, is_writable: bool = True, is_fixed: bool = False) -> None:
        self.descriptor = descriptor
        self.status = os.fstat(descriptor)
        self.is_writable = is_writable
        self.is_fixed = is_fixed  # a mount point, or itself a grant: the name stays with the object

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release it."""
        os.close(self.descriptor)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    def check_file(self) -> None:
        """Raise OSError for everything but a regular file."""
        if self.is_directory:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if self.is_link:  # it was none a moment ago
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not self.is_file:
            raise special(self.status)
        self._check_ordinary()

    def check_directory(self) -> None:
        """Raise OSError for everything but a directory."""
        if not self.is_directory:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        self._check_ordinary()

    def as_directory(self) -> Self:
        """Itself, if it is one; otherwise it is closed. Raises OSError."""
        try:
            self.check_directory()
        except BaseException:
            self.close()
            raise
        return self

    def _check_ordinary(self) -> None:
        if is_kernel_interface(self.descriptor):
            raise OSError(errno.EACCES, "it belongs to a file system of the kernel (/proc, /sys, ...)")

    def open_file(self, flags: int) -> int:
        """Open the regular file for reading or writing. Raises OSError."""
        self.check_file()
        # A magic link leads to the object itself, over the mount by which it was reached.
        return os.open(f"/proc/thread-self/fd/{self.descriptor}", flags | _HARMLESS)

    def may_be_written(self) -> bool:
        """Whether mode and mount let the caller write to it."""
        path = f"/proc/thread-self/fd/{self.descriptor}"
        return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)

    def open_directory(self) -> int:
        """Open the directory, to read its names. Raises OSError."""
        self.check_directory()
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | _HARMLESS, dir_fd=self.descriptor)

    def link_text(self) -> str:
        """What the link says; of the link that is held, not of what bears its name by now."""
        return os.readlink("", dir_fd=self.descriptor)


class Spot:
    """A name in a directory that is held, and what it stands for now. `parent` is None for a granted file."""

    __slots__ = ("existing", "name", "parent")

    def __init__(self, parent: HeldFile | None, name: str, existing: HeldFile | None) -> None:
        self.parent = parent
        self.name = name
        self.existing = existing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for place in (self.parent, self.existing):
            if place is not None:
                place.close()


def refusal(code: str, what: str, *, why: str, fix: str) -> PolicyError:
    """The error for what the policy does not let a caller do."""
    error = PolicyError(code, what, why=why, fix=fix)
    error.is_about_command = False
    return error


def special(status: os.stat_result) -> OSError:
    """The error for what is neither file nor directory."""
    kind = stat.S_IFMT(status.st_mode)
    names = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
    return OSError(errno.EINVAL, f"it is {names.get(kind, 'a device')}, neither a file nor a directory")
