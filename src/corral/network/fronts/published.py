"""Published ports: whoever connects to loopback outside reaches a server inside.

The launcher gives a few sockets of the sandbox's own network, neither bound nor connected. Corral connects
one for each visitor, and disconnects it afterwards, so that it serves the next.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections import deque
from itertools import zip_longest

from corral.network.fronts.listeners import TcpListener
from corral.network.gateway import EDGES
from corral.network.meter import TooManyBytes
from corral.network.relay import Flow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.network.sandbox_network import GatewayNetwork

    Line = tuple[socket.socket, ...]

_LOOPBACK = "127.0.0.1"
#: Where a server inside may listen: some know only the one or the other.
_INSIDE = {socket.AF_INET: _LOOPBACK, socket.AF_INET6: "::1"}
_BACKLOG = 128
#: Who waits is not among the network's connections, and takes room from nobody.
_MOST_WAITING = 128
_PATIENCE_SECONDS = 30.0
_ADDRESS_BYTES = 16


class Published:
    """Of one sandbox, in the gateway's thread. A line is what one visit needs: a socket of each family."""

    def __init__(self, network: GatewayNetwork) -> None:
        self._network = network
        self._free: list[Line] = []
        self._waiting: deque[PublishedConnection] = deque()
        self.doors: list[TcpListener] = []

    def listen(self, ports: Iterable[tuple[int, int]]) -> list[TcpListener]:
        """At ports of the host's loopback, and nowhere else. Raises OSError."""
        for outside, inside in ports:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((_LOOPBACK, outside))
                sock.listen(_BACKLOG)
            except OSError:
                sock.close()
                for door in self.doors:
                    door.close()
                raise
            self.doors.append(_Door(self._network, sock, self, inside))
        return self.doors

    def add(self, sockets: list[socket.socket]) -> None:
        """Sockets of the sandbox's network."""
        of = {family: [sock for sock in sockets if sock.family == family] for family in _INSIDE}
        for sock in sockets:
            sock.setblocking(False)
        pairs = zip_longest(*of.values())
        self._free += [tuple(sock for sock in pair if sock is not None) for pair in pairs]
        self._serve()

    def enter(self, client: socket.socket, port: int) -> None:
        """Somebody has come; he waits until there is a line for him."""
        if len(self._waiting) >= _MOST_WAITING:
            client.close()
            return
        client.setblocking(False)
        self._waiting.append(PublishedConnection(self._network, self, client, port))
        self._serve()

    def give_back(self, line: Line) -> None:
        """A visit is over."""
        if all(map(_disconnect, line)):
            self._free.append(line)
        else:
            _close(line)
        # ORDER: not in this turn, in which something may still be told of the line's last visit.
        self._network.gateway.soon(self._network, self._serve, self._network)

    def forget(self, visit: PublishedConnection) -> None:
        with contextlib.suppress(ValueError):
            self._waiting.remove(visit)

    def drop_lines(self) -> None:
        """Their network is gone; nobody can say whether there will be another one."""
        while self._free:
            _close(self._free.pop())
        self._dismiss()

    def _dismiss(self) -> None:
        for visit in tuple(self._waiting):
            visit.close()

    def _serve(self) -> None:
        if self._network.room.is_spent:
            self._dismiss()
        while self._free and self._waiting:
            self._waiting.popleft().connect(self._free.pop())


class _Door(TcpListener):
    def __init__(
        self, network: GatewayNetwork, sock: socket.socket, published: Published, inside: int
    ) -> None:
        self._published, self._inside = published, inside
        super().__init__(network, sock)

    def take(self, client: socket.socket) -> None:
        self._published.enter(client, self._inside)

    def turn_away(self) -> None:
        """Nobody is told of it but the visitor: the command has done nothing."""
        with contextlib.suppress(OSError):
            for _ in range(_BACKLOG):
                self.socket.accept()[0].close()


class PublishedConnection:
    """One connection from outside to a server inside."""

    def __init__(
        self, network: GatewayNetwork, published: Published, client: socket.socket, port: int
    ) -> None:
        self._network, self._published, self._client, self._port = network, published, client, port
        self._line: Line = ()
        self._patience = network.gateway.later(_PATIENCE_SECONDS, self, self.close)
        self._untried: list[socket.socket] = []
        self._inner: socket.socket | None = None  # that is tried, or in use
        self._flows: tuple[Flow, ...] = ()

    def connect(self, line: Line) -> None:
        """There is a line: from now on it is a connection of the network."""
        self._patience.cancel()
        self._line, self._untried = line, list(line)
        self._network.begin(self)

    def start(self) -> None:
        """Go to the server."""
        self._try_next()

    def ready(self, descriptor: int, mask: int) -> None:
        inner = self._inner
        if inner is None:
            return
        if self._flows:
            for flow in self._flows:
                flow.readable = flow.writable = True
            self._pump()
        elif inner.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._try_next()
        elif _is_connected(inner):
            self._begin(inner)

    def grant(self, wanted: int, flow: Flow) -> int:
        """What is published counts as traffic like all else."""
        granted = self._network.meter.grant(wanted, flow)
        if granted <= 0:
            self._network.meter.pause(self, self._pump)
        return granted

    def count(self, passed: int, is_sent: bool) -> None:
        self._network.meter.count(passed)

    def fail(self, problem: Exception) -> None:
        self.close()

    def close(self) -> None:
        """End it, and give the line to the next visitor."""
        for flow in self._flows:
            flow.release()
        self._flows = ()
        self._patience.cancel()
        self._published.forget(self)
        self._network.gateway.close(self._client)
        self._leave_inner()
        line, self._line = self._line, ()
        if line:
            self._published.give_back(line)
        self._network.forget(self)

    def _leave_inner(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            self._network.gateway.unwatch(inner.fileno())

    def _try_next(self) -> None:
        while self._untried:
            self._leave_inner()
            self._inner = inner = self._untried.pop(0)
            self._network.gateway.watch(inner.fileno(), self, EDGES)
            if inner.connect_ex((_INSIDE[socket.AddressFamily(inner.family)], self._port)) in {
                0,
                errno.EINPROGRESS,
            }:
                return
        self.close()  # nobody listens there

    def _begin(self, inner: socket.socket) -> None:
        gateway = self._network.gateway
        self._flows = (
            Flow(inner, self._client, self, gateway.pipes, is_sent=True),
            Flow(self._client, inner, self, gateway.pipes, is_sent=False),
        )
        gateway.watch(self._client.fileno(), self, EDGES)
        self._pump()

    def _pump(self) -> None:
        try:
            has_more = [flow.pump() for flow in self._flows if not flow.is_done]
        except TooManyBytes:
            self._network.exceed()
            return
        except OSError:
            self.close()
            return
        if self._flows and all(flow.is_done for flow in self._flows):
            self.close()
        elif any(has_more):
            self._network.gateway.soon(self, self._pump, self._network)


def _close(line: Line) -> None:
    for sock in line:
        sock.close()


def _is_connected(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


def _disconnect(sock: socket.socket) -> bool:
    """Make a socket of TCP what it was before it was connected: an address of no family does that."""
    import ctypes  # few runs publish anything

    libc = ctypes.CDLL(None)
    return bool(libc.connect(sock.fileno(), bytes(_ADDRESS_BYTES), _ADDRESS_BYTES) == 0)
