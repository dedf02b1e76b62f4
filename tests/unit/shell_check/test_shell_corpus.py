"""The corpus: commands of real projects are let through, hostile ones never, however they are spelled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corral.shell_check.check import check
from corral.shell_check.verdict import CheckVerdict

CORPUS = Path(__file__).parent / "corpus"


def read(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (CORPUS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_false_alarms_are_at_most_two_in_a_hundred() -> None:
    rows = read("benign")
    alarms = [row["command"] for row in rows if check(row["command"]).verdict is not CheckVerdict.ALLOW]

    assert len(rows) >= 300
    assert len(alarms) <= len(rows) * 0.02, alarms


def test_every_hostile_command_has_its_verdict_and_none_is_let_through() -> None:
    rows = read("hostile")
    wrong = [
        (row["command"], row["expect"], found)
        for row in rows
        if (found := check(row["command"]).verdict.value) != row["expect"]
    ]

    assert len(rows) >= 300
    assert all(row["expect"] != "allow" for row in rows)
    assert wrong == []


@pytest.mark.parametrize(
    "wrapper", ["sh -c {}", "bash -lc {}", "eval {}", "sudo sh -c {}", "timeout 5 bash -c {}"]
)
def test_a_wrapper_hides_nothing(wrapper: str) -> None:
    """A tenth of the hostile commands, each as the text of another shell."""
    import shlex

    for row in read("hostile")[::10]:
        text = wrapper.format(shlex.quote(row["command"]))

        assert check(text).verdict is not CheckVerdict.ALLOW, text
