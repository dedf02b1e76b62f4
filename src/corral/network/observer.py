"""RefusalObserver: where there is no network, lookups are refused at once, and what was asked for is told.

The sockets are those of a limited network, made by the launcher in the sandbox's own; nothing that arrives
there goes any further, and no gateway is started. What it costs before something is asked is to hold them.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Sequence

    from corral.model.network.traffic import NetEvent
    from corral.model.violation import Violation
    from corral.network.grants import Grants
    from corral.network.tally import Tally

#: So many of one socket, then it is somebody else's turn.
_TURN = 64
_MOST_TURNS_AT_END = 16


class RefusalObserver:
    """Of one run, in whose own loop it lives."""

    def __init__(self, *, throttles: bool = False) -> None:
        """`throttles`: only one is answered at a time, so that the next one can be made to wait."""
        self._turn = 1 if throttles else _TURN
        self._waiting: dict[int, socket.socket | None] = {}
        self._heard: list[NetEvent] = []
        self._tally: Tally | None = None
        self._grants: Grants | None = None

    def attach(self, descriptors: Sequence[int]) -> None:
        """Hold sockets, which belong to it from now on."""
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # no command that is started later gets it
            self._waiting[descriptor] = None

    @property
    def descriptors(self) -> Iterable[int]:
        """What is to be waited for."""
        return self._waiting.keys()

    def react(self, descriptor: int) -> list[Violation]:
        """Something has arrived: answer, and say what it was."""
        import socket

        from corral.network.tally import violation_of

        sock = self._waiting[descriptor]
        if sock is None:
            sock = self._waiting[descriptor] = self._open(descriptor)
        with contextlib.suppress(OSError):  # one packet that goes wrong is followed by others
            if sock.type == socket.SOCK_DGRAM:
                self._answer(sock)
            elif sock.type == socket.SOCK_RAW:
                self._hear_refusals(sock)
            else:
                _turn_away(sock)
        heard = tuple(self._heard)
        self._heard.clear()
        assert self._grants is not None
        return [_of_none(one) for event in heard if (one := violation_of(event, self._grants)) is not None]

    def finish(self) -> tuple[Violation, ...]:
        """All that was refused, when nothing of the command runs any more."""
        for _ in range(_MOST_TURNS_AT_END):
            ready = self._ready()
            if not ready:
                break
            for descriptor in ready:
                self.react(descriptor)
        if self._tally is None or self._grants is None:
            return ()
        return tuple(_of_none(one) for one in self._tally.violations(self._grants))

    def close(self) -> None:
        """Release the sockets; may be called again."""
        while self._waiting:
            descriptor, sock = self._waiting.popitem()
            sock.close() if sock is not None else os.close(descriptor)

    def _ready(self) -> list[int]:
        import select

        poller = select.poll()
        for descriptor in self._waiting:
            poller.register(descriptor, select.POLLIN)
        return [descriptor for descriptor, _ in poller.poll(0)]

    def _open(self, descriptor: int) -> socket.socket:
        import socket

        from corral.model.policy import NetMode, NetPolicy
        from corral.network.fronts.listeners import tell_addresses
        from corral.network.grants import Grants
        from corral.network.tally import Tally

        if self._tally is None:
            self._grants = Grants(NetPolicy(NetMode.LIMITED))
            self._tally = Tally(None, None, self._heard.append)
        sock = socket.socket(fileno=descriptor)
        sock.setblocking(False)
        if sock.type == socket.SOCK_DGRAM:
            tell_addresses(sock)
        return sock

    def _answer(self, sock: socket.socket) -> None:
        from corral.network.fronts.dns_answers import answer_refused
        from corral.network.fronts.listeners import source_of
        from corral.network.wire.dns import MOST_QUERY

        assert self._tally is not None
        for _ in range(self._turn):
            packet, extras, _, sender = sock.recvmsg(MOST_QUERY, 256)
            reply = answer_refused(self._tally, packet)
            if reply is not None:
                sock.sendmsg([reply], source_of(sock.family, extras), 0, sender)

    def _hear_refusals(self, sock: socket.socket) -> None:
        from corral.model.network.connection import is_loopback
        from corral.model.network.traffic import NetAction, NetEvent, NetReason
        from corral.network.fronts.refused_ports import ENOUGH, read_refusal

        assert self._tally is not None
        for _ in range(self._turn):
            address, port = read_refusal(sock.family, *sock.recvfrom(ENOUGH))
            if port and not is_loopback(address):  # the sandbox's own
                self._tally.record(NetEvent(NetAction.CONNECT, False, NetReason.ADDRESS, address, port))


def _turn_away(sock: socket.socket) -> None:
    """Nobody is served here."""
    for _ in range(_TURN):
        client, _ = sock.accept()
        client.close()


def _of_none(violation: Violation) -> Violation:
    from corral.model.feature import Feature

    return violation.replace(feature=Feature.NET_NONE)
