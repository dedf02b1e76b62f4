"""Laws of the differences that golden files are kept as: with their base they say every line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.line_differences import changed, difference

#: Few different lines, so that the same one is found in many places; some look like marks of a difference.
lines = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            "block",
            " a",
            "  a",
            "",
            "@@ block",
            "-a",
            "+b",
            "argv       --bind",
            "argv       /p",
            "argv       7",
        ]
    ),
    max_size=14,
)


@given(lines, lines)
def test_the_lines_can_be_had_back_from_the_base(base: list[str], others: list[str]) -> None:
    assert changed(base, difference(base, others)) == others


@given(lines)
def test_nothing_is_said_of_what_is_the_same(base: list[str]) -> None:
    assert difference(base, base) == []


@given(lines, lines)
def test_every_line_of_one_side_alone_is_shown(base: list[str], others: list[str]) -> None:
    shown = difference(base, others)

    assert {f"+{line}" for line in {*others} - {*base}} <= {*shown}
    assert {f"-{line}" for line in {*base} - {*others}} <= {*shown}


@pytest.mark.parametrize("written", ["-c", " c", "@@ c", "a", ""])
def test_what_does_not_fit_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="fits nothing"):
        changed(["a", "b"], [written])


def test_a_line_is_looked_for_after_the_one_before() -> None:
    with pytest.raises(ValueError, match="fits nothing"):
        changed(["a", "b"], ["-b", "-a"])


def test_a_line_that_is_new_elsewhere_in_the_base_leaves_a_difference_alone() -> None:
    base, others = ["a", "b", "c"], ["a", "b", "new", "c"]

    assert difference(["first", *base], ["first", *others]) == difference(base, others) == [" b", "+new"]


def test_the_line_that_an_indented_one_stands_below_is_shown() -> None:
    base = ["one", "  a", "  b", "two", "  a", "  b"]

    assert difference(base, [*base[:5], "  c"]) == ["@@ two", "-  b", "+  c"]


def test_an_option_is_shown_with_its_value() -> None:
    bind, base = "argv       --bind", ["argv       /1", "argv       --bind", "argv       /3"]
    others = [*base[:2], "argv       /2", bind, base[2]]

    assert difference(base, others) == [" argv       /1", f"+{bind}", "+argv       /2"]


def test_the_path_of_an_option_that_is_another_is_shown() -> None:
    base = ["argv       --bind", "argv       /1", "argv       --bind", "argv       /2"]
    others = [*base[:2], "argv       --ro-bind", base[3]]

    assert difference(base, others) == [
        " argv       /1",
        "-argv       --bind",
        "+argv       --ro-bind",
        " argv       /2",
    ]
