"""Watch: a run in the background, its samples, and its end, whichever way it comes."""

from __future__ import annotations

import threading

import pytest

from corral.model.errors import SetupError
from corral.model.result import UsageSample
from corral.pipeline.live_run import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.runtime.monitor import Monitor


class FakeAttempt:
    """Tells two samples, then waits until it is released or killed."""

    def __init__(self, monitor: Monitor, error: BaseException | None = None) -> None:
        self._tell, self._error = monitor._tell, error
        self.released = threading.Event()
        self.kills = 0

    def run(self) -> str:
        assert self._tell(UsageSample(1.0)) is None  # nothing is shown on anyone's terminal
        self._tell(UsageSample(2.0))
        assert self.released.wait(30)
        if self._error is not None:
            raise self._error
        return "the result"

    def kill(self) -> None:
        self.kills += 1
        self.released.set()


def start(error: BaseException | None = None) -> tuple[Watch, FakeAttempt]:
    made: list[FakeAttempt] = []

    def begin(monitor: Monitor) -> FakeAttempt:
        made.append(FakeAttempt(monitor, error))
        return made[0]

    return Watch(begin, 1.0), made[0]  # type: ignore[arg-type]


def test_samples_come_while_it_runs_and_end_with_it() -> None:
    watch, attempt = start()
    seen = []
    for sample in watch:
        seen.append(sample.wall_seconds)
        if len(seen) == 2:
            attempt.released.set()

    assert seen == [1.0, 2.0]
    assert watch.result() == watch.result() == "the result"
    assert list(watch) == list(watch) == []


def test_what_run_would_raise_the_result_raises() -> None:
    watch, attempt = start(SetupError("mounts", "it failed", why="of the moon", fix="wait"))
    attempt.released.set()

    for _ in range(2):
        with pytest.raises(SetupError, match="it failed"):
            watch.result()
    assert [sample.wall_seconds for sample in watch] == [1.0, 2.0]


def test_to_leave_the_block_ends_what_is_under_way() -> None:
    with start()[0] as watch:
        attempt = watch._attempt
        next(iter(watch))

    assert attempt.kills == 1  # type: ignore[attr-defined]
    assert watch.result() == "the result"


def test_a_run_that_has_ended_is_not_killed() -> None:
    watch, attempt = start()
    with watch:
        attempt.released.set()
        watch.result()

    assert attempt.kills == 0
