"""Laws of the codec: what travels arrives, and all other bytes are a value or the one error."""

from __future__ import annotations

import math
import struct
import tracemalloc
from datetime import timedelta, timezone
from pathlib import PosixPath, PurePosixPath

from hypothesis import example, given
from hypothesis import strategies as st

from corral.parallel.calls.codec import Bounds, CodecError, decode, encode
from support.examples import examples

_offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
_zones = st.one_of(st.none(), _offsets)
_texts = st.text(st.characters(exclude_categories=(), max_codepoint=0x10FFFF))
_paths = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
_plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    _texts,
    st.binary(),
    st.dates(),
    st.datetimes(timezones=_zones),
    st.times(timezones=_zones),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.uuids(),
    _paths.map(PurePosixPath),
    _paths.map(PosixPath),
)
_hashable = st.recursive(
    _plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple), st.frozensets(inner, max_size=4), st.tuples(inner)
    ),
    max_leaves=8,
)
values = st.recursive(
    st.one_of(_plain, st.binary().map(bytearray)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(_hashable, inner, max_size=5),
        st.sets(_hashable, max_size=5),
        st.frozensets(_hashable, max_size=5),
    ),
    max_leaves=20,
)
_SMALL = Bounds(size=4096, values=200, depth=12, seconds=5.0)
#: What decoding 4096 bytes may take: an empty set for each value, and the bytes a few times.
_MEMORY_BYTES = 200 * 300 + 16 * 4096 + 65_536


def _types(value: object) -> object:
    """The types of a value all the way down; of a set in no order."""
    if isinstance(value, dict):
        pairs = [(repr(_types(key)), repr(_types(item))) for key, item in value.items()]
        return dict, sorted(pairs)
    if isinstance(value, set | frozenset):
        return type(value), sorted(repr(_types(item)) for item in value)
    if isinstance(value, list | tuple):
        return type(value), [_types(item) for item in value]
    return type(value)


@given(values)
def test_what_travels_arrives(value: object) -> None:
    found = decode(encode(value))

    assert found == value
    assert _types(found) == _types(value)


@given(st.floats())
def test_a_float_keeps_its_bits(value: float) -> None:
    found = decode(encode(value))

    assert math.isnan(value) == math.isnan(found)
    assert math.isnan(value) or struct.pack(">d", found) == struct.pack(">d", value)


def _decode_safely(data: bytes) -> object:
    try:
        return decode(data, _SMALL)
    except CodecError as error:
        return error


@examples(600)
@given(st.binary(max_size=200))
@example(b"l\xff\xff\xff\xff")
@example(b"s\xff\xff\xff\xff")
@example(b"d\x7f\xff\xff\xff" + b"NN" * 50)
@example(b"z\x00\x00\x00\x01n\x00\x00\x00\x04sNaN")
@example(b"l\x00\x00\x00\x01" * 900)
@example(b"n\x00\x00\x00\x1a1E+9999999999999999999999")
@example(b"M\x00\x00\x00\x00" + b"\x00" * 30)
def test_any_bytes_are_a_value_or_the_one_error(data: bytes) -> None:
    _decode_safely(data)


@examples(600)
@given(values, st.data())
def test_a_value_that_was_changed_on_its_way_is_one_or_the_error(value: object, data: st.DataObject) -> None:
    sent = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(sent) - 1))
        match data.draw(st.sampled_from(["change", "remove", "insert", "cut"])):
            case "change":
                sent[place] = data.draw(st.integers(0, 255))
            case "remove" if len(sent) > 1:
                del sent[place]
            case "insert":
                sent.insert(place, data.draw(st.integers(0, 255)))
            case "cut" if place:
                del sent[place:]

    _decode_safely(bytes(sent))


@examples(60)
@given(
    st.lists(
        st.sampled_from([b"l", b"t", b"S", b"z", b"d", b"s", b"b", b"i", b"N", b"\0", b"\xff", b"\0\0\0\2"]),
        max_size=400,
    ).map(b"".join)
)
def test_memory_follows_the_bytes_that_came(data: bytes) -> None:
    decode(encode([None, set()]))  # whatever is imported or made once
    tracemalloc.start()
    try:
        _decode_safely(data[:4096])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < _MEMORY_BYTES


@given(values)
def test_what_was_decoded_can_be_sent_on(value: object) -> None:
    once = decode(encode(value))

    assert decode(encode(once)) == value
