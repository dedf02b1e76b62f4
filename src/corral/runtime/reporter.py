"""Reporter: the events of one run; each is told at once, and equal ones are one with a count."""

from __future__ import annotations

from _thread import RLock

from corral.model.event import Event, event_of
from corral.model.violation import Evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.event import Listener
    from corral.model.feature import Feature
    from corral.model.violation import Violation

#: A command may do as many different things as it likes; of these the first are kept and told.
MOST_EVENTS = 256


class Reporter:
    """`hear` may be called by any thread. A listener hears of one event at a time."""

    def __init__(self, listener: Listener | None = None, respond: Listener | None = None) -> None:
        """`respond` is the supervision's own, and told of everything that is heard while the command runs."""
        self._listener = listener
        self._respond = respond
        self._events: dict[Event, int] = {}
        self._observed: set[str] = set()  # subjects
        self._is_settled = False
        self._lock = RLock()  # again by the same thread: a listener may look at what is known
        self._problem = ""  # what the listener has raised; it is told nothing more
        self._dropped = 0  # different ones that were too many

    def hear(self, violation: Violation) -> None:
        """Something was refused, just now."""
        event = event_of(violation)
        self._add(event, is_new=True)
        if self._respond is not None:
            self._respond(event)

    def settle(self, found: Iterable[Violation | Event]) -> tuple[Event, ...]:
        """All that is known in the end, of which some may be told already; nothing is heard afterwards."""
        for one in found:
            self._add(one if isinstance(one, Event) else event_of(one), is_new=False)
        with self._lock:
            self._is_settled = True
            return tuple(event.replace(count=count) for event, count in self._events.items())

    @property
    def is_heard(self) -> bool:
        """Whether somebody is told while the command runs."""
        return self._listener is not None

    def has_any(self, features: frozenset[Feature]) -> bool:
        """Whether something about one of these has been heard."""
        with self._lock:
            return any(event.feature in features for event in self._events)

    def notes(self) -> tuple[str, ...]:
        """What there is to say about the telling itself."""
        notes = []
        if self._dropped:
            notes.append(f"{self._dropped} more events were too many to be listed")
        if self._problem:
            notes.append(f"on_event has raised {self._problem}, and was told nothing more")
        return tuple(notes)

    def _add(self, event: Event, *, is_new: bool) -> None:
        with self._lock:
            if self._is_settled:
                return
            if event in self._events:
                self._events[event] += is_new
                return
            if event.evidence is Evidence.INFERRED and event.subject in self._observed:
                return  # it is known for sure, and told
            if event.evidence is Evidence.OBSERVED:
                self._observed.add(event.subject)
            if len(self._events) >= MOST_EVENTS:
                self._dropped += 1
                return
            self._events[event] = 1
            if self._listener is not None:
                self._tell(self._listener, event)

    def _tell(self, listener: Listener, event: Event) -> None:
        """INVARIANT: whatever a listener raises, the command stays supervised."""
        try:
            listener(event)
        except Exception as problem:
            self._listener, self._problem = None, f"{type(problem).__name__}: {problem}"
