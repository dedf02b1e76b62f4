"""The codec: plain values as bytes and back, with nothing in between that could run code.

Arguments and results of sandboxed functions travel in it. What comes out of a sandbox was made by code that
nobody has read, so decoding builds values of a fixed list of types and nothing else: no class is looked up
by name, nothing is imported for a name, nothing is evaluated.

Why not a library: msgpack and cbor2 know neither sets nor complex numbers nor where the bounds are that we
need, and the worker would have to find them inside the sandbox. JSON has no bytes, tuples or keys that are
no text, so it needs tags and a second walk, in which all of this file would come back. This module is its
own twin: the worker runs it too, sent by the host. So it imports the standard library only.

    value   = tag (one byte), content
    length  = four bytes, big-endian: of what follows in bytes, or in values for containers
    i int, f float, c complex, s str, b bytes, B bytearray, N T F None True False
    l list, t tuple, S set, z frozenset, d dict (a key, a value, a key, ...)
    Y date, M datetime, h time, D timedelta, n Decimal, u UUID, p PurePosixPath, P PosixPath

INVARIANT: a length is compared with what is left before anything is made of it, so memory follows the bytes
that came, never the number that they name.
"""

from __future__ import annotations

import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_LENGTH = struct.Struct(">I")
_FLOAT = struct.Struct(">d")
_COMPLEX = struct.Struct(">dd")
_DATE = struct.Struct(">HBB")
_TIME = struct.Struct(">BBBIBq")  # hour, minute, second, microsecond, fold, offset in microseconds
_DELTA = struct.Struct(">iii")
_NO_OFFSET = -(2**63)
#: Of one number. Longer ones are no results but mistakes, or meant to keep the host busy.
NUMBER_BYTES = 65_536
#: How many values are taken between two looks at the clock; each may take as long as its set is large.
_TICK = 64


class CodecError(ValueError):
    """A value that cannot travel, or bytes that are no value. Decoding raises nothing else."""


class Bounds:
    """How much may travel at once: bytes, values, levels of nesting, and seconds for decoding it.

    A set takes some fifty times the memory of its bytes, so the number of values has a bound of its own. Time
    has one because numbers can be chosen such that all of them collide in a set or a dict.
    """

    __slots__ = ("depth", "seconds", "size", "values")

    def __init__(
        self, size: int = 16 << 20, values: int = 1_000_000, depth: int = 64, seconds: float = 30.0
    ) -> None:
        self.size = size
        self.values = values
        self.depth = depth
        self.seconds = seconds


def encode(value: object, bounds: Bounds | None = None) -> bytes:
    """A value as bytes. Raises CodecError if it, or something in it, cannot travel."""
    writer = _Writer(bounds or Bounds())
    try:
        writer.put(value, writer.bounds.depth)
    except RecursionError:
        raise CodecError("the value is nested too deeply") from None
    return bytes(writer.out)


def decode(data: bytes, bounds: Bounds | None = None) -> object:
    """The value that some bytes are. Raises CodecError, and nothing else, whatever the bytes are."""
    limits = bounds or Bounds()
    if len(data) > limits.size:
        raise CodecError(f"there are {len(data)} bytes, and {limits.size} are taken at most")
    reader = _Reader(data, limits)
    try:
        value = reader.take(limits.depth)
    except CodecError:
        raise
    # Everything that the types of the standard library say about what they cannot be made of.
    except (ValueError, TypeError, ArithmeticError, RecursionError) as problem:
        raise CodecError(f"the bytes are not a value: {type(problem).__name__}") from None
    if reader.position != len(data):
        raise CodecError("there is more than one value")
    return value


class _Writer:
    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.out = bytearray()
        self._values = 0

    def put(self, value: object, depth: int) -> None:
        # INVARIANT: types are compared exactly. A subclass would come back as something else than it was.
        write = _WRITERS.get(type(value)) or _more_writers().get(type(value))
        if write is None:
            raise CodecError(f"a value of type {_name(type(value))} cannot travel")
        self._values += 1
        if self._values > self.bounds.values:
            raise CodecError(f"there are more than {self.bounds.values} values")
        if depth <= 0:
            raise CodecError(f"the value is nested more than {self.bounds.depth} levels deep, or in itself")
        write(self, value, depth)
        self.check(0)

    def check(self, more: int) -> None:
        if len(self.out) + more > self.bounds.size:
            raise CodecError(f"the value takes more than {self.bounds.size} bytes")

    def blob(self, tag: bytes, content: bytes | bytearray) -> None:
        self.check(len(content))
        self.out += tag
        self.out += _LENGTH.pack(len(content))
        self.out += content

    def items(self, tag: bytes, count: int, items: Iterable[object], depth: int) -> None:
        self.out += tag
        self.out += _LENGTH.pack(count)
        for item in items:
            self.put(item, depth - 1)


def _name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _put_int(writer: _Writer, value: Any, _: int) -> None:
    size = value.bit_length() // 8 + 1
    if size > NUMBER_BYTES:
        raise CodecError(f"a number has more than {NUMBER_BYTES} bytes")
    writer.blob(b"i", value.to_bytes(size, "big", signed=True))


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _put_dict(writer: _Writer, value: Any, depth: int) -> None:
    writer.out += b"d"
    writer.out += _LENGTH.pack(len(value))
    for key, item in value.items():
        writer.put(key, depth - 1)
        writer.put(item, depth - 1)


def _put_raw(tag: bytes, pack: Callable[[Any], bytes]) -> Callable[[_Writer, Any, int], None]:
    def put(writer: _Writer, value: Any, _: int) -> None:
        writer.out += tag
        writer.out += pack(value)

    return put


def _put_blob(tag: bytes, content: Callable[[Any], bytes]) -> Callable[[_Writer, Any, int], None]:
    return lambda writer, value, _: writer.blob(tag, content(value))


def _put_items(tag: bytes) -> Callable[[_Writer, Any, int], None]:
    return lambda writer, value, depth: writer.items(tag, len(value), value, depth)


_WRITERS: dict[type, Callable[[_Writer, Any, int], None]] = {
    type(None): _put_raw(b"N", lambda _: b""),
    bool: _put_raw(b"", lambda value: b"T" if value else b"F"),
    int: _put_int,
    float: _put_raw(b"f", _FLOAT.pack),
    complex: _put_raw(b"c", lambda value: _COMPLEX.pack(value.real, value.imag)),
    str: _put_blob(b"s", _text),
    bytes: _put_blob(b"b", bytes),
    bytearray: _put_blob(b"B", bytes),
    list: _put_items(b"l"),
    tuple: _put_items(b"t"),
    set: _put_items(b"S"),
    frozenset: _put_items(b"z"),
    dict: _put_dict,
}
_MORE_WRITERS: dict[type, Callable[[_Writer, Any, int], None]] = {}


def _more_writers() -> dict[type, Callable[[_Writer, Any, int], None]]:
    """Those of types whose modules take long to import; most calls never need one."""
    if not _MORE_WRITERS:
        from datetime import date, datetime, time, timedelta
        from decimal import Decimal
        from pathlib import PosixPath, PurePosixPath
        from uuid import UUID

        found: dict[type, Callable[[_Writer, Any, int], None]] = {
            date: _put_raw(b"Y", lambda value: _DATE.pack(value.year, value.month, value.day)),
            datetime: _put_raw(
                b"M", lambda value: _DATE.pack(value.year, value.month, value.day) + _clock(value)
            ),
            time: _put_raw(b"h", _clock),
            timedelta: _put_raw(
                b"D", lambda value: _DELTA.pack(value.days, value.seconds, value.microseconds)
            ),
            Decimal: _put_blob(b"n", _digits),
            UUID: _put_raw(b"u", lambda value: bytes(value.bytes)),
            PurePosixPath: _put_blob(b"p", lambda value: _text(str(value))),
            PosixPath: _put_blob(b"P", lambda value: _text(str(value))),
        }
        _MORE_WRITERS.update(found)
    return _MORE_WRITERS


def _digits(value: Any) -> bytes:
    text = str(value).encode("ascii")
    if len(text) > NUMBER_BYTES:
        raise CodecError(f"a number has more than {NUMBER_BYTES} digits")
    return text


def _clock(value: Any) -> bytes:
    """The time of a datetime or time. A zone by name is none of the value: another host knows another one."""
    from datetime import timedelta, timezone

    zone = value.tzinfo
    if zone is not None and type(zone) is not timezone:
        raise CodecError(f"a time in a zone of type {_name(type(zone))} cannot travel: convert it to UTC")
    offset = _NO_OFFSET if zone is None else zone.utcoffset(None) // timedelta(microseconds=1)
    return _TIME.pack(value.hour, value.minute, value.second, value.microsecond, value.fold, offset)


class _Reader:
    def __init__(self, data: bytes, bounds: Bounds) -> None:
        self._data = data
        self._bounds = bounds
        self._left = bounds.values
        self._deadline = time.monotonic() + bounds.seconds
        self.position = 0

    def take(self, depth: int) -> Any:
        """The next value."""
        if depth <= 0:
            raise CodecError(f"the value is nested more than {self._bounds.depth} levels deep")
        self._left -= 1
        if self._left < 0:
            raise CodecError(f"there are more than {self._bounds.values} values")
        if self._left % _TICK == 0 and time.monotonic() > self._deadline:
            raise CodecError(f"decoding takes longer than {self._bounds.seconds:g} seconds")
        tag = self.raw(1)
        read = _READERS.get(tag)
        if read is None:
            raise CodecError(f"{tag!r} is no kind of value")
        return read(self, depth)

    def raw(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self._data):
            raise CodecError("the bytes end too early")
        piece = self._data[self.position : end]
        self.position = end
        return piece

    def blob(self) -> bytes:
        return self.raw(_LENGTH.unpack(self.raw(4))[0])

    def number(self) -> bytes:
        blob = self.blob()
        if len(blob) > NUMBER_BYTES:
            raise CodecError(f"a number has more than {NUMBER_BYTES} bytes")
        return blob

    def text(self) -> str:
        return self.blob().decode("utf-8", "surrogatepass")

    def count(self, values_each: int = 1) -> int:
        """How many items follow. Each takes a byte at least, so no more can than there are bytes."""
        found: int = _LENGTH.unpack(self.raw(4))[0]
        if found * values_each > min(len(self._data) - self.position, self._left):
            raise CodecError("the bytes end too early, or hold too many values")
        return found

    def take_list(self, depth: int) -> list[Any]:
        return [self.take(depth - 1) for _ in range(self.count())]

    def take_set(self, depth: int) -> set[Any]:
        found: set[Any] = set()
        count = self.count()
        for _ in range(count):
            found.add(self.take(depth - 1))
        if len(found) != count:
            raise CodecError("a set holds something twice")
        return found

    def take_dict(self, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        count = self.count(2)
        for _ in range(count):
            key = self.take(depth - 1)
            found[key] = self.take(depth - 1)
        if len(found) != count:
            raise CodecError("a dict holds a key twice")
        return found


def _take_date(reader: _Reader, _: int) -> Any:
    from datetime import date

    return date(*_DATE.unpack(reader.raw(_DATE.size)))


def _take_clock(reader: _Reader) -> tuple[tuple[int, int, int, int, Any], int]:
    from datetime import timedelta, timezone

    *parts, fold, offset = _TIME.unpack(reader.raw(_TIME.size))
    zone = None if offset == _NO_OFFSET else timezone(timedelta(microseconds=offset))
    return (parts[0], parts[1], parts[2], parts[3], zone), fold


def _take_datetime(reader: _Reader, _: int) -> Any:
    from datetime import datetime

    year, month, day = _DATE.unpack(reader.raw(_DATE.size))
    clock, fold = _take_clock(reader)
    return datetime(year, month, day, *clock, fold=fold)


def _take_time(reader: _Reader, _: int) -> Any:
    from datetime import time

    clock, fold = _take_clock(reader)
    return time(*clock, fold=fold)


def _take_delta(reader: _Reader, _: int) -> Any:
    from datetime import timedelta

    days, seconds, microseconds = _DELTA.unpack(reader.raw(_DELTA.size))
    return timedelta(days, seconds, microseconds)


def _take_decimal(reader: _Reader, _: int) -> Any:
    from decimal import Decimal

    return Decimal(reader.number().decode("ascii"))


def _take_uuid(reader: _Reader, _: int) -> Any:
    from uuid import UUID

    return UUID(bytes=reader.raw(16))


def _take_pure_path(reader: _Reader, _: int) -> Any:
    from pathlib import PurePosixPath

    return PurePosixPath(reader.text())


def _take_path(reader: _Reader, _: int) -> Any:
    from pathlib import PosixPath

    return PosixPath(reader.text())


_READERS: dict[bytes, Callable[[_Reader, int], Any]] = {
    b"N": lambda _, __: None,
    b"T": lambda _, __: True,
    b"F": lambda _, __: False,
    b"i": lambda reader, _: int.from_bytes(reader.number(), "big", signed=True),
    b"f": lambda reader, _: _FLOAT.unpack(reader.raw(8))[0],
    b"c": lambda reader, _: complex(*_COMPLEX.unpack(reader.raw(16))),
    b"s": lambda reader, _: reader.text(),
    b"b": lambda reader, _: reader.blob(),
    b"B": lambda reader, _: bytearray(reader.blob()),
    b"l": _Reader.take_list,
    b"t": lambda reader, depth: tuple(reader.take_list(depth)),
    b"S": _Reader.take_set,
    b"z": lambda reader, depth: frozenset(reader.take_set(depth)),
    b"d": _Reader.take_dict,
    b"Y": _take_date,
    b"M": _take_datetime,
    b"h": _take_time,
    b"D": _take_delta,
    b"n": _take_decimal,
    b"u": _take_uuid,
    b"p": _take_pure_path,
    b"P": _take_path,
}
