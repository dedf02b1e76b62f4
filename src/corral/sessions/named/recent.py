"""RecentEvents: what was refused and decided in a named session lately, for whoever looks. Bounded."""

from __future__ import annotations

import threading
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.model.event import Event, Listener
    from corral.model.network.traffic import NetEvent

_MOST = 256


class RecentEvents:
    """The last events, each with a number of its own. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[dict[str, Any]] = deque(maxlen=_MOST)
        self._count = 0

    def listener(self, command: str) -> Listener:
        """Who hears the events of one command."""

        def hear(event: Event) -> None:
            fields = {name: getattr(event, name) for name in ("subject", "reason")}
            self._add({
                "event": event.kind.value,
                "feature": event.feature.value,
                "evidence": event.evidence.value,
                **fields,
                "hint": event.remedy(),
                "command": command,
            })  # fmt: skip

        return hear

    def hear_network(self, event: NetEvent) -> None:
        """Something was decided about a connection."""
        self._add({
            "network": event.action.value,
            "allowed": "yes" if event.allowed else "no",
            "host": event.host,
            "port": str(event.port),
            "reason": event.reason.value,
        })  # fmt: skip

    def since(self, number: object) -> dict[str, Any]:
        """Those that came after one that is known, and the number to ask for next time."""
        with self._lock:
            known = number if isinstance(number, int) else 0
            new = min(max(0, self._count - known), len(self._events))
            events = list(self._events)[len(self._events) - new :]
            return {"events": events, "next": self._count}

    def _add(self, fields: dict[str, Any]) -> None:
        with self._lock:
            self._count += 1
            self._events.append({**fields, "at": f"{time.time():.3f}"})
