"""Mutants fit the sources: each edit has its place, each test its name, and whatever is new has a mutant."""

from __future__ import annotations

import re
import sys

import pytest
from sources import ROOT

sys.path.insert(0, str(ROOT / "tests/mutants"))

import catalogue
import mutant as mutants

_TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
ALL = catalogue.all_mutants()  # raises for a phase, a record or an entry without a mutant


def test_every_edit_has_exactly_one_place() -> None:
    for one in ALL:
        changed = mutants.mutate(one)

        assert all((ROOT / file).read_text() != text for file, text in changed.items()), one.name


def test_every_test_that_is_named_is_there() -> None:
    named = {test for one in ALL for test in one.tests}
    missing = set()
    for test in named:
        file, _, function = test.partition("::")
        path = ROOT / file
        found = set(_TEST.findall(path.read_text())) if path.exists() else set()
        if not found or (function and function.partition("[")[0] not in found):
            missing.add(test)

    assert missing == set()


@pytest.mark.parametrize("answer", [mutants.Answer.REFUSED, mutants.Answer.SURVIVES])
def test_whoever_is_not_caught_has_a_reason(answer: mutants.Answer) -> None:
    assert {one.name for one in ALL if one.answer is answer and not one.why} == set()


def test_whoever_is_to_be_caught_has_a_test() -> None:
    assert {one.name for one in ALL if one.answer is mutants.Answer.CAUGHT and not one.tests} == set()
