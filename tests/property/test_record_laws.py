"""Laws of Record: in all that a caller can see, it is a frozen dataclass."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.record import Record


class Point(Record):
    x: int
    y: int = 7
    label: str = ""


@dataclasses.dataclass(frozen=True)
class Reference:
    x: int
    y: int = 7
    label: str = ""


values = st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.text(max_size=2))
changes = st.fixed_dictionaries(
    {}, optional={"x": st.integers(-3, 3), "y": st.integers(-3, 3), "label": st.text(max_size=2)}
)
arguments = st.tuples(
    st.lists(st.integers(), max_size=4),
    st.dictionaries(st.sampled_from(["x", "y", "label", "z"]), st.integers()),
)


@given(values, values)
def test_records_are_equal_when_their_fields_are(left, right) -> None:
    assert (Point(*left) == Point(*right)) == (Reference(*left) == Reference(*right))


@given(values, values)
def test_equal_records_have_equal_hashes(left, right) -> None:
    if left == right:
        assert hash(Point(*left)) == hash(Point(*right))
    assert len({Point(*left), Point(*right)}) == len({Reference(*left), Reference(*right)})


@given(values, changes)
def test_a_replaced_field_is_the_only_change(fields, changed) -> None:
    before = Point(*fields)
    after, expected = before.replace(**changed), dataclasses.replace(Reference(*fields), **changed)

    assert (after.x, after.y, after.label) == (expected.x, expected.y, expected.label)
    assert before == Point(*fields)


@given(values)
def test_a_record_survives_pickling_and_copying(fields) -> None:
    record = Point(*fields)

    assert pickle.loads(pickle.dumps(record)) == record
    assert copy.deepcopy(record) == record == copy.copy(record)


@given(arguments)
def test_wrong_arguments_are_refused_as_a_dataclass_refuses_them(given_arguments) -> None:
    positional, named = given_arguments
    try:
        expected = Reference(*positional, **named)
    except TypeError:
        with pytest.raises(TypeError):
            Point(*positional, **named)
        return
    made = Point(*positional, **named)

    assert (made.x, made.y, made.label) == (expected.x, expected.y, expected.label)


@given(values)
def test_a_record_shows_its_fields(fields) -> None:
    assert repr(Point(*fields)) == repr(Reference(*fields)).replace("Reference", "Point")


def test_a_record_cannot_be_changed() -> None:
    point = Point(1)

    for change in (
        lambda: setattr(point, "x", 2),
        lambda: setattr(point, "new", 2),
        lambda: delattr(point, "x"),
    ):
        with pytest.raises(AttributeError):
            change()
    assert point == Point(1, 7, "")
    assert not hasattr(point, "__dict__")


def test_records_of_different_classes_are_never_equal() -> None:
    class Other(Record):
        x: int
        y: int = 7
        label: str = ""

    assert Point(1) != Other(1)
    assert Point(1) != (1, 7, "")


def test_a_default_is_not_shared_between_classes() -> None:
    class Later(Record):
        y: int = 8

    assert Later().y == 8
    assert Point(0).y == 7
