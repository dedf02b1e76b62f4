"""Laws of sizes, shares and durations: what is written down is what is read back."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corral.model.rules.quantities import (
    format_duration,
    format_share,
    format_size,
    parse_count,
    parse_duration,
    parse_share,
    parse_size,
)

#: A millisecond is the finest that the launcher knows, a year longer than anyone waits.
milliseconds = st.integers(1, 365 * 86_400_000)
digits_and_units = st.text("0123456789._kmgtbiKMGTB%hsd ", max_size=12)


@given(st.integers(1, 2**63 - 1))
@example(2**53 + 1)
@example(2**63 - 1)
@example(1000)
@example(1024)
def test_a_size_that_is_written_is_the_size_that_is_read(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(0, 2**49))
@example(143_000_000)
@example(2**20 - 1)
def test_a_rounded_size_is_short_and_nearly_right(size: int) -> None:
    number, unit = format_size(size, rounded=True).split(" ")

    assert 0 <= float(number) < 1024 and len(number) <= 6
    assert abs(parse_size(f"1{unit}") * float(number) - size) <= 0.05 * parse_size(f"1{unit}") + 1


@given(milliseconds)
@example(59_999)
@example(3_600_000)
def test_a_duration_in_milliseconds_is_read_as_it_was_written(count: int) -> None:
    seconds = count / 1000

    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-9)


@given(st.integers(10, 10_000_000))
def test_a_share_in_hundredths_of_a_percent_is_read_as_it_was_written(hundredths: int) -> None:
    share = hundredths / 10_000

    assert parse_share(format_share(share)) == pytest.approx(share, rel=1e-12)


@given(digits_and_units)
@example("0.4ms")
@example("59.9999")
@example("1.0005s")
def test_writing_a_duration_twice_changes_nothing_more(text: str) -> None:
    """Whatever can be read can be written, and that can be read again."""
    try:
        written = format_duration(parse_duration(text))
    except ValueError:
        return

    assert format_duration(parse_duration(written)) == written


@given(digits_and_units)
@example("0.0000001")
@example("12345.678")
@example("33.33333333%")
def test_writing_a_share_twice_changes_nothing_more(text: str) -> None:
    try:
        written = format_share(parse_share(text))
    except ValueError:
        return

    assert format_share(parse_share(written)) == written


@given(digits_and_units)
def test_writing_a_size_twice_changes_nothing_more(text: str) -> None:
    try:
        written = format_size(parse_size(text))
    except ValueError:
        return

    assert format_size(parse_size(written)) == written


@given(st.one_of(st.text(), digits_and_units))
def test_whatever_is_read_is_more_than_nothing_or_refused_with_a_sentence(text: str) -> None:
    for parse in (parse_size, parse_duration, parse_share, parse_count):
        try:
            value = parse(text)
        except ValueError as problem:
            assert str(problem)
        else:
            assert value > 0
