"""Errors: three lines, who must act, and whether the command ran."""

from __future__ import annotations

import pickle

import pytest

from corral.model import errors
from corral.model.errors import (
    BugError,
    CapabilitySyntaxError,
    CommandFailed,
    CorralError,
    PolicyError,
    SetupError,
    UnenforceableError,
)
from corral.model.policy import Policy
from corral.model.result import Enforcement, Outcome, Result, Usage

RESULT = Result(
    Outcome.EXITED,
    3,
    None,
    b"",
    b"one\ntwo\n\n",
    False,
    0.1,
    Usage(),
    (),
    Enforcement("x", {}, frozenset()),
    Policy(),
    "id",
)
ALL = [
    PolicyError("x", "what", why="why", fix="fix"),
    CapabilitySyntaxError("a:b", 3, why="why", fix="fix"),
    UnenforceableError("x", "what", why="why", fix="fix"),
    SetupError("x", "what", why="why", fix="fix"),
    SetupError("x", "what", why="why", fix="fix", ran=True, exit_status=126),
    CommandFailed(RESULT),
    BugError("what", why="why"),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_an_error_is_three_lines(error: CorralError) -> None:
    first, second, third = error.render().splitlines()

    assert first == ("the command ran: " if error.ran else "the command did not run: ") + error.what
    assert second == f"  because: {error.why}"
    assert third == f"  fix: {error.fix}"
    assert str(error) == error.render()


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_an_error_survives_the_way_to_another_process(error: CorralError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)


def test_the_exit_status_says_who_must_act() -> None:
    statuses = {type(error).__name__: type(error).exit_status for error in ALL}

    assert statuses == {
        "PolicyError": 2,
        "CapabilitySyntaxError": 2,
        "UnenforceableError": 3,
        "SetupError": 125,
        "CommandFailed": 1,
        "BugError": 70,
    }
    assert CommandFailed(RESULT).exit_status == 3


def test_only_a_command_that_failed_has_run() -> None:
    assert [type(error).__name__ for error in ALL if error.ran and type(error) is not SetupError] == [
        "CommandFailed"
    ]


def test_the_last_line_of_stderr_is_the_reason() -> None:
    assert CommandFailed(RESULT).why == "two"


def test_there_are_no_more_classes_than_someone_handles_differently() -> None:
    """The last two: a function that raised is to be mended, a call without a result may be made again."""
    classes = [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, CorralError)
    ]

    assert len(classes) <= 12
