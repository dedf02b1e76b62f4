"""The lookout of a kept sandbox: what it tells, to whom, and what it raises."""

from __future__ import annotations

import os

import pytest

from corral.model.errors import SetupError
from corral.model.plan import Watch
from corral.runtime.guard import Guard
from corral.runtime.lookout import Lookout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def lookout(place: Path, tmp_path: Path, make_plan) -> Iterator[Lookout]:
    status = place.stat()
    watch = Watch(str(place), str(place), status.st_dev, status.st_ino, ".envrc", ".envrc")
    made = Lookout(make_plan(watches=(watch,)), str(tmp_path / "quarantine"))
    yield made
    made.close()


def test_where_nothing_is_protected_there_is_nothing_to_tell(make_plan) -> None:
    lookout = Lookout(make_plan(), "")

    assert lookout.begin() == 0
    assert lookout.end(0) == ()
    lookout.close()


def test_what_could_not_be_put_right_is_raised(lookout: Lookout, monkeypatch) -> None:
    mark = lookout.begin()
    monkeypatch.setattr(Guard, "sweep", lambda _, is_at_work: ("/w/.envrc",))

    with pytest.raises(SetupError) as raised:
        lookout.end(mark)
    assert (raised.value.code, raised.value.ran) == ("guard", True)


def test_what_a_leftover_has_done_is_told_with_the_next_command(lookout: Lookout, place: Path) -> None:
    mark = lookout.begin()
    lookout.stay()
    assert lookout.end(mark) == ()
    (place / ".envrc").touch()
    assert len(lookout.end(lookout.mark(), is_leftover=True)) == 1

    told = lookout.end(lookout.begin())
    again = lookout.end(lookout.begin())

    assert [violation.subject for violation in told] == [str(place / ".envrc")]
    assert again == ()


def test_one_guard_serves_all_commands(lookout: Lookout) -> None:
    lookout.end(lookout.begin())
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        lookout.end(lookout.begin())

    assert os.listdir("/proc/self/fd") == before


def test_what_a_running_command_has_planted_does_not_keep_another_from_starting(
    lookout: Lookout, place: Path
) -> None:
    """It is the guard's affair; only what was made while nothing ran is the host's own."""
    first = lookout.begin()
    (place / ".envrc").touch()
    second = lookout.begin()

    told = [len(lookout.end(mark)) for mark in (second, first)]

    assert told == [1, 1], "nobody knows which of the two it was"


def test_no_command_starts_where_a_successor_is_made(lookout: Lookout) -> None:
    background = lookout.begin(is_attended=False)
    attended = lookout.begin()
    assert not lookout.retire()
    lookout.end(attended)

    assert lookout.retire()
    with pytest.raises(SetupError) as stale:
        lookout.begin()

    assert stale.value.code == "session-stale"
    assert not lookout.is_idle
    lookout.end(background, is_attended=False)
    assert lookout.is_idle
