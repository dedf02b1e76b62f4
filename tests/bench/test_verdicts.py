"""How measurements become verdicts: no goal is left out, and none is met by what was not measured."""

from __future__ import annotations

from pathlib import Path

import pytest

import document
import goals
from crowd import Cost, Crowd, Memory, Parallel
from report import Report, render
from timing import BARE, Row, Timed, take_turns


def _timed(name: str, *samples: float, base: str = BARE) -> Timed:
    return Timed(Row(name, f"`{name}`", lambda: None, base), samples)


def _verdicts(found: dict[str, Timed] | None = None, crowd: Crowd | None = None) -> dict[str, str]:
    return {goal.text: goal.verdict for goal in goals.judge(found or {}, crowd, None)}


def _crowd(**changes: object) -> Crowd:
    memory = Memory(3000, 600_000_000, 100_000_000, 900_000_000, 20_000_000)
    costs = (Cost(1, 1.0, 1.0), Cost(1000, 1.4, 1.1))
    return Crowd(1000, 1000, 1000, 6.0, memory, costs, "")._replace(**changes)


def test_what_was_not_measured_is_neither_met_nor_left_out() -> None:
    everything = goals.judge({}, None, None)

    assert {goal.verdict for goal in everything} == {goals.UNMEASURED}
    assert goals.exit_status(everything) == 2
    assert goals.summary(everything) == f"Goals: 0 met, 0 MISSED, {len(everything)} not measured."


def test_a_ratio_is_judged_against_its_base() -> None:
    bare = _timed(BARE, *[1.0] * 100)
    text = f"{goals.WARM}: median <= 1 x {BARE}"

    assert _verdicts({BARE: bare, goals.WARM: _timed(goals.WARM, *[1.0] * 100)})[text] == goals.MET
    assert _verdicts({BARE: bare, goals.WARM: _timed(goals.WARM, *[1.01] * 100)})[text] == goals.MISSED
    assert _verdicts({goals.WARM: _timed(goals.WARM, 1.0)})[text] == goals.UNMEASURED


def test_one_missed_goal_is_told_by_the_status() -> None:
    found = {
        BARE: _timed(BARE, 1.0),
        goals.POOL: _timed(goals.POOL, 5.0),
        goals.COLD: _timed(goals.COLD, 1.0),
    }

    assert goals.exit_status(goals.judge(found, _crowd(), Parallel(200, (), 2.0))) == 1


def test_slow_commands_are_judged_where_there_are_enough() -> None:
    slow = [1.0] * 98 + [9.0] * 2
    text = f"{goals.WARM}: p99 <= 2 x {BARE}"

    assert _timed("x", *slow).p99 == 9.0
    assert _timed("x", *[1.0] * 99, 9.0).p99 == 1.0
    assert _timed("x", 1.0, 9.0).p99 is None
    assert _verdicts({BARE: _timed(BARE, *slow), goals.WARM: _timed(goals.WARM, *slow)})[text] == goals.MISSED


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({}, []),
        ({"start_seconds": 10.1}, ["1,000 idle sessions: started in <= 10 s"]),
        ({"answering": 999}, ["1,000 idle sessions: all still answering"]),
        ({"kept": 999, "answering": 999, "problem": "no"}, ["1,000 idle sessions: all still answering"]),
        (
            {"memory": Memory(3000, 1_100_000_000, None, 1, 1)},
            ["1,000 idle sessions: <= 1 MB of resident memory each"],
        ),
        (
            {"costs": (Cost(1, 1.0, 1.0), Cost(1000, 1.6, 1.0))},
            ["cost of a command with 1,000 sessions <= 1.5 x that with 1"],
        ),
    ],
)
def test_each_goal_of_many_sessions_can_be_missed(changes: dict[str, object], missed: list[str]) -> None:
    verdicts = _verdicts(crowd=_crowd(**changes))

    assert [text for text, verdict in verdicts.items() if verdict == goals.MISSED] == missed


def test_a_failure_of_a_parallel_command_is_a_miss() -> None:
    assert goals.judge({}, None, Parallel(200, (), 2.0))[-1].verdict == goals.MET
    assert goals.judge({}, None, Parallel(200, ("it failed",), 2.0))[-1].verdict == goals.MISSED


def test_slow_rows_take_part_in_some_rounds_and_settling_is_not_timed() -> None:
    calls: list[str] = []
    rows = [
        Row("often", "", lambda: calls.append("often"), settle=lambda: calls.append("settled")),
        Row("seldom", "", lambda: calls.append("seldom"), every=3, commands=10),
    ]

    found = take_turns(rows, 7)

    assert [len(found[name].samples) for name in ("often", "seldom")] == [7, 3]
    assert [calls.count(word) for word in ("often", "settled", "seldom")] == [
        8,
        8,
        4,
    ]  # the first is not timed


def test_the_report_has_every_row_and_every_reason() -> None:
    found = {BARE: _timed(BARE, 1.0), "other": _timed("other", 2.0)}
    judged = tuple(goals.judge(found, _crowd(), Parallel(200, ("it failed",), 2.0)))
    report = Report(
        ("a machine",), found, _crowd(), Parallel(200, ("it failed",), 2.0), judged, ("no x",), 1.0
    )

    text = "\n".join(render(report))

    assert [goal.text for goal in judged if goal.text not in text] == []
    assert "| other        | `other`" in text and "| 2.00 | bare process |" in text.replace("  ", " ")
    assert "- no x" in text and "- it failed" in text and "1 failures" in text


def test_a_part_of_a_document_is_replaced_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured: x -->\nold\n<!-- end of measured -->\nafter\n", encoding="utf-8")

    document.record(page, "x", ["new"])

    assert page.read_text() == "before\n<!-- measured: x -->\nnew\n<!-- end of measured -->\nafter\n"
    with pytest.raises(ValueError, match="no part 'y'"):
        document.record(page, "y", ["new"])
