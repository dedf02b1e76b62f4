"""Connections of a command that has no network of its own: the kernel asks about each, and corral makes it.

The command's filter hands every connect(2) to its supervisor (seccomp_unotify(2)), who passes the question
on to corral, with the descriptor that it is answered on (launcher/listen.c). Corral reads which address was
meant, and connects the command's own socket to its proxy if it was that one. If it was an address that the
policy names, it connects the socket to itself, and makes the connection in its stead. Every other is refused.

INVARIANT: the call itself is never let through. What is connected is a descriptor that corral holds, to an
address that corral keeps, so whoever changes the address or the descriptor meanwhile changes nothing. If
corral is gone, the supervisor refuses, and ends the command: there is no network then.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import os
import select
import socket
import struct
import sys
import threading
import time
from functools import cache
from typing import Protocol

from corral.model.network.addresses import canonical_address
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# linux/seccomp.h: struct seccomp_notif with its struct seccomp_data, struct seccomp_notif_resp, an id
_REQUEST = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_ID = struct.Struct("=Q")
_SEND, _IS_VALID = 0xC018_2101, 0x4008_2102
_INT = struct.Struct("=i")
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)  # Linux has it

_PIDFD_GETFD = 438  # one number on every machine
_PIDFD_THREAD = os.O_EXCL  # Linux 6.9
_AF_INET, _AF_INET6 = 2, 10
_MOST_ADDRESS = 128  # struct sockaddr_storage
_LEAST_ADDRESS = {_AF_INET: 8, _AF_INET6: 24}
_LOOPBACK = "127.0.0.1"
_END_SECONDS, _ACCEPT_SECONDS = 5.0, 2.0
_RETRY_SECONDS = 0.02


class ConnectCall(Record):
    """One call of connect(2), as the kernel tells of it. All of it but the id is the command's word."""

    id: int
    thread: int  # 0: in a PID namespace that we do not see
    descriptor: int
    pointer: int
    length: int


class Target(Record):
    """The address that a command wants; `address` is empty where it is none of the Internet."""

    family: int
    address: str = ""  # canonical: a mapped IPv4 address is that address
    port: int = 0


def read_request(raw: bytes) -> ConnectCall:
    """A request out of the kernel's structure."""
    id_, thread, _, _, _, _, descriptor, pointer, length, *_ = _REQUEST.unpack(raw)
    return ConnectCall(id_, thread, descriptor & 0x7FFF_FFFF, pointer, length & 0xFFFF_FFFF)


def read_target(raw: bytes) -> Target:
    """The address in a `struct sockaddr`. Raises ValueError: it is too short to be one."""
    if len(raw) < 2:
        raise ValueError("an address without a family")
    family = int.from_bytes(raw[:2], sys.byteorder)
    if family not in _LEAST_ADDRESS:
        return Target(family)
    if len(raw) < _LEAST_ADDRESS[family]:
        raise ValueError("an address that is too short")
    packed = raw[4:8] if family == _AF_INET else raw[8:24]
    address = canonical_address(str(ipaddress.ip_address(packed)))
    return Target(family, address, int.from_bytes(raw[2:4], "big"))


def write_place(family: int, port: int) -> bytes:
    """The proxy's address, as a socket of this family takes it."""
    loopback = bytes((127, 0, 0, 1))
    start = family.to_bytes(2, sys.byteorder) + port.to_bytes(2, "big")
    if family == _AF_INET:
        return start + loopback + bytes(8)
    return start + bytes(4) + bytes(10) + b"\xff\xff" + loopback + bytes(4)


class Judge(Protocol):
    """Who decides about connections that pass the proxy by. Called in a thread of its own."""

    def may_reach(self, target: Target) -> bool:
        """Whether the connection may be made; it is decided once more when it is."""

    def relay(self, client: socket.socket, target: Target) -> None:
        """Make it; `client` is the other end of the command's socket, and belongs to the judge."""

    def refuse(self, target: Target, detail: str) -> None:
        """The command was told that it may not."""


class Notified:
    """Answers for one sandbox, in a thread of its own.

    Its own, because a command can make its answers slow: its socket may be one that waits, its memory may be
    a file of a host that does not answer. Nobody but itself is kept waiting.
    """

    def __init__(self, questions: int, port: int, judge: Judge) -> None:
        """Begin. The socket by which questions come belongs to this from now on; `port` is the proxy's."""
        self._port, self._judge = port, judge
        self._answers = -1  # the listener of the filter that has asked
        self._spare = -1  # kept for it: a question must not wait because corral has no descriptor left
        self._door: socket.socket | None = None  # where sockets are connected to that pass the proxy by
        self._lock = threading.Lock()
        self._held = -1  # the socket that is being connected
        self._thread = threading.Thread(target=self._serve, name="corral-notified", daemon=True)
        self._questions = socket.socket(fileno=questions)
        ends: tuple[int, ...] = ()
        try:
            ends = self._woken, self._wake = os.pipe()
            self._keep_spare()
            self._thread.start()
        except BaseException:
            self._questions.close()  # INVARIANT: whoever is not answered is refused
            for descriptor in (*ends, *((self._spare,) if self._spare >= 0 else ())):
                os.close(descriptor)
            raise

    def close(self) -> None:
        """From now on every connection fails. Idempotent."""
        with self._lock:
            if self._wake < 0:
                return
            wake, self._wake = self._wake, -1
            os.close(wake)
            if self._held >= 0:  # it may wait for an answer that will not come
                with contextlib.suppress(OSError):
                    _shut_down(self._held)
        self._thread.join(_END_SECONDS)

    def _serve(self) -> None:
        poller = select.poll()
        poller.register(self._questions, select.POLLIN)
        poller.register(self._woken, 0)
        try:
            while True:
                ready = dict(poller.poll())
                if self._woken in ready or not ready[self._questions.fileno()] & select.POLLIN:
                    return
                if not self._answer_next(self._decide):
                    time.sleep(_RETRY_SECONDS)
                self._keep_spare()
        except BrokenPipeError:  # nobody asks any more
            return
        finally:
            self._questions.setblocking(False)
            with contextlib.suppress(OSError):  # INVARIANT: nobody is left who waits for an answer
                while self._answer_next(lambda _: errno.ENOSYS):
                    pass
            self._questions.close()
            os.close(self._woken)
            if self._spare >= 0:
                os.close(self._spare)
            if self._door is not None:
                self._door.close()

    def _keep_spare(self) -> None:
        if self._spare < 0:
            with contextlib.suppress(OSError):
                self._spare = os.dup(self._woken)

    def _answer_next(self, decide: Callable[[ConnectCall], int]) -> bool:
        """Whether there was a question, and a descriptor to answer it on. Raises OSError."""
        raw = self._take_question()
        if raw is None:
            return False
        request = read_request(raw)
        try:
            error = decide(request)
        except OSError:
            error = errno.EACCES
        try:
            fcntl.ioctl(self._answers, _SEND, bytearray(_RESPONSE.pack(request.id, 0, -error, 0)))
        except OSError as problem:
            if problem.errno not in {errno.ENOENT, errno.EINPROGRESS}:  # whoever asked is gone
                raise
        finally:
            os.close(self._answers)
            self._answers = -1
        return True

    def _take_question(self) -> bytes | None:
        """ORDER: looked at first. One whose descriptor finds no room stays where it is."""
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        room, flags = socket.CMSG_SPACE(_INT.size), socket.MSG_PEEK | _CLOSE_ON_EXEC
        raw, ancillary, _, _ = self._questions.recvmsg(_REQUEST.size, room, flags)
        if not raw:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS) and len(payload) >= _INT.size:
                (self._answers,) = _INT.unpack_from(payload)
        if self._answers < 0:
            return None
        self._questions.recv(_REQUEST.size)
        return raw

    def _decide(self, request: ConnectCall) -> int:
        """The error that the call returns, or 0."""
        try:
            target = read_target(_read_memory(request))
        except ValueError:
            return errno.EINVAL
        except OSError as problem:
            if problem.errno == errno.EIO:  # nothing is there
                return errno.EFAULT
            self._judge.refuse(Target(0), f"its address cannot be read: {problem.strerror}")
            return errno.EACCES
        if not target.address:
            return (
                errno.EACCES
            )  # no socket of another family can be made; an inherited one is not led elsewhere
        is_proxy = (target.address, target.port) == (_LOOPBACK, self._port)
        if not is_proxy and not self._judge.may_reach(target):
            self._judge.refuse(target, "a direct connection, past the proxy")
            return errno.EACCES
        try:
            held = _take_descriptor(request)
        except OSError as problem:
            if problem.errno == errno.EBADF:
                return errno.EBADF
            self._judge.refuse(target, f"its socket cannot be taken: {problem.strerror}")
            return errno.EACCES
        try:
            return self._connect(request, held, target, is_proxy=is_proxy)
        finally:
            with self._lock:
                self._held = -1
            os.close(held)

    def _connect(self, request: ConnectCall, held: int, target: Target, *, is_proxy: bool) -> int:
        with self._lock:
            if self._wake < 0:
                return errno.EACCES
            self._held = held
        # ORDER: after the descriptor was taken. Its thread still waits, so the number was not another's.
        if not self._is_valid(request.id):
            return errno.EACCES
        if not is_proxy:
            return self._connect_directly(held, target)
        place = write_place(target.family, self._port)
        error = _connect_to(held, place)
        # A call that a signal had interrupted is made again, and finds that it has succeeded.
        return 0 if error == errno.EISCONN and _name_of(held, "getpeername") == place else error

    def _connect_directly(self, held: int, target: Target) -> int:
        if self._door is None:
            self._door = socket.create_server((_LOOPBACK, 0))
            self._door.settimeout(_ACCEPT_SECONDS)
        error = _connect_to(held, write_place(target.family, self._door.getsockname()[1]))
        if error not in {0, errno.EINPROGRESS}:
            return error
        own = _port_of(held)
        while True:
            client, peer = self._door.accept()
            if peer == (_LOOPBACK, own):
                break
            client.close()  # somebody else of this machine has found the door
        self._judge.relay(client, target)
        return error

    def _is_valid(self, id_: int) -> bool:
        try:
            fcntl.ioctl(self._answers, _IS_VALID, _ID.pack(id_))
        except OSError:
            return False
        return True


def _read_memory(request: ConnectCall) -> bytes:
    """The address that the call points to. Raises OSError, for a process that keeps others out too."""
    if not request.thread:
        raise PermissionError(errno.EPERM, "out of sight")
    if request.length > _MOST_ADDRESS:
        raise ValueError("an address that is too long")
    memory = os.open(f"/proc/{request.thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, request.length, request.pointer)
    except OverflowError:
        raise ValueError("an address nowhere") from None
    finally:
        os.close(memory)


def _take_descriptor(request: ConnectCall) -> int:
    """The command's socket, as a descriptor of our own. Raises OSError."""
    holder = _open_holder(request.thread)
    try:
        taken = _system().syscall(_PIDFD_GETFD, holder, request.descriptor, 0)
        if taken < 0:
            raise _last_error()
        return int(taken)
    finally:
        os.close(holder)


def _open_holder(thread: int) -> int:
    """A thread may have descriptors of its own; older kernels know only those of its process."""
    try:
        return os.pidfd_open(thread, _PIDFD_THREAD)
    except OSError as problem:
        if problem.errno != errno.EINVAL:
            raise
    return os.pidfd_open(_process_of(thread))


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("Tgid:"):
                return int(line.split()[1])
    raise ProcessLookupError(errno.ESRCH, "no process has this thread")


def _connect_to(held: int, place: bytes) -> int:
    """Not by a socket object: the timeout that such a one has would become the command's own."""
    if _system().connect(held, place, len(place)) == 0:
        return 0
    return _last_error().errno or errno.EACCES


def _port_of(held: int) -> int:
    return int.from_bytes(_name_of(held, "getsockname")[2:4], "big")


def _name_of(held: int, call: str) -> bytes:
    name, size = ctypes.create_string_buffer(_MOST_ADDRESS), ctypes.c_uint32(_MOST_ADDRESS)
    if getattr(_system(), call)(held, name, ctypes.byref(size)) < 0:
        return b""
    return name.raw[: size.value]


def _shut_down(held: int) -> None:
    if _system().shutdown(held, 2) < 0:
        raise _last_error()


@cache
def _system() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
