"""Events are told once, at once, and counted."""

from __future__ import annotations

import threading

from corral.model.feature import Feature
from corral.model.violation import Evidence, Violation
from corral.runtime.reporter import MOST_EVENTS, Reporter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.event import Event


def refused(host: str = "x.test") -> Violation:
    return Violation(Feature.NET_DOMAINS, host, Evidence.OBSERVED, "no rule")


def test_a_flood_of_equal_events_is_one_with_a_count() -> None:
    heard: list[Event] = []
    reporter = Reporter(heard.append)
    for _ in range(1000):
        reporter.hear(refused())

    assert [event.subject for event in heard] == ["x.test"]
    assert [(event.subject, event.count) for event in reporter.settle(())] == [("x.test", 1000)]


def test_what_was_told_already_is_not_counted_again_at_the_end() -> None:
    heard: list[Event] = []
    reporter = Reporter(heard.append)
    reporter.hear(refused())
    events = reporter.settle((refused(), refused("y.test")))

    assert [(event.subject, event.count) for event in events] == [("x.test", 1), ("y.test", 1)]
    assert [event.subject for event in heard] == ["x.test", "y.test"]
    reporter.hear(refused("late.test"))
    assert len(heard) == 2


def test_a_flood_of_different_events_is_bounded_and_says_so() -> None:
    heard: list[Event] = []
    reporter = Reporter(heard.append)
    for number in range(MOST_EVENTS + 10):
        reporter.hear(refused(f"n{number}.test"))

    assert len(heard) == len(reporter.settle(())) == MOST_EVENTS
    assert reporter.notes() == ("10 more events were too many to be listed",)


def test_a_listener_that_raises_is_told_nothing_more_and_nothing_is_lost() -> None:
    calls = []

    def listen(event: Event) -> None:
        calls.append(event)
        raise ValueError("no room")

    reporter = Reporter(listen)
    reporter.hear(refused())
    reporter.hear(refused("y.test"))

    assert len(calls) == 1 and len(reporter.settle(())) == 2
    assert reporter.notes() == ("on_event has raised ValueError: no room, and was told nothing more",)


def test_it_is_told_by_many_threads_at_once() -> None:
    reporter = Reporter()
    threads = [
        threading.Thread(target=lambda: [reporter.hear(refused()) for _ in range(200)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [event.count for event in reporter.settle(())] == [800]
