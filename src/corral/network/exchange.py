"""Exchange: both directions of a connection that stands, its share of what may pass, and its counters."""

from __future__ import annotations

import socket

from corral.network.meter import TooManyBytes
from corral.network.poller import EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP
from corral.network.relay import Flow
from corral.network.wire.first_bytes import Refused, TlsHead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.network.connection import Connection
    from corral.network.gateway import Timer
    from corral.network.wire.http_flows import HttpHead

_ERROR = EPOLLERR
_READ = EPOLLIN | EPOLLRDHUP | EPOLLHUP | _ERROR
_WRITE = EPOLLOUT | EPOLLHUP | _ERROR


#: Of silence, when the other side has said everything: a server may still work at its answer; a client that
#: keeps a connection whose server has gone has forgotten it.
_SECONDS_FOR_ANSWER, _SECONDS_FOR_CLIENT = 600.0, 60.0
_SILENCE = "one side had ended, and the other was silent"


class Exchange:
    """Of one connection, which ends it."""

    __slots__ = (
        *("_client", "_count", "_half", "_has_turn", "_is_over", "_is_queued", "_connection", "_remote"),
        *("down", "up"),
    )

    def __init__(
        self,
        connection: Connection,
        client: socket.socket,
        remote: socket.socket,
        head: TlsHead | HttpHead | None,
    ) -> None:
        self._connection, self._client, self._remote = connection, client, remote
        self._count = connection.network.tally.host(connection.host, connection.port)
        self._is_queued = self._is_over = False
        self._has_turn = False  # one is to come, and what can be done waits for it
        self._half: Timer | None = None  # from the moment when one side has said everything
        self.up, self.down = self._make_flows(head)

    def start(self, first: bytes, came: int) -> None:
        """`first`: what may pass of the bytes that came until now."""
        try:
            self.up.send_first(first, came)
        except TooManyBytes:
            self._connection.network.exceed()
            return
        self._go_on()

    def ready(self, descriptor: int, mask: int) -> None:
        """The kernel has news about one of the two sockets."""
        is_client = descriptor == self._client.fileno()
        inward, outward = (self.up, self.down) if is_client else (self.down, self.up)
        if mask & _READ:
            inward.readable = True
        if mask & _WRITE:
            outward.writable = True
        if self._connection.network.gateway.is_late() and not mask & _ERROR:
            self._await_turn()
        if not self._has_turn or mask & _ERROR:
            self._go_on()
        # Where nobody reads or writes any more, only this says that the connection was reset.
        if mask & _ERROR and not self._is_over:
            sock = self._client if is_client else self._remote
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._connection.abort()

    def release(self) -> None:
        """Nothing moves afterwards."""
        self._is_over = True
        if self._half is not None:
            self._half.cancel()
        self.up.release()
        self.down.release()

    def grant(self, wanted: int, flow: Flow) -> int:
        """How much a flow may read now."""
        meter = self._connection.network.meter
        granted = meter.grant(wanted, flow)
        if granted <= 0 and not self._is_queued:
            self._is_queued = True
            meter.pause(self._connection, self._next_turn)
        return granted

    def count(self, passed: int, is_sent: bool) -> None:
        """Bytes were read. Raises TooManyBytes."""
        tally = self._connection.network.tally
        if is_sent:
            self._count.sent += passed
            tally.sent += passed
        else:
            self._count.received += passed
            tally.received += passed
        self._connection.network.meter.count(passed)

    def _make_flows(self, head: TlsHead | HttpHead | None) -> tuple[Flow, Flow]:
        client, remote, pipes = self._client, self._remote, self._connection.network.gateway.pipes
        if head is None or isinstance(head, TlsHead):
            up = Flow(client, remote, self, pipes, is_sent=True)
            return up, Flow(remote, client, self, pipes, is_sent=False)
        from corral.network.wire.http_flows import RequestFlow, ResponseFlow

        requests = RequestFlow(client, remote, self, pipes, is_sent=True)
        requests.watch_by(head.watch)
        responses = ResponseFlow(remote, client, self, pipes, is_sent=False)
        responses.answer_to(requests)
        return requests, responses

    def _go_on(self) -> None:
        if self._is_over:
            return
        connection = self._connection
        try:
            has_more = self.down.pump()
            has_more = self.up.pump() or has_more  # ORDER: an answer may release what the client has sent
        except TooManyBytes:
            connection.network.exceed()
        except Refused as refused:
            connection.end(refused.reason, refused.detail)
        except OSError:
            connection.abort()
        else:
            if self.up.is_done and self.down.is_done:
                connection.finish()
                return
            if (self.up.is_done or self.down.is_done) and self._half is None:
                self._await_other(-1)
            if has_more and not self._is_queued:
                self._await_turn()

    def _await_other(self, before: int) -> None:
        """One side has ended. The other may still speak, but not be silent for ever."""
        total = self.up.total + self.down.total
        if total == before:
            self._connection.forsake(_SILENCE)
            return
        seconds = _SECONDS_FOR_ANSWER if self.up.is_done else _SECONDS_FOR_CLIENT
        self._half = self._connection.network.gateway.later(
            seconds, self._connection, lambda: self._await_other(total)
        )

    def _await_turn(self) -> None:
        if not self._has_turn:
            self._has_turn = True
            self._connection.network.gateway.soon(self._connection, self._take_turn, self._connection.network)

    def _take_turn(self) -> None:
        self._has_turn = False
        self._go_on()

    def _next_turn(self) -> None:
        self._is_queued = False
        self._go_on()
