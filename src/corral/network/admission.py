"""Admission: whether a sandbox may have one more connection, and what becomes of those it may not."""

from __future__ import annotations

from corral.model.network.traffic import NetAction, NetEvent, NetReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.network.gateway import Timer
    from corral.network.sandbox_network import GatewayNetwork

#: A sandbox that holds a multiple of what is left for all waits: no sandbox takes everything.
_SHARE_OF_ROOM = 3
_LEAST_ROOM = 8
_AFTER_REST_SECONDS = 0.25
#: Whoever comes meanwhile waits in the kernel's queue. After so long without any room he is told.
_PATIENCE_SECONDS = 5.0


class Admission:
    """Of one sandbox. In the loop."""

    def __init__(self, network: GatewayNetwork) -> None:
        self._network = network
        self._rest: Timer | None = None
        self._patience: Timer | None = None
        self._is_full = False  # for so long that nobody waits any more
        self.is_spent = False  # all bytes that may pass have passed: there is no room ever again

    def is_left(self) -> bool:
        """Whether one more connection may be had."""
        gateway, mine = self._network.gateway, self._network.open_connections
        left = gateway.most_connections - gateway.connections
        if self.is_spent or mine >= self._network.options.most_connections or left <= 0:
            return False
        return mine < max(_LEAST_ROOM, _SHARE_OF_ROOM * left)

    def was_found(self) -> None:
        """Somebody has come in."""
        self._is_full = False
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def rest(self, seconds: float = 0.0) -> None:
        """Accept nothing for a moment."""
        if self._rest is not None or self.is_spent:
            return
        for listener in self._network.listeners:
            listener.pause(is_paused=True)
        later = self._network.gateway.later
        self._rest = later(seconds or _AFTER_REST_SECONDS, self._network, self._go_on)
        if self._patience is None:
            self._patience = later(_PATIENCE_SECONDS, self._network, self._lose_patience)

    def slow_down(self, seconds: float) -> None:
        """Something was refused, and the policy wants the next one to wait."""
        if seconds and self._rest is None and not self.is_spent:
            for listener in self._network.listeners:
                listener.pause(is_paused=True)
            self._rest = self._network.gateway.later(seconds, self._network, self._go_on)

    def tell_shortage(self, port: int) -> None:
        """Somebody waits, and cannot even be refused."""
        detail = "this process can open no more files"
        event = NetEvent(NetAction.CONNECT, False, NetReason.TOO_MANY, "unknown", port, detail=detail)
        self._network.tally.record(event)

    def close(self) -> None:
        self.is_spent = True
        for timer in (self._rest, self._patience):
            if timer is not None:
                timer.cancel()

    def _go_on(self) -> None:
        self._rest = None
        if self.is_left():
            for listener in self._network.listeners:
                listener.pause(is_paused=False)
        elif not self.is_spent:
            self._rest = self._network.gateway.later(_AFTER_REST_SECONDS, self._network, self._go_on)
            if self._is_full:
                self._turn_all_away()

    def _lose_patience(self) -> None:
        self._is_full, self._patience = True, None
        self._turn_all_away()

    def _turn_all_away(self) -> None:
        for listener in self._network.listeners:
            listener.turn_away()
