"""limit.output: the run ends when it hits the output limit."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_OUTPUT)

_LIMIT = ["output:limit:100KB"]


def test_no_more_output_is_kept_than_permitted(backend: Case, stage: Stage) -> None:
    done = attempt(
        backend,
        stage,
        shell("head -c 1000000 /dev/zero"),
        effect=lambda output: len(output) > 100_000,
        capabilities=_LIMIT,
    )

    assert not done.worked
    assert done.result.truncated


def test_a_command_that_prints_too_much_is_ended(backend: Case, stage: Stage) -> None:
    late = stage.work / "late"

    done = attempt(
        backend,
        stage,
        shell("head -c 1000000 /dev/zero; sleep 2; touch late"),
        control=shell("head -c 1000000 /dev/zero; touch late"),
        effect=lambda _: late.exists(),
        reset=late.unlink,
        capabilities=_LIMIT,
    )

    assert not done.worked


def test_both_streams_count_together(backend: Case, stage: Stage) -> None:
    late = stage.work / "late"

    done = attempt(
        backend,
        stage,
        shell("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2; sleep 2; touch late"),
        control=shell("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2; touch late"),
        effect=lambda _: late.exists(),
        reset=late.unlink,
        capabilities=_LIMIT,
    )

    assert not done.worked
