"""What is guessed from the words of a command, and marked as a guess."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.result import Outcome
from corral.model.violation import Evidence
from corral.runtime.violations import collect


@pytest.mark.parametrize(
    "words",
    [
        b"warning: ptrace: Operation not permitted\n",
        b"strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted\n",
    ],
)
def test_a_debugger_that_may_not_trace_is_guessed(make_plan, words) -> None:
    plan = make_plan()
    (violation,) = collect(plan, Outcome.EXITED, (), words)

    assert (violation.subject, violation.hint) == ("ptrace", "process:debug")
    assert collect(plan.replace(ground=plan.ground.replace(debug=True)), Outcome.EXITED, (), words) == ()


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        (b"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?\n", "docker"),
        (b"[3:3:ERROR:zygote.cc:130] No usable sandbox! If this is Debian\n", "the browser's own sandbox"),
    ],
)
def test_programs_that_cannot_work_inside_are_guessed(make_plan, words, subject) -> None:
    (violation,) = collect(make_plan(), Outcome.EXITED, (), words)

    assert (violation.subject, violation.evidence) == (subject, Evidence.INFERRED)


@pytest.mark.parametrize("words", [b"sh: 0: Cannot fork\n", b"bash: fork: Operation not permitted\n"])
def test_a_process_that_could_not_be_started_is_guessed_where_none_is_granted(make_plan, words) -> None:
    plan = make_plan()
    single = plan.replace(ground=plan.ground.replace(spawn=False))
    (violation,) = collect(single, Outcome.EXITED, (), words)

    assert (violation.feature, violation.evidence) == (Feature.PROC_SINGLE, Evidence.INFERRED)
    assert violation.hint == "process:spawn"
    assert collect(plan, Outcome.EXITED, (), words) == ()
