"""The proxy front: for commands without a network of their own, who are told of it by their environment.

It listens on loopback, for one sandbox, and serves HTTP (CONNECT, and plain requests) and SOCKS5. What a
client wants is decided and carried out by the network, as if it had come by a network: by the same rules,
with the same checks of what is then spoken.

TRUST: other users of the machine can connect as well. Whoever does not know the token gets nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket

from corral.model.network.traffic import NetAction, NetEvent, NetReason
from corral.model.plan import ProxyPlace
from corral.network.fronts.listeners import TcpListener
from corral.network.fronts.refusal_reply import RefusalReply
from corral.network.wire.http_proxy import HttpHandshake
from corral.network.wire.proxy_request import BadRequest
from corral.network.wire.socks import FIRST_BYTE, SocksHandshake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.network.fronts.notify import Notified, Target
    from corral.network.gateway import Timer
    from corral.network.sandbox_network import GatewayNetwork
    from corral.network.wire.http_proxy import Forwarder
    from corral.network.wire.proxy_request import Handshake, ProxyRequest

LOOPBACK = "127.0.0.1"
_BACKLOG = 4096
_TOKEN_BYTES = 24
_CHUNK = 64 << 10
#: Of what has to be read and written anew, which can be slow.
_LOOK_CHUNK = 8 << 10
#: A client has so long to say what it wants.
_TALK_SECONDS = 10.0
#: Clients that have not yet said what they want. Ours are quick: with more, the slowest have to go.
_MOST_TALKING = 256
_TURN = 4
#: What events name where a client named no host.
_SUBJECT = "proxy"


class Proxy:
    """Of one sandbox: its listener, and whoever asks the kernel's questions about connections."""

    def __init__(self, network: GatewayNetwork) -> None:
        """Listen. Raises OSError."""
        self._network = network
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.bind((LOOPBACK, 0))
            self._socket.listen(_BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self.place = ProxyPlace(self._socket.getsockname()[1], os.urandom(_TOKEN_BYTES).hex())
        self._notified: list[Notified] = []
        self._is_stopped = False

    def listen(self) -> ProxyListener:
        """Take clients, from now on. In the loop."""
        return ProxyListener(self._network, self._socket, self.place.token)

    def attach(self, descriptor: int) -> None:
        """Answer the kernel's questions about connections, which it asks on this descriptor."""
        from corral.network.fronts.notify import Notified

        if self._is_stopped:
            os.close(descriptor)  # and the kernel refuses every connection
            return
        self._notified.append(Notified(descriptor, self.place.port, self))

    def stop(self) -> None:
        """No command connects any more. Not in the loop: its last events come there."""
        self._is_stopped = True
        for each in self._notified:
            each.close()
        self._notified.clear()

    # What passes the proxy by: whoever asks is a thread of its own.

    def may_reach(self, target: Target) -> bool:
        """Whether an address is granted, or somebody could still be asked about it."""
        if self._network.questions is not None:
            return True
        host = self._network.host_of(target.address, target.port)
        return self._network.grants.decide(host, target.port).allowed

    def relay(self, client: socket.socket, target: Target) -> None:
        """As if it had come by a network. INVARIANT: it is decided there, in the loop."""
        with contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._network.relay(client, self._network.host_of(target.address, target.port), target.port)

    def refuse(self, target: Target, detail: str) -> None:
        """Tell of it. An address that could not be read is not one."""
        host = target.address or "unknown"
        event = NetEvent(NetAction.CONNECT, False, NetReason.ADDRESS, host, target.port, detail=detail)
        self._network.gateway.call(lambda: self._network.tally.record(event), self._network)


class ProxyListener(TcpListener):
    """Accepts clients, and hears what they want."""

    def __init__(self, network: GatewayNetwork, sock: socket.socket, token: str) -> None:
        super().__init__(network, sock)
        self._token = token
        self._talking: dict[Entrance, None] = {}

    def take(self, client: socket.socket) -> None:
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        entrance = Entrance(self._network, self, client, self._token)
        self._talking[entrance] = None
        if len(self._talking) > _MOST_TALKING:
            next(iter(self._talking)).close()
        self._network.begin(entrance)

    def dismiss(self, client: socket.socket) -> None:
        """What it wants is not known."""
        self._network.turn_away(client, 0, _SUBJECT)

    def forget(self, entrance: Entrance) -> None:
        """It is known what this one wants, or it is gone."""
        self._talking.pop(entrance, None)


class Entrance:
    """One client, until it is known what it wants."""

    def __init__(
        self, network: GatewayNetwork, listener: ProxyListener, client: socket.socket, token: str
    ) -> None:
        self._network, self._listener, self._client, self._token = network, listener, client, token
        self._handshake: Handshake | None = None
        self._timer: Timer | None = None
        self._is_over = False

    def start(self) -> None:
        self._timer = self._network.gateway.later(_TALK_SECONDS, self, self._too_late)
        self._network.gateway.watch(self._client.fileno(), self)

    def ready(self, descriptor: int, mask: int) -> None:
        try:
            for _ in range(_TURN):
                if self._is_over:
                    return
                data = self._client.recv(_LOOK_CHUNK)
                if not data:
                    self.close()
                    return
                self._hear(data)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._network.gateway.soon(self, lambda: self.ready(descriptor, mask), self._network)

    def fail(self, problem: Exception) -> None:
        self.close()

    def close(self) -> None:
        """It is over. Idempotent."""
        if not self._is_over:
            self._leave()
            self._network.gateway.close(self._client)

    def _leave(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._listener.forget(self)
        self._network.forget(self)

    def _hand_over(self) -> None:
        """Somebody else has the client now."""
        self._network.gateway.unwatch(self._client.fileno())
        self._leave()

    def _hear(self, data: bytes) -> None:
        if self._handshake is None:
            self._handshake = (
                SocksHandshake(self._token) if data[0] == FIRST_BYTE else HttpHandshake(self._token)
            )
        try:
            answer = self._handshake.feed(data)
        except BadRequest as problem:
            self._dismiss(self._handshake, problem)
            return
        if answer:
            self._client.send(answer)  # a few bytes into an empty buffer; whoever did not read is gone
        if self._handshake.request is not None:
            self._let_in(self._handshake, self._handshake.request)

    def _let_in(self, handshake: Handshake, request: ProxyRequest) -> None:
        """From now on it is a connection like every other one."""

        def reply(reason: NetReason | None) -> bytes:
            if reason is None:
                return handshake.granted()
            return handshake.refused(BadRequest(reason, "", request.host, request.port))

        client, translator = self._client, None
        if handshake.forwarder is not None:
            inner, client = socket.socketpair()
            translator = Translator(self._network, self._client, inner, handshake.forwarder, request)
        self._hand_over()
        self._network.relay(client, request.host, request.port, handshake.rest, reply)
        if translator is not None:
            self._network.begin(translator)

    def _dismiss(self, handshake: Handshake, problem: BadRequest) -> None:
        """Tell everybody why, the client too."""
        _tell(self._network, problem)
        self._hand_over()
        self._network.begin(RefusalReply(self._network, self._client, handshake.refused(problem)))

    def _too_late(self) -> None:
        if self._handshake is not None:
            _tell(
                self._network,
                BadRequest(NetReason.TOO_LATE, "a client of the proxy did not send its request"),
            )
        self.close()


class Translator:
    """Between a client that sends plain requests to a proxy and what relays them: they are rewritten."""

    def __init__(
        self,
        network: GatewayNetwork,
        client: socket.socket,
        inner: socket.socket,
        forwarder: Forwarder,
        request: ProxyRequest,
    ) -> None:
        self._network, self._client, self._inner = network, client, inner
        self._forwarder, self._request = forwarder, request
        self._up = self._down = b""  # what could not be sent yet
        self._is_up_over = self._is_down_over = self._is_over = False
        self._has_turn = False

    def start(self) -> None:
        for sock in (self._client, self._inner):
            sock.setblocking(False)
            self._network.gateway.watch(sock.fileno(), self)

    def ready(self, descriptor: int, mask: int) -> None:
        if self._network.gateway.is_late():
            self._await_turn()
        if not self._has_turn:
            self._go_on()

    def fail(self, problem: Exception) -> None:
        self.close()

    def close(self) -> None:
        """It is over. Idempotent."""
        if not self._is_over:
            self._is_over = True
            for sock in (self._client, self._inner):
                self._network.gateway.close(sock)
            self._network.forget(self)

    def _go_on(self) -> None:
        if self._is_over:
            return
        try:
            has_more = self._move_down()
            has_more = self._move_up() or has_more
        except BadRequest as problem:
            _tell(
                self._network,
                BadRequest(problem.reason, problem.detail, self._request.host, self._request.port),
            )
            self.close()
            return
        except OSError:
            self.close()
            return
        if self._is_up_over and self._is_down_over:
            self.close()
        elif has_more:
            self._await_turn()

    def _await_turn(self) -> None:
        if not self._has_turn:
            self._has_turn = True
            self._network.gateway.soon(self, self._take_turn, self._network)

    def _take_turn(self) -> None:
        self._has_turn = False
        self._go_on()

    def _move_up(self) -> bool:
        """From the client inwards. True if there is more to do, in the next turn."""
        for _ in range(_TURN):
            self._up, is_sent = _send(self._inner, self._up)
            if not is_sent or self._is_up_over:
                return False
            data = _receive(self._client, self._forwarder.most_at_once(_LOOK_CHUNK, _CHUNK))
            if data is None:
                return False
            if not data:
                self._is_up_over = True
                self._inner.shutdown(socket.SHUT_WR)
                return False
            self._up = self._forwarder.feed(data)
        return True

    def _move_down(self) -> bool:
        """To the client, as it is."""
        for _ in range(_TURN):
            self._down, is_sent = _send(self._client, self._down)
            if not is_sent or self._is_down_over:
                return False
            data = _receive(self._inner)
            if data is None:
                return False
            if not data:
                self._is_down_over = True
                self._client.shutdown(socket.SHUT_WR)
                return False
            self._down = data
        return True


def _tell(network: GatewayNetwork, problem: BadRequest) -> None:
    network.tally.record(
        NetEvent(
            NetAction.CONNECT,
            False,
            problem.reason,
            problem.host or _SUBJECT,
            problem.port,
            detail=problem.detail,
        )
    )


def _send(sock: socket.socket, data: bytes) -> tuple[bytes, bool]:
    """What is left, and whether that is nothing. Raises OSError."""
    try:
        while data:
            data = data[sock.send(data) :]
    except BlockingIOError:
        return data, False
    return b"", True


def _receive(sock: socket.socket, most: int = _CHUNK) -> bytes | None:
    """What is there; None: nothing yet. Raises OSError."""
    try:
        return sock.recv(most)
    except BlockingIOError:
        return None
