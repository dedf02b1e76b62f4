"""The proxy front: for commands without a network of their own, who are told of it by their environment.

It listens on loopback, for one sandbox, and serves HTTP (CONNECT, and plain requests) and SOCKS5. What a
client wants is decided and carried out by the border, as if it had come by a network: by the same rules,
with the same checks of what is then spoken.

TRUST: other users of the machine can connect as well. Whoever does not know the token gets nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket

from corral.model.plan import ProxyPlace
from corral.model.traffic import NetAction, NetEvent, NetReason
from corral.network.farewell import Farewell
from corral.network.forward import HttpTalk
from corral.network.listeners import TcpListener
from corral.network.socks import FIRST_BYTE, SocksTalk
from corral.network.wish import Unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.network.border import Border
    from corral.network.forward import Forwarder
    from corral.network.gateway import Timer
    from corral.network.notify import Notified, Target
    from corral.network.wish import Talk, Wish

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
    """Of one border: its listener, and whoever asks the kernel's questions about connections."""

    def __init__(self, border: Border) -> None:
        """Listen. Raises OSError."""
        self._border = border
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
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
        return ProxyListener(self._border, self._socket, self.place.token)

    def attach(self, descriptor: int) -> None:
        """Answer the kernel's questions about connections, which it asks on this descriptor."""
        from corral.network.notify import Notified

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
        if self._border.questions is not None:
            return True
        host = self._border.host_of(target.address, target.port)
        return self._border.grants.decide(host, target.port).allowed

    def relay(self, client: socket.socket, target: Target) -> None:
        """As if it had come by a network. INVARIANT: it is decided there, in the loop."""
        with contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._border.relay(client, self._border.host_of(target.address, target.port), target.port)

    def refuse(self, target: Target, detail: str) -> None:
        """Tell of it. An address that could not be read is not one."""
        host = target.address or "unknown"
        event = NetEvent(NetAction.CONNECT, False, NetReason.ADDRESS, host, target.port, detail=detail)
        self._border.gateway.call(lambda: self._border.tally.record(event), self._border)


class ProxyListener(TcpListener):
    """Accepts clients, and hears what they want."""

    def __init__(self, border: Border, sock: socket.socket, token: str) -> None:
        super().__init__(border, sock)
        self._token = token
        self._talking: dict[Entrance, None] = {}

    def take(self, client: socket.socket) -> None:
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        entrance = Entrance(self._border, self, client, self._token)
        self._talking[entrance] = None
        if len(self._talking) > _MOST_TALKING:
            next(iter(self._talking)).close()
        self._border.begin(entrance)

    def dismiss(self, client: socket.socket) -> None:
        """What it wants is not known."""
        self._border.turn_away(client, 0, _SUBJECT)

    def forget(self, entrance: Entrance) -> None:
        """It is known what this one wants, or it is gone."""
        self._talking.pop(entrance, None)


class Entrance:
    """One client, until it is known what it wants."""

    def __init__(self, border: Border, listener: ProxyListener, client: socket.socket, token: str) -> None:
        self._border, self._listener, self._client, self._token = border, listener, client, token
        self._talk: Talk | None = None
        self._timer: Timer | None = None
        self._is_over = False

    def start(self) -> None:
        self._timer = self._border.gateway.later(_TALK_SECONDS, self, self._too_late)
        self._border.gateway.watch(self._client.fileno(), self)

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
        self._border.gateway.soon(self, lambda: self.ready(descriptor, mask), self._border)

    def fail(self, problem: Exception) -> None:
        self.close()

    def close(self) -> None:
        """It is over. Idempotent."""
        if not self._is_over:
            self._leave()
            self._border.gateway.close(self._client)

    def _leave(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._listener.forget(self)
        self._border.forget(self)

    def _hand_over(self) -> None:
        """Somebody else has the client now."""
        self._border.gateway.unwatch(self._client.fileno())
        self._leave()

    def _hear(self, data: bytes) -> None:
        if self._talk is None:
            self._talk = SocksTalk(self._token) if data[0] == FIRST_BYTE else HttpTalk(self._token)
        try:
            answer = self._talk.feed(data)
        except Unfit as problem:
            self._dismiss(self._talk, problem)
            return
        if answer:
            self._client.send(answer)  # a few bytes into an empty buffer; whoever did not read is gone
        if self._talk.wish is not None:
            self._let_in(self._talk, self._talk.wish)

    def _let_in(self, talk: Talk, wish: Wish) -> None:
        """From now on it is a connection like every other one."""

        def reply(reason: NetReason | None) -> bytes:
            if reason is None:
                return talk.granted()
            return talk.refused(Unfit(reason, "", wish.host, wish.port))

        client, translator = self._client, None
        if talk.forwarder is not None:
            inner, client = socket.socketpair()
            translator = Translator(self._border, self._client, inner, talk.forwarder, wish)
        self._hand_over()
        self._border.relay(client, wish.host, wish.port, talk.rest, reply)
        if translator is not None:
            self._border.begin(translator)

    def _dismiss(self, talk: Talk, problem: Unfit) -> None:
        """Tell everybody why, the client too."""
        _tell(self._border, problem)
        self._hand_over()
        self._border.begin(Farewell(self._border, self._client, talk.refused(problem)))

    def _too_late(self) -> None:
        if self._talk is not None:
            _tell(self._border, Unfit(NetReason.TOO_LATE, "a client of the proxy did not say what it wants"))
        self.close()


class Translator:
    """Between a client that sends plain requests to a proxy and what relays them: they are rewritten."""

    def __init__(
        self, border: Border, client: socket.socket, inner: socket.socket, forwarder: Forwarder, wish: Wish
    ) -> None:
        self._border, self._client, self._inner = border, client, inner
        self._forwarder, self._wish = forwarder, wish
        self._up = self._down = b""  # what could not be sent yet
        self._is_up_over = self._is_down_over = self._is_over = False
        self._has_turn = False

    def start(self) -> None:
        for sock in (self._client, self._inner):
            sock.setblocking(False)
            self._border.gateway.watch(sock.fileno(), self)

    def ready(self, descriptor: int, mask: int) -> None:
        if self._border.gateway.is_late():
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
                self._border.gateway.close(sock)
            self._border.forget(self)

    def _go_on(self) -> None:
        if self._is_over:
            return
        try:
            has_more = self._move_down()
            has_more = self._move_up() or has_more
        except Unfit as problem:
            _tell(self._border, Unfit(problem.reason, problem.detail, self._wish.host, self._wish.port))
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
            self._border.gateway.soon(self, self._take_turn, self._border)

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


def _tell(border: Border, problem: Unfit) -> None:
    border.tally.record(
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
