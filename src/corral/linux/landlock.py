"""Landlock: which access rights a kernel can handle, and which of them a grant carries.

Rights are kernel ABI (linux/landlock.h), written down here because a host's headers are as old as
its libc. What is handled is refused unless a rule grants it; what is not handled is allowed. So every
right of the running ABI is handled, whether or not anything grants it.

Rights are plain integers: an IntFlag costs a millisecond to define, at every start of the command line.
"""

from __future__ import annotations

NEWEST_ABI = 10  # of those described here; a newer kernel is used as this one


class FsRight:
    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13  # ABI 2, Linux 5.19: link or rename between directories
    TRUNCATE = 1 << 14  # ABI 3, Linux 6.2
    IOCTL_DEV = 1 << 15  # ABI 5, Linux 6.10
    RESOLVE_UNIX = 1 << 16  # ABI 9, Linux 7.1: connect to a socket file that was made outside the sandbox


class NetRight:
    BIND_TCP = 1 << 0  # ABI 4, Linux 6.7
    CONNECT_TCP = 1 << 1
    BIND_UDP = 1 << 2  # ABI 10, Linux 7.2
    CONNECT_SEND_UDP = 1 << 3


class LandlockScope:
    ABSTRACT_UNIX_SOCKET = 1 << 0  # ABI 6, Linux 6.12
    SIGNAL = 1 << 1


#: What a rule on something other than a directory may carry; the kernel answers EINVAL to the rest.
FILE_RIGHTS = (
    FsRight.EXECUTE
    | FsRight.WRITE_FILE
    | FsRight.READ_FILE
    | FsRight.TRUNCATE
    | FsRight.IOCTL_DEV
    | FsRight.RESOLVE_UNIX
)

_FS_SINCE = {
    1: FsRight.REFER - 1,
    2: FsRight.REFER,
    3: FsRight.TRUNCATE,
    5: FsRight.IOCTL_DEV,
    9: FsRight.RESOLVE_UNIX,
}
_NET_SINCE = {
    4: NetRight.BIND_TCP | NetRight.CONNECT_TCP,
    10: NetRight.BIND_UDP | NetRight.CONNECT_SEND_UDP,
}
_SCOPES_SINCE = {6: LandlockScope.ABSTRACT_UNIX_SOCKET | LandlockScope.SIGNAL}

#: What a kernel below the ABI leaves open, in the words for `corral doctor`.
_GAPS_BEFORE = {
    2: "files cannot be renamed or linked from one directory to another",
    3: "any file that the user may write can be truncated",
    4: "TCP connections are not restricted",
    5: "device files can be controlled by ioctl",
    6: "signals and abstract Unix sockets reach the host's processes",
    9: "Unix sockets with a path can be connected to",
    10: "UDP is not restricted",
}

_READ = FsRight.READ_FILE | FsRight.READ_DIR | FsRight.EXECUTE
# MAKE_CHAR and MAKE_BLOCK are never granted: a device node is a door to the kernel, and only root could
# make one. IOCTL_DEV comes with `device_rights` alone. RESOLVE_UNIX is a way out of the sandbox
# (docker.sock, D-Bus), not part of writing; sockets made inside stay reachable without it.
_WRITE = (
    _READ
    | FsRight.WRITE_FILE
    | FsRight.TRUNCATE
    | FsRight.REFER
    | FsRight.REMOVE_DIR
    | FsRight.REMOVE_FILE
    | FsRight.MAKE_DIR
    | FsRight.MAKE_REG
    | FsRight.MAKE_SOCK
    | FsRight.MAKE_FIFO
    | FsRight.MAKE_SYM
)


def handled_fs(abi: int) -> int:
    """Every file-system right of an ABI. Raises ValueError below 1: such a kernel has no Landlock."""
    return _until(abi, _FS_SINCE)


def handled_net(abi: int) -> int:
    """Every network right of an ABI; none below 4."""
    return _until(abi, _NET_SINCE)


def scoped(abi: int) -> int:
    """Every scope of an ABI; none below 6."""
    return _until(abi, _SCOPES_SINCE)


def read_rights(abi: int, *, is_directory: bool, execute: bool = True) -> int:
    """Read, list and, unless told otherwise, execute."""
    rights = _READ if execute else _READ & ~FsRight.EXECUTE
    return _fitting(rights, abi, is_directory=is_directory)


def write_rights(abi: int, *, is_directory: bool) -> int:
    """All of `read_rights`, and create, change, move and remove everything but device nodes."""
    return _fitting(_WRITE, abi, is_directory=is_directory)


def device_rights(abi: int) -> int:
    """For character devices such as /dev/null and terminals, and for a directory of them such as /dev/pts."""
    rights = FsRight.READ_FILE | FsRight.WRITE_FILE | FsRight.IOCTL_DEV
    return _fitting(rights, abi, is_directory=False)


def gaps(abi: int) -> tuple[str, ...]:
    """What this ABI cannot restrict and a later one can."""
    return tuple(gap for since, gap in _GAPS_BEFORE.items() if abi < since)


def describe(abi: int) -> str:
    """The mechanism's name in results and in `corral explain`."""
    return f"landlock abi {abi}"


def _fitting(rights: int, abi: int, *, is_directory: bool) -> int:
    possible = rights & handled_fs(abi)
    return possible if is_directory else possible & FILE_RIGHTS


def _until(abi: int, since: dict[int, int]) -> int:
    if abi < 1:
        raise ValueError(f"landlock abi {abi}: this kernel has no Landlock, so it can handle no right")
    rights = 0
    for first, right in since.items():
        if first <= abi:
            rights |= right
    return rights
