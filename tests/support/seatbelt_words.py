"""Calls of Linux in the words of Seatbelt: what a profile of macOS would be asked about each."""

from __future__ import annotations

import os
import socket
import stat
import struct

from support.sbpl import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Words = Callable[["Call"], Iterable[Request]]

_AT_CWD, _AT_NOFOLLOW, _AT_FOLLOW, _AT_EMPTY = -100, 0x100, 0x400, 0x1000
_PATH_BYTES = 4096
#: There is no such thing on macOS, and it could do what others are judged for: programs do without.
UNKNOWN_THERE = ("openat2", "io_uring_setup", "clone3", "pidfd_open", "pidfd_send_signal")
#: What Seatbelt denies to everyone who is not the system itself, or what macOS has not.
ALWAYS_REFUSED = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "open_by_handle_at", "unshare", "setns"),
    *("mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsmount", "mount_setattr"),
    *("chroot", "mq_open", "mq_unlink", "shmget", "shmat", "semget", "semop", "msgget", "msgsnd", "msgrcv"),
    *("keyctl", "add_key", "request_key", "bpf", "perf_event_open", "pidfd_getfd", "userfaultfd"),
)


class Call:
    """One call: who makes it, with which arguments."""

    def __init__(self, pid: int, arguments: tuple[int, ...], first: int) -> None:
        self.pid, self.arguments, self.first = pid, arguments, first

    def number(self, at: int) -> int:
        """An argument as a signed number of 32 bits."""
        return int(struct.unpack("<i", struct.pack("<I", self.arguments[at] & 0xFFFFFFFF))[0])

    def memory(self, address: int, size: int) -> bytes:
        """Raises OSError."""
        handle = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY)
        try:
            return os.pread(handle, size, address)
        finally:
            os.close(handle)

    def text(self, at: int) -> str:
        address = self.arguments[at]
        data = b""
        while b"\0" not in data and len(data) < _PATH_BYTES:
            data += self.memory(address + len(data), 4096 - (address + len(data)) % 4096)
        return os.fsdecode(data.partition(b"\0")[0])

    def descriptor(self, number: int) -> str:
        """The path of what is open; empty if it has none."""
        target = os.readlink(f"/proc/{self.pid}/fd/{number}")
        return target if target.startswith("/") and not target.endswith(" (deleted)") else ""

    def path(self, at: int, directory: int | None = None, *, follows: bool = True) -> str:
        """What a path argument leads to; as the kernel will find it. Empty: what is open already."""
        name = self.text(at)
        if not name:
            return ""
        if not name.startswith("/"):
            base = _AT_CWD if directory is None else self.number(directory)
            above = os.readlink(f"/proc/{self.pid}/cwd") if base == _AT_CWD else self.descriptor(base)
            name = f"{above}/{name}"
        return self.real(name, follows=follows)

    def real(self, name: str, *, follows: bool) -> str:
        name = name.replace("/proc/self/", f"/proc/{self.pid}/").replace("/proc/thread-self", "/proc/-")
        for own in ("/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr"):
            if os.path.normpath(name).startswith(own):
                return os.path.normpath(name)
        above, last = os.path.split(name.rstrip("/") or "/")
        if follows or last in {"", ".", ".."}:
            return os.path.realpath(name)
        return os.path.join(os.path.realpath(above), last)

    def is_inside(self, pid: int) -> bool:
        """Whether a process is in the same sandbox: begun by its first, or in the same session."""
        if pid in {0, self.pid, self.first}:
            return True
        session = _fields(self.first)[3:4] or [str(self.first)]
        seen: set[int] = set()
        while pid > 1 and pid not in seen:
            seen.add(pid)
            fields = _fields(pid)
            if pid == self.first or fields[3:4] == session:
                return True
            pid = int(fields[1]) if fields else 0
        return False


def _fields(pid: int) -> list[str]:
    """State, parent, group, session and so on."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _about(path: str, *operations: str) -> list[Request]:
    return [Request(operation, path=path) for operation in operations] if path else []


def _opened(call: Call, path: str, flags: int) -> list[Request]:
    mode = flags & os.O_ACCMODE
    if flags & os.O_PATH:
        return _about(path, "file-read-metadata")
    asked = []
    if mode != os.O_WRONLY:
        asked.append("file-read-data")
    if mode != os.O_RDONLY or flags & os.O_TRUNC:
        asked.append("file-write-data")
    if flags & os.O_CREAT and not os.path.lexists(path):
        asked.append("file-write-create")
    return _about(path, *asked)


def _open(at: int, flags: int, directory: int | None = None) -> Words:
    def words(call: Call) -> list[Request]:
        wanted = call.number(flags)
        return _opened(call, call.path(at, directory, follows=not wanted & os.O_NOFOLLOW), wanted)

    return words


def _creat(call: Call) -> list[Request]:
    return _opened(call, call.path(0), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)


def _named(
    operations: str, at: int, directory: int | None = None, *, follows: bool = True, flags: int | None = None
) -> Words:
    """About one path; `flags` is where AT_SYMLINK_NOFOLLOW may stand."""

    def words(call: Call) -> list[Request]:
        is_followed = follows and not (flags is not None and call.number(flags) & _AT_NOFOLLOW)
        path = call.path(at, directory, follows=is_followed) if call.arguments[at] else ""
        if not path and directory is not None and call.number(directory) >= 0:
            path = "" if operations == "file-read-metadata" else call.descriptor(call.number(directory))
        return _about(path, *operations.split())

    return words


def _held(operations: str) -> Words:
    """About what is open as the first argument."""
    return lambda call: _about(call.descriptor(call.number(0)), *operations.split())


def _mode(at: int, mode: int, directory: int | None = None) -> Words:
    def words(call: Call) -> list[Request]:
        special = ("file-write-setugid",) if call.number(mode) & 0o6000 else ()
        return _about(call.path(at, directory), "file-write-mode", *special)

    return words


def _fmode(call: Call) -> list[Request]:
    special = ("file-write-setugid",) if call.number(1) & 0o6000 else ()
    return _about(call.descriptor(call.number(0)), "file-write-mode", *special)


def _renamed(old: int, new: int, from_directory: int | None = None, to_directory: int | None = None) -> Words:
    def words(call: Call) -> list[Request]:
        source = call.path(old, from_directory, follows=False)
        target = call.path(new, to_directory, follows=False)
        taken = ("file-write-unlink",) if os.path.lexists(target) else ()
        return [*_about(source, "file-write-unlink"), *_about(target, "file-write-create", *taken)]

    return words


def _linked(old: int, new: int, from_directory: int | None = None, to_directory: int | None = None) -> Words:
    def words(call: Call) -> list[Request]:
        source = call.path(old, from_directory, follows=False)
        target = call.path(new, to_directory, follows=False)
        return [*_about(source, "file-link"), *_about(target, "file-write-create")]

    return words


def _executed(at: int, directory: int | None = None) -> Words:
    def words(call: Call) -> list[Request]:
        path = call.path(at, directory)
        asked = _about(path, "process-exec", "file-map-executable")
        try:
            if os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID):
                asked += _about(path, "forbidden-exec-sugid")
            with open(path, "rb") as file:
                first = file.read(256).split(b"\n")[0]
        except OSError:
            return asked
        if first.startswith(b"#!"):
            interpreter = os.fsdecode(first[2:].split()[0])
            asked += _about(os.path.realpath(interpreter), "process-exec", "file-map-executable")
        return asked

    return words


def _forked(call: Call) -> list[Request]:
    thread = 0x00010000  # CLONE_THREAD
    return [] if call.arguments[0] & thread else [Request("process-fork")]


def _signalled(at: int) -> Words:
    def words(call: Call) -> list[Request]:
        pid = call.number(at)
        if pid == -1:
            return [Request("signal", target="others")]
        return [Request("signal", target="same-sandbox" if call.is_inside(abs(pid)) else "others")]

    return words


def _address(data: bytes) -> Request | None:
    """Whom an address leads to; None for one that says nothing (AF_UNSPEC)."""
    family = int.from_bytes(data[:2], "little")
    if family == socket.AF_INET:
        return Request("", remote=f"{socket.inet_ntoa(data[4:8])}:{int.from_bytes(data[2:4], 'big')}")
    if family == socket.AF_INET6:
        host = socket.inet_ntop(socket.AF_INET6, data[8:24])
        return Request("", remote=f"{host}:{int.from_bytes(data[2:4], 'big')}")
    if family == socket.AF_UNIX:
        name = os.fsdecode(data[2:].partition(b"\0")[0])
        return Request("", path=os.path.realpath(name) if name else "/abstract")
    return None if family == socket.AF_UNSPEC else Request("", path="/another-family")


def _reached(operation: str, address: int, size: int) -> Words:
    def words(call: Call) -> list[Request]:
        if not call.arguments[address]:
            return []
        found = _address(call.memory(call.arguments[address], min(call.arguments[size], 128)))
        if found is None:
            return []
        if operation == "network-bind":
            return [Request(operation, path=found.path, local=found.remote)]
        return [Request(operation, path=found.path, remote=found.remote)]

    return words


def _messaged(call: Call) -> list[Request]:
    place, size = struct.unpack("<QI", call.memory(call.arguments[1], 12))
    return list(_reached("network-outbound", 0, 1)(Call(call.pid, (place, size), call.first)))


_READ, _META = "file-read-data", "file-read-metadata"
WORDS: dict[str, Words] = {
    "open": _open(0, 1),
    "openat": _open(1, 2, 0),
    "creat": _creat,
    "stat": _named(_META, 0),
    "lstat": _named(_META, 0, follows=False),
    "newfstatat": _named(_META, 1, 0, flags=3),
    "statx": _named(_META, 1, 0, flags=2),
    "access": _named(_META, 0),
    "faccessat": _named(_META, 1, 0),
    "faccessat2": _named(_META, 1, 0, flags=3),
    "readlink": _named(_READ, 0, follows=False),
    "readlinkat": _named(_READ, 1, 0, follows=False),
    "getxattr": _named("file-read-xattr", 0),
    "lgetxattr": _named("file-read-xattr", 0, follows=False),
    "execve": _executed(0),
    "execveat": _executed(1, 0),
    "truncate": _named("file-write-data", 0),
    "mkdir": _named("file-write-create", 0, follows=False),
    "mkdirat": _named("file-write-create", 1, 0, follows=False),
    "mknod": _named("file-write-create", 0, follows=False),
    "mknodat": _named("file-write-create", 1, 0, follows=False),
    "symlink": _named("file-write-create", 1, follows=False),
    "symlinkat": _named("file-write-create", 2, 1, follows=False),
    "link": _linked(0, 1),
    "linkat": _linked(1, 3, 0, 2),
    "unlink": _named("file-write-unlink", 0, follows=False),
    "unlinkat": _named("file-write-unlink", 1, 0, follows=False),
    "rmdir": _named("file-write-unlink", 0, follows=False),
    "rename": _renamed(0, 1),
    "renameat": _renamed(1, 3, 0, 2),
    "renameat2": _renamed(1, 3, 0, 2),
    "chmod": _mode(0, 1),
    "fchmodat": _mode(1, 2, 0),
    "fchmodat2": _mode(1, 2, 0),
    "fchmod": _fmode,
    "chown": _named("file-write-owner", 0),
    "lchown": _named("file-write-owner", 0, follows=False),
    "fchownat": _named("file-write-owner", 1, 0, flags=4),
    "fchown": _held("file-write-owner"),
    "utime": _named("file-write-times", 0),
    "utimes": _named("file-write-times", 0),
    "futimesat": _named("file-write-times", 1, 0),
    "utimensat": _named("file-write-times", 1, 0, flags=3),
    "setxattr": _named("file-write-xattr", 0),
    "lsetxattr": _named("file-write-xattr", 0, follows=False),
    "fsetxattr": _held("file-write-xattr"),
    "removexattr": _named("file-write-xattr", 0),
    "fork": lambda _: [Request("process-fork")],
    "vfork": lambda _: [Request("process-fork")],
    "clone": _forked,
    "kill": _signalled(0),
    "tkill": _signalled(0),
    "tgkill": _signalled(0),
    "connect": _reached("network-outbound", 1, 2),
    "sendto": _reached("network-outbound", 4, 5),
    "sendmsg": _messaged,
    "bind": _reached("network-bind", 1, 2),
}
