"""Quarantine: where things go that a command must not leave, for their owner to look at."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from corral.untrusted_files.removal import open_up, remove_tree

_MOST_COPIED_BYTES = 1 << 20


class Quarantine:
    """Of one run. Where there is no home to keep things in, they are removed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._taken = 0
        self._aside: list[tuple[int, str]] = []

    def take(self, handle: int, name: str) -> str:
        """Take `name` out of a directory at once; returns what became of it.

        Raises FileNotFoundError if it is gone.
        """
        # First out of the way, in the same directory: that is quick, and nothing can hold it up.
        aside = f".corral-quarantine-{os.urandom(4).hex()}"
        os.rename(name, aside, src_dir_fd=handle, dst_dir_fd=handle)
        kept = os.path.join(self._path, f"{self._taken}-{name}")
        self._taken += 1
        with contextlib.suppress(OSError):
            os.close(open_up(handle, aside))  # moving a directory needs the right to write in it
        try:
            if not self._path:
                raise OSError(errno.ENOENT, "there is no home to keep it in")
            make_private(self._path)
            os.rename(aside, kept, src_dir_fd=handle)
        except OSError:  # another file system, as a rule: removed when nothing runs any more
            self._aside.append((os.dup(handle), aside))
            return "it was removed"
        return f"it was moved to {kept}" if _make_own(kept) else "it was removed"

    def clear(self) -> None:
        """Remove what could not be kept. Nothing runs any more."""
        while self._aside:
            handle, name = self._aside.pop()
            with contextlib.suppress(OSError):  # it has lost its name already
                os.fchmod(handle, os.fstat(handle).st_mode | stat.S_IRWXU)  # the command may have closed it
            with contextlib.suppress(OSError):
                remove_tree(handle, name)
            os.close(handle)

    def is_aside(self, name: str) -> bool:
        """Whether a name is one that something was given to get it out of the way."""
        return any(name == aside for _, aside in self._aside)


def _make_own(path: str) -> bool:
    """Let nobody write there by another name that the file may have; False if it had to be removed."""
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink == 1:
        return True
    content = b""
    if status.st_size <= _MOST_COPIED_BYTES:
        with open(path, "rb") as file:
            content = file.read(_MOST_COPIED_BYTES)
    os.unlink(path)
    if status.st_size > _MOST_COPIED_BYTES:
        return False
    with open(path, "xb") as file:
        file.write(content)
    return True


def make_private(directory: str) -> None:
    """Make a directory and what is missing above it, for this user alone. Others may make it too."""
    missing = []
    while not os.path.isdir(directory) and os.path.dirname(directory) != directory:
        missing.append(directory)
        directory = os.path.dirname(directory)
    for path in reversed(missing):
        try:
            os.mkdir(path, mode=0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
