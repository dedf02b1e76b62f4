"""limit.wall: the run ends when its time is over."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.result import Outcome
from support.confinement import attempt, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_WALL)

_LIMIT = ["time:limit:1s"]


def test_a_command_that_waits_is_ended_when_its_time_is_over(backend: Case, stage: Stage) -> None:
    late = stage.work / "late"

    done = attempt(
        backend,
        stage,
        shell("sleep 2; touch late"),
        control=shell("sleep 0; touch late"),
        effect=lambda _: late.exists(),
        reset=late.unlink,
        capabilities=_LIMIT,
    )

    assert not done.worked
    assert done.result.outcome is Outcome.TIMED_OUT
    assert done.result.exit_status == 124


def test_a_command_that_ignores_the_polite_signal_is_ended_too(backend: Case, stage: Stage) -> None:
    """The grace is two seconds; it does not get to its end."""
    late = stage.work / "late"

    done = attempt(
        backend,
        stage,
        shell("trap '' TERM; sleep 4; touch late"),
        control=shell("trap '' TERM; touch late"),
        effect=lambda _: late.exists(),
        reset=late.unlink,
        capabilities=["time:limit:300ms"],
    )

    assert not done.worked
