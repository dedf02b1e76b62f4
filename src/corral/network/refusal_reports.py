"""RefusalReports: whoever runs a command hears at once what the gateway has refused it."""

from __future__ import annotations

import contextlib
import time
from collections import deque

from corral.network.tally import violation_of
from corral.network.workers import Lane

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from corral.model.network.traffic import NetEvent
    from corral.model.violation import Violation
    from corral.network.gateway import Gateway
    from corral.network.grants import Grants
    from corral.network.names import Names

    Hear = Callable[[Violation], None]

#: Refusals that wait for a slow listener; more are only counted, by the tally.
_MOST_WAITING = 8192
#: With slow listeners, and with a machine that has no time for the worker.
_LISTENER_SECONDS, _WORKER_SECONDS, _PAUSE_SECONDS = 1.0, 30.0, 0.001


class RefusalReports:
    """Filled by the loop, emptied in a worker: no listener keeps the gateway waiting."""

    def __init__(self, grants: Grants, names: Names, gateway: Gateway) -> None:
        self._grants, self._names = grants, names
        self._lane = Lane(gateway.callbacks, 1, 2)
        self._waiting: deque[NetEvent] = deque()
        self._listeners: list[Hear] = []
        self._spent = self._busy_since = 0.0  # with them; and since when, if one is called just now

    @contextlib.contextmanager
    def listening(self, hear: Hear) -> Iterator[None]:
        """Tell somebody, until the `with` block ends."""
        self._listeners.append(hear)
        try:
            yield
        finally:
            self._await_worker()
            self._listeners.remove(hear)

    def _await_worker(self) -> None:
        """What was refused last is told, or counted, before the answer; a slow listener is not waited for."""
        began, spent = time.monotonic(), self._spent
        while self._waiting and (now := time.monotonic()) < began + _WORKER_SECONDS:
            since = self._busy_since
            busy = self._spent - spent + (now - max(since, began) if since else 0.0)
            if busy > _LISTENER_SECONDS:
                return
            time.sleep(_PAUSE_SECONDS)

    def add(self, event: NetEvent) -> None:
        """In the loop: something was decided."""
        if event.allowed or not self._listeners or len(self._waiting) >= _MOST_WAITING:
            return
        self._waiting.append(event)
        if len(self._waiting) == 1:
            self._lane.submit(self._tell)

    def _tell(self) -> None:
        while self._waiting:
            violation = violation_of(self._waiting[0], self._grants, self._names.covers)
            if violation is not None:
                self._busy_since = time.monotonic()
                for hear in tuple(self._listeners):  # none of them raises anything: `Reporter.hear`
                    hear(violation)
                self._spent += time.monotonic() - self._busy_since
                self._busy_since = 0.0
            self._waiting.popleft()
