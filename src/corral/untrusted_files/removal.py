"""Remove a tree that a hostile command has left: without rights, without end, full of links."""

from __future__ import annotations

import os
import sys

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: More entries than anybody leaves by accident.
_MOST_ENTRIES = 1_000_000


def remove_tree(directory: int | str, name: str) -> None:
    """Remove `name`, if it is there, in a directory (descriptor or path). Raises OSError if it withstands.

    TRUST: others may change the tree meanwhile. Everything is done by descriptor, one level deep: the entries
    of a directory are moved up to the top and it is removed. No depth is too deep, and no link is followed.
    """
    handle = os.open(directory, _DIRECTORY) if isinstance(directory, str) else directory
    try:
        if not _is_directory(handle, name):
            os.unlink(name, dir_fd=handle)
            return
        top = open_up(handle, name)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=handle)
    except FileNotFoundError:
        return
    finally:
        if isinstance(directory, str):
            os.close(handle)


def _empty(top: int) -> None:
    moved = 0
    while names := _names(top):
        for name in names:
            if not _is_directory(top, name):
                os.unlink(name, dir_fd=top)
                continue
            inner = open_up(top, name)
            try:
                for child in os.listdir(inner):
                    if _is_directory(inner, child):
                        os.close(open_up(inner, child))  # moving a directory needs the right to write in it
                    moved += 1
                    aside = f".corral-{moved}-{os.urandom(4).hex()}"
                    os.rename(child, aside, src_dir_fd=inner, dst_dir_fd=top)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
        if moved > _MOST_ENTRIES:
            raise OSError("it has no end")


def _names(top: int) -> list[str]:
    """By a descriptor of its own: btrfs shows one that was read before nothing that has come since."""
    fresh = os.open(".", _DIRECTORY, dir_fd=top)
    try:
        return os.listdir(fresh)
    finally:
        os.close(fresh)


def _is_directory(handle: int, name: str) -> bool:
    """Look at an entry before it is moved or removed. On macOS its owner may have made it immutable."""
    import stat

    status = os.stat(name, dir_fd=handle, follow_symlinks=False)
    if getattr(status, "st_flags", 0):
        _clear_flags(handle, name)
    return stat.S_ISDIR(status.st_mode)


def _clear_flags(handle: int, name: str) -> None:
    """By the directory's descriptor, without following a link. If it fails, so will the removal."""
    import ctypes
    import struct

    # struct attrlist: five maps, of which the first asks for ATTR_CMN_FLAGS.
    asked = struct.pack("HHIIIII", 5, 0, 0x00040000, 0, 0, 0, 0)
    no_follow = 1  # FSOPT_NOFOLLOW
    flags = struct.pack("I", 0)
    ctypes.CDLL(None).setattrlistat(
        handle, os.fsencode(name), asked, flags, ctypes.c_size_t(len(flags)), ctypes.c_uint32(no_follow)
    )


def open_up(handle: int, name: str) -> int:
    """Open a directory whose owner may have taken his own rights away. A link is refused."""
    if sys.platform != "linux":
        # Nothing holds what may not be opened. The name may be another directory's by now, of the same tree.
        os.chmod(name, 0o700, dir_fd=handle, follow_symlinks=False)
        return os.open(name, _DIRECTORY, dir_fd=handle)
    path_only = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
    try:
        os.chmod(f"/proc/self/fd/{path_only}", 0o700)
        return os.open(".", _DIRECTORY, dir_fd=path_only)
    finally:
        os.close(path_only)
