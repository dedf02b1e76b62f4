"""What is guessed from the words of a command, and marked as a guess."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.result import Outcome
from corral.model.violation import Evidence
from corral.runtime.violations import collect


@pytest.mark.parametrize("words", [b"sh: 0: Cannot fork\n", b"bash: fork: Operation not permitted\n"])
def test_a_process_that_could_not_be_started_is_guessed_where_none_is_granted(make_plan, words) -> None:
    plan = make_plan()
    single = plan.replace(ground=plan.ground.replace(spawn=False))
    (violation,) = collect(single, Outcome.EXITED, (), words)

    assert (violation.feature, violation.evidence) == (Feature.PROC_SINGLE, Evidence.INFERRED)
    assert violation.hint == "process:spawn"
    assert collect(plan, Outcome.EXITED, (), words) == ()
