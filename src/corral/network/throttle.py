"""Throttle: whoever goes on asking for what is refused waits longer for each answer."""

from __future__ import annotations

import time

from corral.model.throttle import throttle_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.network.traffic import NetEvent
    from corral.network.sandbox_network import GatewayNetwork

    Reply = Callable[[bytes | None], None]

#: Lookups that wait; whoever asks for still more gets no answer, as from a busy server.
_MOST_WAITING = 64


class Throttle:
    """Of one sandbox's network, in the gateway's loop."""

    def __init__(self, network: GatewayNetwork, report: Callable[[NetEvent], None]) -> None:
        self._network, self._report = network, report
        self._refusals = self._waiting = 0
        self._until = 0.0

    def report(self, event: NetEvent) -> None:
        """Something was decided."""
        self._report(event)
        if self._network.options.throttles and not event.allowed:
            self._refusals += 1
            pause = throttle_seconds(self._refusals)
            self._until = time.monotonic() + pause
            self._network.room.slow_down(pause)

    def postpone(self, packet: bytes, reply: Reply) -> bool:
        """Whether a lookup has to wait; then it is answered later."""
        pause = self._until - time.monotonic()
        if pause <= 0:
            return False
        if self._waiting < _MOST_WAITING:
            self._waiting += 1
            self._network.gateway.later(pause, self._network, lambda: self._answer(packet, reply))
        return True

    def _answer(self, packet: bytes, reply: Reply) -> None:
        self._waiting -= 1
        self._network.answer(packet, reply)
