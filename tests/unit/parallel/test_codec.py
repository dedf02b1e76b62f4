"""The codec by example: what is refused on either side, and that no bound depends on good will."""

from __future__ import annotations

import enum
import os
import pickle
import struct
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from corral.parallel.calls.codec import NUMBER_BYTES, Bounds, CodecError, decode, encode

Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


class Text(str):
    pass


@dataclass
class Record:
    name: str


def _length(number: int) -> bytes:
    return struct.pack(">I", number)


@pytest.mark.parametrize(
    "value",
    [
        (None, True, False, 0, -1, 2**64, -(2**2000)),
        (float("inf"), float("-inf"), -0.0, 1e-300, complex(1, -2)),
        ("", "text", "\0", "\ud800", "\ud83d\ude00", "\U0001f600", b"", b"\xff\0", bytearray(b"x")),
        ([], [[]], (), ((),), set(), {1, "a"}, frozenset({frozenset()}), {}, {(1, 2): {"a": [None]}}),
        (datetime(2024, 2, 29, 12, 30, 1, 5), datetime(1, 1, 1, tzinfo=UTC), time(1, 2, tzinfo=UTC)),
        (datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-5, minutes=-30))), timedelta(-1, 5, 7)),
        (Decimal("1.10"), Decimal("-Infinity"), Decimal("1E+999"), UUID(int=7)),
        (PurePosixPath("/a/b"), Path("relative"), PurePosixPath("")),
    ],
)
def test_plain_values_arrive(value: object) -> None:
    assert repr(decode(encode(value))) == repr(value)


def test_what_is_not_equal_to_itself_arrives_too() -> None:
    nan, signalling, fold = decode(encode((float("nan"), Decimal("sNaN12"), datetime(2024, 1, 1, fold=1))))

    assert nan != nan
    assert str(signalling) == "sNaN12"
    assert fold.fold == 1


@pytest.mark.parametrize(
    "value",
    [
        *(object(), object, len, Point(1, 2), Colour.RED, Text("x"), Record("x"), OrderedDict(a=1)),
        *(range(3), memoryview(b"x"), ..., iter([]), ValueError("x"), PureWindowsPath("C:/")),
        datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_nothing_else_travels_not_even_a_subclass(value: object) -> None:
    with pytest.raises(CodecError, match="cannot travel"):
        encode([{"deep": value}])


def test_what_is_too_much_is_refused_before_it_is_sent() -> None:
    endless: list[object] = []
    endless.append(endless)
    laughs: object = "ha"
    for _ in range(40):
        laughs = [laughs] * 10

    for value, bounds in [
        (endless, Bounds()),
        (laughs, Bounds()),
        ([None] * 11, Bounds(values=11)),
        (b"x" * 100, Bounds(size=100)),
        (["x" * 30] * 4, Bounds(size=100)),
        ([[[]]], Bounds(depth=2)),
        (1 << (8 * NUMBER_BYTES), Bounds()),
        (Decimal("1" * (NUMBER_BYTES + 1)), Bounds()),
    ]:
        with pytest.raises(CodecError):
            encode(value, bounds)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"NN",
        b"i" + _length(2**32 - 1),
        b"b" + _length(2**32 - 1) + b"x" * 100,
        b"l" + _length(2**32 - 1) + b"N" * 100,
        b"d" + _length(2) + b"NNN",
        b"s" + _length(1) + b"\xff",
        b"S" + _length(2) + b"NN",
        b"d" + _length(2) + b"NTNT",
        b"S" + _length(1) + b"l" + _length(0),
        b"S" + _length(1) + b"n" + _length(4) + b"sNaN",
        b"Y" + bytes(4),
        b"D" + struct.pack(">iii", 2**31 - 1, 0, 0),
        b"n" + _length(3) + b"one",
        b"n" + _length(2) + "\u0661".encode(),
        b"h" + struct.pack(">BBBIBq", 1, 1, 1, 1, 0, 10**17),
        b"l" + _length(1) + (b"l" + _length(1)) * 10_000,
        b"i" + _length(NUMBER_BYTES + 1) + bytes(NUMBER_BYTES + 1),
        pickle.dumps({"a": 1}),
    ],
)
def test_bytes_that_are_no_value_are_one_error(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode(data)


def test_more_than_the_bounds_is_not_looked_at() -> None:
    with pytest.raises(CodecError, match="at most"):
        decode(b"N" * 11, Bounds(size=10))
    with pytest.raises(CodecError, match="too many values"):
        decode(encode([None] * 20), Bounds(values=20))
    with pytest.raises(CodecError, match="more than 20 values"):
        decode(encode([[None] * 17, None, None, None]), Bounds(values=20))
    with pytest.raises(CodecError, match="levels deep"):
        decode(encode([[[]]]), Bounds(depth=2))


def test_numbers_that_all_collide_do_not_keep_the_host_busy() -> None:
    """As many equal hashes in one set would take minutes."""
    colliding = [number * (2**61 - 1) for number in range(1, 200_001)]
    assert len({hash(number) for number in colliding}) == 1
    listed = encode(colliding)

    with pytest.raises(CodecError, match=r"longer than 0\.2 seconds"):
        decode(b"S" + listed[1:], Bounds(seconds=0.2))
    assert decode(listed) == colliding


def test_nothing_in_it_can_name_what_is_to_be_called(tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    class Runs:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(mark),)

    pickled = pickle.dumps(Runs())
    pickle.loads(pickled)
    assert mark.exists()  # the control: with pickle it is done
    mark.rmdir()

    with pytest.raises(CodecError):
        encode(Runs())
    with pytest.raises(CodecError):
        decode(pickled)
    assert decode(encode(pickled)) == pickled
    assert not mark.exists()
