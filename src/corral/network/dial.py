"""Dial: reach one of several addresses, one after the other, without waiting for any."""

from __future__ import annotations

import errno
import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from corral.network.gateway import Gateway, Owner, Timer

_SECONDS_EACH, _SECONDS_IN_ALL = 5.0, 10.0
#: Whoever is silent for so long is asked whether he is still there.
_IDLE_SECONDS_BEFORE_PROBE = 60


class Dial:
    """One attempt to connect. `done` hears once of the socket and the address, or of the reason why not."""

    def __init__(
        self,
        gateway: Gateway,
        addresses: Sequence[tuple[str, int]],
        done: Callable[[socket.socket | None, str], None],
        owner: Owner,
    ) -> None:
        self._gateway, self._done, self._owner = gateway, done, owner
        self._left = list(reversed(addresses))
        self._socket: socket.socket | None = None
        self._address = ""
        self._problem = "there is no address"
        self._timer: Timer | None = None
        self._deadline = gateway.now + _SECONDS_IN_ALL

    def start(self) -> None:
        """`done` may be called before this returns."""
        self._next()

    def cancel(self) -> None:
        """Forget it; `done` is not called."""
        self._left.clear()
        self._drop()

    def ready(self, descriptor: int, mask: int) -> None:
        """The kernel knows how it went."""
        if self._socket is None or descriptor != self._socket.fileno():
            return
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._fail_one(os.strerror(error))
            return
        try:
            self._socket.getpeername()
        except OSError:
            return  # it was for something else: still connecting
        self._succeed()

    def fail(self, problem: Exception) -> None:
        self.cancel()
        self._owner.fail(problem)

    def _next(self) -> None:
        while self._left:
            seconds = min(_SECONDS_EACH, self._deadline - self._gateway.now)
            if seconds <= 0:
                break
            self._address, port = self._left.pop()
            try:
                self._socket = sock = open_socket(self._address)
                error = sock.connect_ex((self._address, port))
                self._gateway.watch(sock.fileno(), self)
            except OSError as problem:
                self._problem = problem.strerror or str(problem)
                self._drop()
                continue
            if error not in {0, errno.EINPROGRESS}:
                self._problem = os.strerror(error)
                self._drop()
                continue
            self._timer = self._gateway.later(seconds, self, self._time_out)
            return  # also where it was quick: the loop tells it in the next turn
        self._done(None, self._problem)

    def _time_out(self) -> None:
        self._fail_one("no answer in time")

    def _fail_one(self, problem: str) -> None:
        self._problem = problem
        self._drop()
        self._next()

    def _succeed(self) -> None:
        assert self._socket is not None and self._timer is not None
        self._timer.cancel()
        sock, self._socket = self._socket, None
        self._done(sock, self._address)

    def _drop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            self._gateway.close(self._socket)
            self._socket = None


def is_own_address(address: str) -> bool:
    """Whether a public address is one of this machine itself, and so is its loopback by another name.

    The kernel goes to its own addresses from these same addresses. No packet is sent. Where it cannot be
    found out it is taken for one: without descriptors nothing could be dialled anyway.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    except OSError as problem:
        return problem.errno != errno.EAFNOSUPPORT
    with sock:
        try:
            sock.connect((address, 9))
        except OSError:
            return False  # there is no way to it
        return bool(sock.getsockname()[0] == address)


def open_socket(address: str) -> socket.socket:
    """A socket for an address, as relays need it. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_SECONDS_BEFORE_PROBE)
    except OSError:
        sock.close()
        raise
    return sock
