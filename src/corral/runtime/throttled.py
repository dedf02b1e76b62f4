"""ObserverThrottle: a command that goes on asking for what is refused waits longer for its answers."""

from __future__ import annotations

import select
import time

from corral.model.throttle import throttle_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.network.sandbox_network import Observer


class ObserverThrottle:
    """Of one run, in its own loop: after a refusal nothing is heard for a while."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._refusals = 0
        self._until = float("inf")
        self._paused: tuple[select.poll, tuple[int, ...]] | None = None

    def note(self, refusals: int, poller: select.poll) -> None:
        """So many things were refused just now."""
        self._refusals += refusals
        pause = throttle_seconds(self._refusals) if refusals else 0.0
        if pause and self._paused is None:
            waiting = tuple(self._observer.descriptors)
            for descriptor in waiting:
                poller.unregister(descriptor)
            self._paused, self._until = (poller, waiting), time.monotonic() + pause

    def act(self) -> None:
        """Listen again, when it is time to."""
        if self._paused is not None and time.monotonic() >= self._until:
            (poller, waiting), self._paused, self._until = self._paused, None, float("inf")
            for descriptor in waiting:
                poller.register(descriptor, select.POLLIN)

    @property
    def patience_ms(self) -> float:
        """Until then."""
        return (self._until - time.monotonic()) * 1000
