"""The system calls of the file interface that Python has no name for: openat2 and fstatfs.

TRUST: there is no other way to open. Where the kernel has no openat2 (before Linux 5.6), or a filter
around corral forbids it, files of a sandbox cannot be reached at all: any imitation by text could be
raced.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from corral.model.errors import UnenforceableError

_OPENAT2 = 437  # on every architecture
_NO_XDEV, _NO_MAGICLINKS, _IN_ROOT = 0x01, 0x02, 0x10
_PATH_ONLY = getattr(os, "O_PATH", 0) | os.O_CLOEXEC

#: The kernel says EAGAIN when a rename anywhere crossed a `..` of the path: openat2(2) asks to try again.
_TRIES = 256

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
_syscall.restype = ctypes.c_long
_fstatfs = _libc.fstatfs
_fstatfs.argtypes = (ctypes.c_int, ctypes.c_char_p)


def _how(flags: int, resolve: int) -> bytes:
    return struct.pack("=QQQ", flags, 0, resolve)


#: struct open_how, made once: the kernel only reads it.
_ANYTHING = _how(_PATH_ONLY, _IN_ROOT | _NO_MAGICLINKS)
_DIRECTORY = _how(_PATH_ONLY | os.O_DIRECTORY, _IN_ROOT | _NO_MAGICLINKS)
_SAME_MOUNT = _how(_PATH_ONLY | os.O_NOFOLLOW, _NO_XDEV)


def open_in_root(root: int, path: bytes, *, directory: bool = False) -> int:
    """A path descriptor of what a process with this root directory finds at the path, links followed."""
    return _open(root, path, _DIRECTORY if directory else _ANYTHING)


def open_on_mount(directory: int, name: bytes) -> int:
    """A path descriptor of an entry itself, a link included. EXDEV: something is mounted there."""
    return _open(directory, name, _SAME_MOUNT)


def _open(directory: int, path: bytes, how: bytes) -> int:
    for _ in range(_TRIES):
        descriptor: int = _syscall(_OPENAT2, directory, path, how, len(how))
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number not in {errno.EAGAIN, errno.EINTR}:
            break
    raise OSError(number, os.strerror(number))


def check_openat2(root: int) -> None:
    """Raise UnenforceableError if the system call cannot be used."""
    try:
        os.close(open_in_root(root, b"/", directory=True))
    except OSError as problem:
        if problem.errno not in {errno.ENOSYS, errno.EPERM}:
            raise
        raise UnenforceableError(
            "openat2-missing",
            "files of the sandbox cannot be read or written from outside",
            why=f"the system call openat2 is refused here ({problem.strerror}), and without it a link "
            "that a command puts in the way could lead out of the sandbox",
            fix="use Linux 5.6 or newer; inside a container, let its seccomp profile permit openat2",
        ) from None


#: linux/magic.h: what is read and written there is the kernel, with the power of whoever opens it.
_KERNEL_INTERFACES = frozenset(
    {
        0x9FA0,  # proc
        0x62656572,  # sysfs
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0xF97CFF8C,  # selinux
        0x43415D53,  # smack
        0x5A3C69F0,  # apparmor
        0xCAFE4A11,  # bpf
        0x6165676C,  # pstore
        0xDE5E81E4,  # efivarfs
        0x62656570,  # configfs
        0x42494E4D,  # binfmt_misc
        0x65735543,  # fusectl
        0x07655821,  # resctrl
        0x1CD1,  # devpts
        0x19800202,  # mqueue
        0x6E736673,  # nsfs
        0x50494446,  # pidfs
        0x6E667364,  # nfsd
        0x67596969,  # rpc_pipefs
        0xABBA1974,  # xenfs
        0x9FA1,  # openprom
        0x09041934,  # anonymous inodes
    }
)
_TYPE = struct.Struct("@l")


def is_kernel_interface(descriptor: int) -> bool:
    """Whether it belongs to /proc, /sys or another file system in which there are no files."""
    room = ctypes.create_string_buffer(256)  # struct statfs is 120 bytes on 64 bits
    if _fstatfs(descriptor, room) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return _TYPE.unpack_from(room)[0] & 0xFFFFFFFF in _KERNEL_INTERFACES
