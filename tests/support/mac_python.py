"""Python as it is on a Mac, on Linux: what only Linux has is gone, and kqueue is there.

    python -m support.mac_python SANDBOX_EXEC MODULE [ARGUMENT...]

`become_mac` is called before corral is imported. What it removes fails as it would there: an attribute is
missing, a path of /proc does not exist. kqueue is made of epoll, pidfd and inotify.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import fcntl
import os
import resource
import runpy
import select
import selectors
import signal
import socket
import struct
import sys
import tempfile
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
    from typing import Any

#: Members that Python has on Linux and not on macOS (the documentation's "Availability").
LINUX_ONLY: dict[ModuleType, tuple[str, ...]] = {
    os: (
        *("O_PATH", "O_TMPFILE", "O_DIRECT", "O_NOATIME", "pidfd_open", "memfd_create", "MFD_CLOEXEC"),
        *("MFD_ALLOW_SEALING", "eventfd", "eventfd_read", "eventfd_write", "EFD_CLOEXEC", "EFD_NONBLOCK"),
        *("splice", "SPLICE_F_MOVE", "SPLICE_F_NONBLOCK", "copy_file_range", "pipe2", "getrandom"),
        *("sched_getaffinity", "sched_setaffinity", "getxattr", "setxattr", "listxattr", "removexattr"),
        *("getresuid", "getresgid", "setresuid", "setresgid", "posix_fallocate", "posix_fadvise", "waitid"),
        *("unshare", "setns", "fdatasync", "login_tty"),
    ),
    select: ("epoll", "EPOLLIN", "EPOLLOUT", "EPOLLET", "EPOLLRDHUP", "EPOLLHUP", "EPOLLERR", "EPOLLONESHOT"),
    signal: ("pidfd_send_signal", "sigtimedwait", "sigwaitinfo", "SIGPOLL", "SIGPWR", "SIGSTKFLT"),
    socket: (
        *("SOCK_CLOEXEC", "SOCK_NONBLOCK", "MSG_CMSG_CLOEXEC", "SO_PEERCRED", "SO_PASSCRED", "AF_NETLINK"),
        *("SCM_CREDENTIALS", "TCP_KEEPIDLE", "AF_PACKET", "AF_VSOCK", "SO_BINDTODEVICE", "accept4"),
    ),
    fcntl: ("F_GETPIPE_SZ", "F_SETPIPE_SZ", "F_ADD_SEALS", "F_SETLEASE", "F_OFD_SETLK"),
    resource: ("prlimit", "RLIMIT_OFILE", "RLIMIT_RTPRIO", "RLIMIT_SIGPENDING", "RLIMIT_NICE"),
}
#: Of libc.
NO_CALLS = ("prctl", "inotify_init1", "inotify_add_watch", "syscall", "unshare", "setns", "memfd_create")
#: Linux's own trees.
NOWHERE = ("/proc", "/sys")


def become_mac(shown: str = "/proc/nothing") -> None:
    """From here on this process finds a Mac; of /proc, a test itself may need what is `shown`."""
    kept = _Kept()
    for module, names in LINUX_ONLY.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    _socket = sys.modules["_socket"]
    for name in LINUX_ONLY[socket]:
        if hasattr(_socket, name):
            delattr(_socket, name)
    _offer_kqueue(kept)
    # What was imported before has looked already.
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]
    selectors.DefaultSelector = selectors.PollSelector  # type: ignore[misc]
    _hide_trees(shown)
    _hide_calls()
    _let_chmod_spare_links(kept)
    socket.TCP_KEEPALIVE = kept.tcp_keepidle  # type: ignore[attr-defined]
    sys.platform = "darwin"


class _Kept:
    """What the stand-ins are made of."""

    def __init__(self) -> None:
        self.epoll, self.pidfd_open, self.path_only = select.epoll, os.pidfd_open, os.O_PATH
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.inotify_init, self.inotify_add = self.libc.inotify_init1, self.libc.inotify_add_watch
        self.tcp_keepidle = socket.TCP_KEEPIDLE
        self.chmod = os.chmod


_SCANNED = ("open", "stat", "lstat", "listdir", "scandir", "readlink", "access", "statvfs", "mkdir", "chdir")


def _hide_trees(shown: str) -> None:
    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *arguments: Any, **named: Any) -> Any:
            if isinstance(path, (str, bytes, os.PathLike)):
                text = os.fsdecode(path)
                is_hidden = text.startswith(NOWHERE) and text.split("/")[1] in {"proc", "sys"}
                if is_hidden and not text.startswith(shown):
                    if function is os.access:
                        return False
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
            return function(path, *arguments, **named)

        return call

    for name in _SCANNED:
        setattr(os, name, guarded(getattr(os, name)))
    builtins.open = guarded(builtins.open)


def _hide_calls() -> None:
    real = ctypes.CDLL

    class Library(real):  # type: ignore[misc, valid-type]
        def __getattr__(self, name: str) -> Any:
            if name in NO_CALLS:
                raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
            return super().__getattr__(name)

    ctypes.CDLL = Library  # type: ignore[misc]


def _let_chmod_spare_links(kept: _Kept) -> None:
    """On macOS the mode of a link itself can be set, so that none is followed."""

    def chmod(path: Any, mode: int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        if follow_symlinks:
            kept.chmod(path, mode, dir_fd=dir_fd)
            return
        held = _real_open(path, kept.path_only | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
        try:
            if not os.path.islink(path) or dir_fd is not None:
                kept.chmod(f"/proc/self/fd/{held}", mode)
        finally:
            os.close(held)

    os.chmod = chmod


_real_open = os.open

_READ, _WRITE, _VNODE, _PROC = -1, -2, -4, -5
_ADD, _DELETE, _ONESHOT, _CLEAR, _EOF = 0x1, 0x2, 0x10, 0x20, 0x8000
_NOTE_WRITE, _NOTE_EXIT = 0x2, 0x80000000
_EVENT = struct.Struct("iIII")


class Kevent:
    """One event, or the wish to be told of one."""

    def __init__(self, ident: int, kind: int = _READ, flags: int = _ADD, fflags: int = 0) -> None:
        self.ident, self.filter, self.flags, self.fflags = ident, kind, flags, fflags


def _offer_kqueue(kept: _Kept) -> None:
    class Kqueue:
        """Level- and edge-triggered, for what corral asks: descriptors, directories, ends of processes."""

        def __init__(self) -> None:
            self._epoll = kept.epoll()
            self._masks: dict[int, int] = {}
            self._edges: dict[int, int] = {}
            self._others: dict[int, Kevent] = {}  # by the descriptor that stands for it
            self._notify = -1
            self._directories: dict[int, Kevent] = {}

        def fileno(self) -> int:
            return int(self._epoll.fileno())

        def close(self) -> None:
            for own in self._others:
                os.close(own)
            self._others.clear()
            if self._notify >= 0:
                os.close(self._notify)
                self._notify = -1
            self._epoll.close()

        def control(
            self, changes: Iterable[Kevent] | None, most: int, timeout: float | None = None
        ) -> list[Kevent]:
            for change in changes or ():
                self._change(change)
            if not most:
                return []
            ends = None if timeout is None else time.monotonic() + timeout
            while True:
                left = None if ends is None else max(0.0, ends - time.monotonic())
                found = [
                    event for own, mask in self._epoll.poll(left, most) for event in self._events(own, mask)
                ]
                if found or (ends is not None and time.monotonic() >= ends):
                    return found

        def _change(self, change: Kevent) -> None:
            if change.filter in {_READ, _WRITE}:
                self._change_descriptor(change)
            elif change.filter == _PROC:
                own = kept.pidfd_open(change.ident)
                self._others[own] = change
                self._epoll.register(own, 0x1)
            elif change.filter == _VNODE:
                if self._notify < 0:
                    self._notify = kept.inotify_init(os.O_CLOEXEC | os.O_NONBLOCK)
                    self._epoll.register(self._notify, 0x1)
                place = f"/proc/self/fd/{change.ident}".encode()
                number = kept.inotify_add(self._notify, place, 0x100 | 0x80 | 0x200 | 0x40)
                if number < 0:
                    raise OSError(ctypes.get_errno(), "kevent")
                self._directories[number] = change
            else:
                raise OSError(errno.EINVAL, "a filter that the stand-in does not know")

        def _change_descriptor(self, change: Kevent) -> None:
            bit = 0x1 | 0x2000 if change.filter == _READ else 0x4
            before = self._masks.get(change.ident, 0)
            if change.flags & _DELETE and not before & bit:
                raise FileNotFoundError(errno.ENOENT, "kevent")
            now = before & ~bit if change.flags & _DELETE else before | bit
            edge = 0x80000000 if change.flags & _CLEAR else 0
            self._masks[change.ident] = now
            if not now:
                self._epoll.unregister(change.ident)
                del self._masks[change.ident]
            elif before:
                self._epoll.modify(change.ident, now | edge)
            else:
                self._epoll.register(change.ident, now | edge)

        def _events(self, own: int, mask: int) -> list[Kevent]:
            if own in self._others:
                change = self._others.pop(own)
                self._epoll.unregister(own)
                os.close(own)
                return [Kevent(change.ident, _PROC, _EOF | _ONESHOT, _NOTE_EXIT)]
            if own == self._notify:
                return self._changed_directories()
            found = []
            wanted = self._masks.get(own, 0)
            has_failed = mask & 0x8
            if wanted & 0x1 and mask & (0x1 | 0x2000 | 0x10 | 0x8):
                flags = _EOF if mask & (0x2000 | 0x10 | 0x8) else 0
                found.append(Kevent(own, _READ, flags, errno.ECONNREFUSED if has_failed else 0))
            if wanted & 0x4 and mask & (0x4 | 0x10 | 0x8):
                flags = _EOF if mask & (0x10 | 0x8) else 0
                found.append(Kevent(own, _WRITE, flags, errno.ECONNREFUSED if has_failed else 0))
            return found

        def _changed_directories(self) -> list[Kevent]:
            try:
                raw = os.read(self._notify, 65_536)
            except BlockingIOError:
                return []
            numbers, at = set(), 0
            while at < len(raw):
                number, _, _, length = _EVENT.unpack_from(raw, at)
                at += _EVENT.size + length
                numbers.add(number)
            return [
                Kevent(self._directories[number].ident, _VNODE, _CLEAR, _NOTE_WRITE)
                for number in numbers
                if number in self._directories
            ]

    constants = {
        "KQ_FILTER_READ": _READ,
        "KQ_FILTER_WRITE": _WRITE,
        "KQ_FILTER_VNODE": _VNODE,
        "KQ_FILTER_PROC": _PROC,
        "KQ_EV_ADD": _ADD,
        "KQ_EV_DELETE": _DELETE,
        "KQ_EV_ONESHOT": _ONESHOT,
        "KQ_EV_CLEAR": _CLEAR,
        "KQ_EV_EOF": _EOF,
        "KQ_NOTE_WRITE": _NOTE_WRITE,
        "KQ_NOTE_EXIT": _NOTE_EXIT,
        "kqueue": Kqueue,
        "kevent": Kevent,
    }
    for name, value in constants.items():
        setattr(select, name, value)


def main(words: list[str]) -> None:
    """Become a Mac with this `sandbox-exec`, and run a module of corral's there."""
    program, module, *arguments = words
    if sys.platform != "darwin":
        become_mac()
    run_module(program, module, arguments)


def run_module(program: str, module: str, arguments: list[str]) -> None:
    """As `python -m`, with this `sandbox-exec`."""
    from corral.backends import seatbelt

    seatbelt.PROGRAM = program
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
