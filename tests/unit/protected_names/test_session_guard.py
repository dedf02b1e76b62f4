"""The guard of a kept sandbox: what it tells, to whom, and what it raises."""

from __future__ import annotations

import pytest

from corral.model.errors import SetupError
from corral.model.plan import WatchedName
from corral.protected_names.guard import Guard
from corral.protected_names.session_guard import SessionGuard
from support.descriptors import count_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def session_guard(place: Path, tmp_path: Path, make_plan) -> Iterator[SessionGuard]:
    status = place.stat()
    watch = WatchedName(str(place), str(place), status.st_dev, status.st_ino, ".envrc", ".envrc")
    made = SessionGuard(make_plan(watches=(watch,)), str(tmp_path / "quarantine"))
    yield made
    made.close()


def test_where_nothing_is_protected_there_is_nothing_to_tell(make_plan) -> None:
    session_guard = SessionGuard(make_plan(), "")

    assert session_guard.begin() == 0
    assert session_guard.end(0) == ()
    session_guard.close()


def test_what_could_not_be_put_right_is_raised(session_guard: SessionGuard, monkeypatch) -> None:
    mark = session_guard.begin()
    monkeypatch.setattr(Guard, "sweep", lambda _, **__: ("/w/.envrc",))

    with pytest.raises(SetupError) as raised:
        session_guard.end(mark)
    assert (raised.value.code, raised.value.ran) == ("guard", True)


def test_what_a_leftover_has_done_is_told_with_the_next_command(
    session_guard: SessionGuard, place: Path
) -> None:
    mark = session_guard.begin()
    session_guard.stay()
    assert session_guard.end(mark) == ()
    (place / ".envrc").touch()
    assert len(session_guard.end(session_guard.mark(), is_leftover=True)) == 1

    told = session_guard.end(session_guard.begin())
    again = session_guard.end(session_guard.begin())

    assert [violation.subject for violation in told] == [str(place / ".envrc")]
    assert again == ()


def test_one_guard_serves_all_commands(session_guard: SessionGuard) -> None:
    session_guard.end(session_guard.begin())
    before = count_descriptors()
    for _ in range(3):
        session_guard.end(session_guard.begin())

    assert count_descriptors() <= before


def test_what_a_running_command_has_planted_does_not_keep_another_from_starting(
    session_guard: SessionGuard, place: Path
) -> None:
    """It is the guard's affair; only what was made while nothing ran is the host's own."""
    first = session_guard.begin()
    (place / ".envrc").touch()
    second = session_guard.begin()

    told = [len(session_guard.end(mark)) for mark in (second, first)]

    assert told == [1, 1], "nobody knows which of the two it was"


def test_no_command_starts_where_a_successor_is_made(session_guard: SessionGuard) -> None:
    background = session_guard.begin(is_attended=False)
    attended = session_guard.begin()
    assert not session_guard.retire()
    session_guard.end(attended)

    assert session_guard.retire()
    with pytest.raises(SetupError) as stale:
        session_guard.begin()

    assert stale.value.code == "session-stale"
    assert not session_guard.is_idle
    session_guard.end(background, is_attended=False)
    assert session_guard.is_idle
