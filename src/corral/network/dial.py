"""Dial: reach one of several addresses, without waiting long for any (RFC 8305, "happy eyeballs").

The next address is tried when one has failed, or has not answered for a moment; the first that answers is
taken.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from itertools import chain, zip_longest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from corral.network.gateway import Gateway, Owner, Timer

    Place = tuple[str, int]

#: As curl has it: longer than most answers take, and nobody notices it.
_DELAY_SECONDS = 0.2
_SECONDS_EACH = 5.0
#: Each has a descriptor: with more, the oldest has waited long enough.
_MOST_AT_ONCE = 5
#: Whoever is silent for so long is asked whether he is still there.
_IDLE_SECONDS_BEFORE_PROBE = 60
#: Linux takes them with the call that makes a socket. Python closes its own for programs that it starts.
_NONBLOCK: int = getattr(socket, "SOCK_NONBLOCK", 0)
_CLOEXEC: int = getattr(socket, "SOCK_CLOEXEC", 0)
_KEEPIDLE: int = getattr(socket, "TCP_KEEPIDLE", 0) or getattr(socket, "TCP_KEEPALIVE", 0)


class Dial:
    """One connection to make. `done` hears once of the socket and the address, or of the reason why not."""

    def __init__(
        self,
        gateway: Gateway,
        addresses: Sequence[Place],
        may_dial: Callable[[str], bool],
        done: Callable[[socket.socket | None, str], None],
        owner: Owner,
    ) -> None:
        self._gateway, self._may_dial, self._done, self._owner = gateway, may_dial, done, owner
        self._left = [*reversed(by_turns(addresses))]
        self._attempts: dict[int, _Attempt] = {}  # by descriptor, the oldest first
        self._problem = "there is no address"
        self._delay: Timer | None = None

    def start(self) -> None:
        """`done` may be called before this returns."""
        self._next()

    def cancel(self) -> None:
        """Forget it; `done` is not called. Nothing of it is on its way any more."""
        self._left.clear()
        self._stop_delay()
        for attempt in tuple(self._attempts.values()):
            self._drop(attempt)

    def ready(self, descriptor: int, mask: int) -> None:
        """The kernel knows how it went."""
        attempt = self._attempts.get(descriptor)
        if attempt is None:
            return
        error = attempt.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._fail_one(attempt, os.strerror(error))
            return
        try:
            attempt.socket.getpeername()
        except OSError:
            return  # it was for something else: still connecting
        del self._attempts[descriptor]
        attempt.timer.cancel()
        self.cancel()  # ORDER: the others are gone before the first byte is passed on
        self._done(attempt.socket, attempt.address)

    def fail(self, problem: Exception) -> None:
        self.cancel()
        self._owner.fail(problem)

    def _next(self) -> None:
        """Try one more, and see to the one after it."""
        self._stop_delay()
        while self._left:
            if self._try(*self._left.pop()):
                if self._left:
                    self._delay = self._gateway.later(_DELAY_SECONDS, self, self._next)
                return  # also where it was quick: the loop tells it in the next turn
        if not self._attempts:
            self._done(None, self._problem)

    def _try(self, address: str, port: int) -> bool:
        # INVARIANT: judged right before, since what is permitted may have changed while others were tried.
        if not self._may_dial(address):
            return False
        if len(self._attempts) >= _MOST_AT_ONCE:
            self._drop(next(iter(self._attempts.values())))
        try:
            sock = open_socket(address)
        except OSError as problem:
            self._problem = problem.strerror or str(problem)
            return False
        error = errno.EIO
        try:
            error = sock.connect_ex((address, port))
            self._gateway.watch(sock.fileno(), self)
        except OSError as problem:
            error = problem.errno or error
        if error not in {0, errno.EINPROGRESS}:
            self._problem = os.strerror(error)
            self._gateway.close(sock)
            return False
        self._attempts[sock.fileno()] = attempt = _Attempt(sock, address)
        attempt.timer = self._gateway.later(
            _SECONDS_EACH, self, lambda: self._fail_one(attempt, "no answer in time")
        )
        return True

    def _fail_one(self, attempt: _Attempt, problem: str) -> None:
        self._problem = problem
        self._drop(attempt)
        self._next()

    def _drop(self, attempt: _Attempt) -> None:
        del self._attempts[attempt.socket.fileno()]
        attempt.timer.cancel()
        with contextlib.suppress(OSError):  # at once: the number itself is given back at the end of the turn
            attempt.socket.shutdown(socket.SHUT_RDWR)
        self._gateway.close(attempt.socket)

    def _stop_delay(self) -> None:
        if self._delay is not None:
            self._delay.cancel()
            self._delay = None


class _Attempt:
    """At one address."""

    timer: Timer

    def __init__(self, sock: socket.socket, address: str) -> None:
        self.socket, self.address = sock, address


def by_turns(addresses: Sequence[Place]) -> list[Place]:
    """The two families in turn, beginning with the one that the resolver has put first; else in its order."""
    if not addresses:
        return []
    is_first = [(":" in address) == (":" in addresses[0][0]) for address, _ in addresses]
    first = [one for one, is_one in zip(addresses, is_first, strict=True) if is_one]
    second = [one for one, is_one in zip(addresses, is_first, strict=True) if not is_one]
    return [one for one in chain.from_iterable(zip_longest(first, second)) if one is not None]


def is_own_address(address: str) -> bool:
    """Whether a public address is one of this machine itself, and so is its loopback by another name.

    The kernel goes to its own addresses from these same addresses. No packet is sent. Where it cannot be
    found out it is taken for one: without descriptors nothing could be dialled anyway.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM | _CLOEXEC)
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
    sock = socket.socket(family, socket.SOCK_STREAM | _NONBLOCK | _CLOEXEC)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not _NONBLOCK:
            sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, _KEEPIDLE, _IDLE_SECONDS_BEFORE_PROBE)
    except OSError:
        sock.close()
        raise
    return sock
