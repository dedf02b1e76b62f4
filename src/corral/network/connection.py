"""Connection: one of a sandbox, from the moment it was accepted until both of its sides are closed.

ORDER: decide; find the addresses and check them; dial. Meanwhile the client's first bytes are read and looked
at. Only when both have gone well is the first byte passed on, in either direction.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from enum import Enum

from corral.model.network.endpoint import is_address
from corral.model.network.traffic import NetAction, NetEvent, NetReason
from corral.network.dial import Dial
from corral.network.exchange import Exchange
from corral.network.fronts.refusal_reply import RefusalReply
from corral.network.poller import EPOLLERR, EPOLLHUP
from corral.network.wire.first_bytes import Refused, TlsHead, is_for_tls, known_as, needs_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.network.connection import NetVerdict
    from corral.network.gateway import Timer
    from corral.network.lookups import LookupOutcome
    from corral.network.names import NameEntry
    from corral.network.sandbox_network import GatewayNetwork
    from corral.network.wire.http_flows import HttpHead

    Reply = Callable[[NetReason | None], bytes]

_HEAD_SECONDS = 10.0
_CHUNK = 8 << 10  # of what is looked at: it can be slow to read
_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: close by a reset


class _State(Enum):
    DECIDING = 0  # somebody is asked, or a name is looked up
    OPENING = 1  # dialled, and the client's first bytes are awaited
    RELAYING = 2
    ENDED = 3


class Connection:
    """Whoever accepted the client has given it away; it is closed here, whatever happens."""

    __slots__ = (
        *("_client", "_dial", "_dialled", "_exchange", "_first", "_has_head", "_head", "_remote", "_reply"),
        *("_state", "_timer", "_verdict", "network", "host", "port"),
    )

    def __init__(
        self,
        network: GatewayNetwork,
        client: socket.socket,
        host: str,
        port: int,
        *,
        head: bytes = b"",
        reply: Reply | None = None,
    ) -> None:
        self.network, self.host, self.port = network, host, port
        self._client = client
        self._remote: socket.socket | None = None
        self._first, self._reply = head, reply
        self._state = _State.DECIDING
        self._verdict: NetVerdict | None = None
        self._head: TlsHead | HttpHead | None = None
        self._has_head = False
        self._dial: Dial | None = None
        self._dialled = ""
        self._timer: Timer | None = None
        self._exchange: Exchange | None = None

    # Deciding.

    def start(self, entry: NameEntry | None = None) -> None:
        """`entry`: of the name whose synthetic address was connected to."""
        self.network.gateway.watch(self._client.fileno(), self)
        self._decide(entry)

    def _decide(self, entry: NameEntry | None) -> None:
        if entry is None and is_address(self.host) and self.network.names.covers(self.host):
            # INVARIANT: an address of our own that is nobody's any more is never asked about, nor dialled.
            self.refuse(NetReason.ADDRESS, "such addresses stand for names, and this one does not")
            return
        verdict = self.network.grants.decide(self.host, self.port)
        if verdict.allowed:
            self._permit(verdict, entry)
        elif verdict.reason is NetReason.DENIED or self.network.questions is None:
            self.refuse(verdict.reason, rule=verdict.rule)
        else:
            gateway = self.network.gateway
            self.network.ask(
                self.host,
                self.port,
                lambda reason: gateway.do(self, lambda: self._answered(reason, entry)),
            )

    def _answered(self, reason: NetReason, entry: NameEntry | None) -> None:
        if self._state is not _State.DECIDING:
            return
        verdict = self.network.grants.decide(self.host, self.port)
        if reason is NetReason.ASKED and verdict.allowed:
            self._permit(verdict, entry)
        else:
            self.refuse(verdict.reason if reason is NetReason.ASKED else reason, rule=verdict.rule)

    def _permit(self, verdict: NetVerdict, entry: NameEntry | None) -> None:
        self._verdict = verdict
        if is_address(self.host):
            self._open(((self.host, self.port),))
            return
        addresses = entry.addresses(self.port) if entry is not None else None
        if addresses is not None:
            self._open(addresses)
            return
        gateway = self.network.gateway
        self.network.lookups.find(self.host, lambda outcome: gateway.do(self, lambda: self._found(outcome)))

    def _found(self, outcome: LookupOutcome) -> None:
        if self._state is not _State.DECIDING:
            return
        if outcome.reason is not NetReason.GRANTED:
            self.refuse(outcome.reason, outcome.detail, address=outcome.address)
            return
        self._open(self.network.names.give(self.host).addresses(self.port) or ())

    # Opening.

    def _open(self, addresses: tuple[tuple[str, int], ...]) -> None:
        """Wherever the addresses came from; `Dial` asks once more right before it dials one."""
        checked = [one for one in addresses if self._may_dial(one[0])]
        if not checked:
            refused = addresses[0][0] if addresses else ""
            reason = NetReason.NOT_PUBLIC if refused else NetReason.UNRESOLVED
            self.refuse(reason, f"it leads to {refused}" if refused else "", address=refused)
            return
        assert self._verdict is not None
        self._state = _State.OPENING
        self._has_head = not needs_look(self._verdict, checks_names=self.network.options.checks_names)
        if not self._has_head and self._reply is None:
            self._await_head()
        self._dial = Dial(self.network.gateway, checked, self._may_dial, self._reached, self)
        self._dial.start()
        if self._state is _State.OPENING and self._reply is None:
            self._read_head()

    def _may_dial(self, address: str) -> bool:
        return self.network.grants.may_dial(self.host, self.port, address)

    def _await_head(self) -> None:
        self._timer = self.network.gateway.later(_HEAD_SECONDS, self, self._head_too_late)

    def _head_too_late(self) -> None:
        self._timer = None
        self.refuse(NetReason.TOO_LATE)

    def _reached(self, remote: socket.socket | None, detail: str) -> None:
        self._dial = None
        if self._state is not _State.OPENING:
            if remote is not None:
                self.network.gateway.close(remote)
            return
        if remote is None:
            self.refuse(NetReason.UNREACHABLE, detail)
            return
        self._remote, self._dialled = remote, detail
        self.network.gateway.rewatch(remote.fileno(), self)
        if self._reply is not None:
            try:
                self._client.send(self._reply(None))  # a few bytes into an empty buffer
            except OSError:
                self.abort()
                return
            if not self._has_head:
                self._await_head()
        self._read_head()

    def _read_head(self) -> None:
        """Read until the beginning is known to be good, then relay if there is somebody to relay to."""
        try:
            while not self._has_head:
                if self._first and self._look():
                    break
                data = self._client.recv(_CHUNK)
                if not data:
                    self.refuse(NetReason.MALFORMED, "the connection ended before it had begun")
                    return
                self._first += data
        except BlockingIOError:
            return
        except Refused as refused:
            self.refuse(refused.reason, refused.detail)
            return
        except OSError:
            self.abort()
            return
        if self._has_head and self._remote is not None:
            self._relay()

    def _look(self) -> bool:
        """Whether the beginning is good; False if more has to be read. Raises Refused."""
        assert self._verdict is not None
        if self._head is None:
            if is_for_tls(self._verdict, self._first[0]):
                self._head = TlsHead(known_as(self.host), checks_names=self.network.options.checks_names)
            elif not self.network.options.checks_names:
                self._has_head = True
                return True
            else:
                from corral.network.wire.http_flows import HttpHead

                self._head = HttpHead(known_as(self.host), self.port)
        self._has_head = self._head.accepts(self._first)
        if not isinstance(self._head, TlsHead):
            self._first = b""  # it keeps what it has seen
        return self._has_head

    # Relaying.

    def _relay(self) -> None:
        assert self._remote is not None and self._verdict is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        first, came = self._first, len(self._first)
        if self._head is not None and not isinstance(self._head, TlsHead):
            first, came = self._head.passing, self._head.came
        self._first = b""
        self._exchange = Exchange(self, self._client, self._remote, self._head)
        self._state = _State.RELAYING
        self._tell(NetAction.CONNECT, self._verdict.reason, is_allowed=True, rule=self._verdict.rule)
        self._exchange.start(first, came)

    def ready(self, descriptor: int, mask: int) -> None:
        """The kernel has news about one of the two sockets."""
        if self._exchange is not None:
            self._exchange.ready(descriptor, mask)
        elif mask & (EPOLLHUP | EPOLLERR):
            self.abort()
        elif self._state is _State.OPENING and (self._reply is None or self._remote is not None):
            self._read_head()

    def owes(self) -> bool:
        """Whether the client may have said something that is not passed on yet."""
        if self._state is _State.RELAYING:
            assert self._exchange is not None
            return not self._exchange.up.is_done
        return self._state is not _State.ENDED

    # The end.

    def rests_on_grants(self) -> bool:
        """Whether what is permitted just now still permits this connection, as it is."""
        if self._verdict is None:
            return True  # not decided yet
        verdict = self.network.grants.decide(self.host, self.port)
        return verdict.allowed and ("tcp" in verdict.schemes or self._verdict.schemes <= verdict.schemes)

    def refuse(self, reason: NetReason, detail: str = "", *, address: str = "", rule: str = "") -> None:
        """It never was one. The client sees a reset, or what its proxy says."""
        if self._state is _State.ENDED:
            return
        self._tell(NetAction.CONNECT, reason, is_allowed=False, detail=detail, address=address, rule=rule)
        if self._reply is None or self._remote is not None:
            self._close(None, by_reset=True)
            return
        self.network.gateway.unwatch(self._client.fileno())
        self._close(None, keeps_client=True)
        self.network.begin(RefusalReply(self.network, self._client, self._reply(reason)))

    def end(self, reason: NetReason, detail: str = "") -> None:
        """It may not go on."""
        if self._state is _State.RELAYING:
            self._close(NetAction.CLOSE, reason, detail, by_reset=True)
        else:
            self.refuse(reason, detail)

    def finish(self) -> None:
        """Both sides have said everything."""
        self._close(NetAction.CLOSE)

    def forsake(self, detail: str) -> None:
        """Nobody has said that it is over, and nobody goes on."""
        self._close(NetAction.CLOSE, detail=detail, by_reset=True)

    def abort(self) -> None:
        """One side has gone; so does the other."""
        was_relaying = self._state is _State.RELAYING
        self._close(NetAction.CLOSE if was_relaying else None, detail="reset", by_reset=True)

    def fail(self, problem: Exception) -> None:
        """What nobody foresaw ends this connection, and no other."""
        self._close(None, by_reset=True)

    def _close(
        self,
        action: NetAction | None,
        reason: NetReason | None = None,
        detail: str = "",
        *,
        by_reset: bool = False,
        keeps_client: bool = False,
    ) -> None:
        if self._state is _State.ENDED:
            return
        self._state = _State.ENDED
        if self._timer is not None:
            self._timer.cancel()
        if self._dial is not None:
            self._dial.cancel()
        if self._exchange is not None:
            self._exchange.release()
        for sock in (self._remote,) if keeps_client else (self._client, self._remote):
            if sock is None:
                continue
            if by_reset:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self.network.gateway.close(sock)
        if action is not None and self._verdict is not None:
            self._tell(action, reason or self._verdict.reason, is_allowed=reason is None, detail=detail)
        self.network.forget(self)

    def _tell(
        self,
        action: NetAction,
        reason: NetReason,
        *,
        is_allowed: bool,
        detail: str = "",
        address: str = "",
        rule: str = "",
    ) -> None:
        self.network.tally.record(
            NetEvent(
                action,
                is_allowed,
                reason,
                self.host,
                self.port,
                address or self._dialled,
                rule,
                self._exchange.up.total if self._exchange is not None else 0,
                self._exchange.down.total if self._exchange is not None else 0,
                detail,
            )
        )
