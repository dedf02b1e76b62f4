"""Open a directory step by step from a place that no command can change, without following a link."""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_beneath(root: str, directory: str) -> int:
    """A descriptor of a directory at or beneath a root. Raises OSError.

    TRUST: another command may run in the same workspace and put links on the way while we go it.
    """
    return open_down(os.open(root, _DIRECTORY), directory[len(root) :])


def open_down(handle: int, path: str, flags: int = _DIRECTORY) -> int:
    """A descriptor of a directory beneath one that is held, and which is closed. Raises OSError."""
    for part in path.split("/"):
        if part in {"", "."}:
            continue
        above, handle = handle, -1
        try:
            handle = os.open(part, flags, dir_fd=above)
        finally:
            os.close(above)
    return handle


def open_regular(directory: int, name: str, flags: int) -> int:
    """Open a file by its name in a directory, if it is one. Raises OSError.

    TRUST: held first and judged by what is held: a FIFO or a device is never opened at all.
    """
    import stat

    if sys.platform != "linux":
        return _open_looked_at(directory, name, flags)
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(held).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", name)
        return os.open(f"/proc/self/fd/{held}", flags | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(held)


def _open_looked_at(directory: int, name: str, flags: int) -> int:
    """Where nothing can be held without being opened: looked at before and after, and never waited for."""
    import stat

    before = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if not stat.S_ISREG(before.st_mode):
        raise OSError(errno.EINVAL, "it is not a file", name)
    opened = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    if not os.path.samestat(before, os.fstat(opened)):
        os.close(opened)
        raise OSError(errno.ESTALE, "it has been replaced", name)
    return opened


def read_bounded(descriptor: int, most: int) -> bytes:
    """All of a file, from its beginning. Raises OSError for one that is larger."""
    data = b""
    while len(data) <= most and (piece := os.pread(descriptor, most + 1 - len(data), len(data))):
        data += piece
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes")
    return data


def ancestors(paths: Iterable[str]) -> frozenset[str]:
    """All that lies above these, and themselves."""
    found: set[str] = set()
    for path in paths:
        here = path
        while here and here not in found:
            found.add(here)
            here = here.rpartition("/")[0]
    return frozenset(found)
