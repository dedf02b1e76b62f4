"""Meter: how many bytes a sandbox's network may still pass, in all and just now."""

from __future__ import annotations

from corral.model.rules.quantities import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.network.gateway import Gateway, Owner, Timer
    from corral.network.relay import Flow

#: How often what waits for its turn goes on.
_PAUSE_SECONDS = 0.05
#: What may pass at once after a silence, in seconds' worth.
_BURST_SECONDS = 0.25
_LEAST_BURST = 4096


class TooManyBytes(Exception):
    """More bytes than the network may pass at all."""


class Meter:
    """A ceiling on all bytes, and a token bucket; both for both directions together."""

    def __init__(self, gateway: Gateway, most_bytes: int | None, most_rate: int | None) -> None:
        self._gateway = gateway
        self._most_bytes, self._most_rate = most_bytes, most_rate
        self.total = 0
        self._burst = max(_LEAST_BURST, (most_rate or 0) * _BURST_SECONDS)
        self._tokens, self._filled_at = self._burst, gateway.now
        self._paused: list[tuple[Owner, Callable[[], None]]] = []
        self._round = 1
        self._sharing = 1  # connections that waited together have equal parts
        self._timer: Timer | None = None

    @property
    def limit(self) -> str:
        """The ceiling on all bytes, as a policy says it."""
        return f"traffic:limit:{format_size(self._most_bytes or 0)}"

    def grant(self, wanted: int, flow: Flow) -> int:
        """So many bytes may be read now. One more than the ceiling: only then is it known to be too low."""
        if self._most_bytes is not None:
            wanted = min(wanted, max(1, self._most_bytes - self.total + 1))
        if self._most_rate is not None:
            if flow.round == self._round:
                return 0  # it has had its part
            flow.round = self._round
            self._fill(self._most_rate)
            wanted = min(wanted, int(self._tokens / self._sharing))
        return wanted

    def count(self, passed: int) -> None:
        """Raises TooManyBytes; then not even the last bytes are passed on."""
        self.total += passed
        self._tokens -= passed
        if self._most_bytes is not None and self.total > self._most_bytes:
            raise TooManyBytes

    def pause(self, owner: Owner, go_on: Callable[[], None]) -> None:
        """Call when there may be something to grant again."""
        self._paused.append((owner, go_on))
        if self._timer is None:
            self._timer = self._gateway.later(_PAUSE_SECONDS, self, self._resume)

    def close(self) -> None:
        self._paused.clear()
        if self._timer is not None:
            self._timer.cancel()

    def fail(self, problem: Exception) -> None:
        self._timer = None

    def _fill(self, rate: int) -> None:
        now = self._gateway.now
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * rate)
        self._filled_at = now

    def _resume(self) -> None:
        self._timer = None
        waiting, self._paused = self._paused, []
        self._sharing = max(1, len(waiting))
        self._round += 1
        for owner, go_on in waiting:
            self._gateway.soon(owner, go_on, self)
