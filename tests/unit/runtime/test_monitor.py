"""Monitor and Note: told in time, and shown only where it disturbs nobody. The clock is the test's own."""

from __future__ import annotations

import os

import pytest

from corral.model.result import GroupUsage, UsageSample
from corral.runtime import monitor as monitor_module
from corral.runtime.monitor import LEAST_SECONDS, Monitor
from corral.streams import note as note_module
from corral.streams.note import Note
from support.counted import CountedGroup

CLEAR = b"\r\x1b[K"


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Stands still until it is moved."""
    clock = Clock()
    for module in (monitor_module, note_module):
        monkeypatch.setattr(module, "time", clock)
    return clock


def test_it_tells_when_it_is_time_and_not_before(clock: Clock) -> None:
    told: list[UsageSample] = []
    monitor = Monitor(told.append, 0.5)  # type: ignore[arg-type]
    monitor.begin(CountedGroup(GroupUsage(100, 200, 3, 4, 1.0, 0.5)), 1, clock.now)

    assert monitor.patience_ms == 500
    clock.now += 0.4
    assert (monitor.act(), told) == ("", [])
    assert monitor.patience_ms == pytest.approx(100)
    clock.now += 0.2
    assert monitor.patience_ms == 0
    monitor.act()
    assert told == [UsageSample(pytest.approx(0.6), 1.5, 100, 3)]
    assert monitor.patience_ms == 500
    monitor.act()
    assert len(told) == 1


def test_a_loop_that_was_held_up_does_not_make_up_for_it(clock: Clock) -> None:
    told: list[UsageSample] = []
    monitor = Monitor(told.append, 0.5)  # type: ignore[arg-type]
    monitor.begin(CountedGroup(GroupUsage()), 1, clock.now)
    clock.now += 60

    for _ in range(5):
        monitor.act()

    assert len(told) == 1


def test_what_the_function_returns_is_shown(clock: Clock) -> None:
    monitor = Monitor(lambda sample: f"{sample.wall_seconds:.0f} s", 1.0)
    monitor.begin(CountedGroup(GroupUsage()), 1, clock.now)
    clock.now += 2

    assert monitor.act() == "2 s"


@pytest.mark.parametrize("every", [0.0, -1.0, LEAST_SECONDS / 2])
def test_nobody_is_told_all_the_time(clock: Clock, every: float) -> None:
    monitor = Monitor(lambda _: "told", every)
    monitor.begin(CountedGroup(GroupUsage()), 1, clock.now)

    assert monitor.act() == ""
    clock.now += LEAST_SECONDS
    assert monitor.act() == "told"


def test_a_group_that_does_not_count_something_is_not_guessed_for(clock: Clock) -> None:
    told: list[UsageSample] = []
    monitor = Monitor(told.append, 1.0)  # type: ignore[arg-type]
    monitor.begin(CountedGroup(GroupUsage(memory_bytes=5, user_seconds=1.0)), 1, clock.now)
    clock.now += 1
    monitor.act()

    assert told == [UsageSample(1.0, None, 5, None)]


def test_without_a_group_the_tree_is_looked_at(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    from corral.limits import tree

    looked: list[int] = []

    def look(pid: int) -> GroupUsage:
        looked.append(pid)
        return GroupUsage(7, None, 2, None, 1.0, 0.25)

    monkeypatch.setattr(tree, "look_at_tree", look)
    told: list[UsageSample] = []
    monitor = Monitor(told.append, 1.0)  # type: ignore[arg-type]
    monitor.begin(None, 4242, clock.now)
    clock.now += 1
    monitor.act()

    assert (looked, told) == ([4242], [UsageSample(1.0, 1.25, 7, 2)])


def test_a_process_that_a_look_has_missed_takes_nothing_back(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended after its parent was read and before it was read itself."""
    from corral.limits import tree

    looks = iter([GroupUsage(user_seconds=0.5), GroupUsage(user_seconds=0.1), GroupUsage(user_seconds=0.6)])
    monkeypatch.setattr(tree, "look_at_tree", lambda _: next(looks))
    told: list[UsageSample] = []
    monitor = Monitor(told.append, 1.0)  # type: ignore[arg-type]
    monitor.begin(None, 4242, clock.now)
    for _ in range(3):
        clock.now += 1
        monitor.act()

    assert [sample.cpu_seconds for sample in told] == [0.5, 0.5, 0.6]


# ---- the note


@pytest.fixture
def note(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Note:
    """On a terminal of 20 columns."""
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((20, 5)))
    return Note()


def test_a_note_is_drawn_over_and_cleared(note: Note) -> None:
    assert note.draw("3 s") == CLEAR + b"3 s"
    assert note.draw("4 s") == CLEAR + b"4 s"
    assert note.clear() == CLEAR
    assert note.clear() == b""


def test_it_makes_way_for_what_the_command_prints(note: Note) -> None:
    note.draw("3 s")

    assert note.make_way(b"text\n") == CLEAR
    assert note.make_way(b"more\n") == b""


def test_it_waits_until_the_command_is_quiet(note: Note, clock: Clock) -> None:
    note.make_way(b"text\n")

    clock.now += 0.9
    assert note.draw("3 s") == b""
    clock.now += 0.2
    assert note.draw("3 s") == CLEAR + b"3 s"


def test_it_never_stands_behind_the_beginning_of_a_line(note: Note, clock: Clock) -> None:
    """As behind a prompt, which it would clear."""
    note.make_way(b"Password: ")
    clock.now += 60
    assert note.draw("3 s") == b""

    note.make_way(b"\n")
    clock.now += 60
    assert note.draw("3 s") == CLEAR + b"3 s"


@pytest.mark.parametrize("mark", [b"\x1b[?1049", b"\x1b[?47"])
def test_it_is_never_drawn_over_a_full_screen(note: Note, clock: Clock, mark: bytes) -> None:
    note.make_way(b"before" + mark + b"h\n")
    clock.now += 60
    assert note.draw("3 s") == b""
    note.make_way(b"inside\n")
    clock.now += 60
    assert note.draw("3 s") == b""

    note.make_way(mark + b"l\n")
    clock.now += 60
    assert note.draw("3 s") == CLEAR + b"3 s"


@pytest.mark.parametrize("mark", [b"\x1b[?1049h", b"\x1b[?47h"])
def test_a_full_screen_is_seen_however_it_is_cut(clock: Clock, mark: bytes) -> None:
    for at in range(1, len(mark)):
        note = Note()
        note.make_way(b"text" + mark[:at])
        note.make_way(mark[at:] + b"\n")
        clock.now += 60

        assert note.draw("3 s") == b"", at


def test_the_last_of_several_counts(note: Note, clock: Clock) -> None:
    note.make_way(b"\x1b[?1049h\x1b[?1049l\n")
    clock.now += 60
    assert note.draw("3 s") != b""

    note.make_way(b"\x1b[?1049l\x1b[?1049h\n")
    clock.now += 60
    assert note.draw("3 s") == b""


def test_it_fits_into_a_line(note: Note) -> None:
    assert note.draw("x" * 100) == CLEAR + b"x" * 19


def test_without_a_terminal_a_line_has_eighty_columns(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "get_terminal_size", fail)

    assert Note().draw("x" * 100) == CLEAR + b"x" * 79
