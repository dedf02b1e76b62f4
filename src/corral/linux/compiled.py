"""The file of a compiled plan: what corral-launch needs to run commands without Python, as one run of bytes.

    header   8 bytes magic, u32 total length, u32 number of records, u64 sum
    record   u32 type, u32 payload length, payload

Integers and strings are those of the spec. The launcher's twin is `launcher/plan.h`. The sum finds a file
that was damaged; that nobody else has written it is a matter of who may write where it lies.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from corral.linux.spec import HEADER as SPEC_HEADER
from corral.linux.spec import RECORD, U32, U64, RecordType
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"CORPLAN\x01"
MAX_BYTES = 8 * 1024 * 1024
HEADER = struct.Struct("<8sIIQ")
_OBJECT = struct.Struct("<IIIQQ")
_STAMP = struct.Struct("<QQQQQ")
_PAIR = struct.Struct("<II")
_SUM_START, _SUM_FACTOR, _U64_MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
#: What belongs to one command, and is added by the launcher.
_OF_THE_COMMAND = frozenset({RecordType.CWD, RecordType.ARGUMENT, RecordType.ENVIRONMENT})


class PlanRecord(IntEnum):
    HOST = 1  # u32 uid, u32 gid, string build, string boot id, string kernel release; once
    OBJECT = 2  # u32 kind, u32 traits, u32 names, u64 device, u64 inode, string path
    FAILS = 3  # u32 follows, u32 errno, string path
    LINK = 4  # string text, string path
    STAMP = 5  # u64 device, inode, size, mtime ns, ctime ns, string path
    SILENT = 6  # string path
    PASS = 7  # string name
    DEFAULT = 8  # string NAME=VALUE
    SET = 9  # string NAME=VALUE
    OUTPUT = 10  # u64 bytes; at most once
    SPEC = 11  # u32 number of records, records; once
    NOTE = 12  # string
    TEXT = 13  # string text, string path
    MOUNTS = 14  # string places, string lines, string path


class ObjectKind(IntEnum):
    OTHER = 0
    DIRECTORY = 1
    LINK = 2
    SOCKET = 3


EXECUTABLE, CLOSED = 1, 2  # traits of an object


class SeenObject(Record):
    """What a path itself is, links not followed."""

    path: str
    kind: ObjectKind
    traits: int
    names: int
    device: int
    inode: int


class SeenNothing(Record):
    """Looking at a path fails, in this way."""

    path: str
    errno: int
    follows: bool = False


class SeenLink(Record):
    """The text of a link."""

    path: str
    text: str


class SeenStamp(Record):
    """A file or directory whose content was read, with links followed."""

    path: str
    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class SeenSilence(Record):
    """A file that is not there, or says nothing about corral."""

    path: str


class SeenText(Record):
    """A file of the kernel's that reads so, and has neither size nor times."""

    path: str
    text: str


class SeenMounts(Record):
    """Of a table of mounts all that shows a part of some places.

    A place is a device and a path on it; a line has the device, the root and the point of a mount.
    """

    path: str
    places: str
    lines: str


Seen = SeenObject | SeenNothing | SeenLink | SeenStamp | SeenSilence | SeenText | SeenMounts


_WITH_TEXT: dict[PlanRecord, type[SeenLink | SeenText]] = {
    PlanRecord.LINK: SeenLink,
    PlanRecord.TEXT: SeenText,
}


class PlanHost(Record):
    """Whom and what a plan is for."""

    uid: int
    gid: int
    build: str  # of the launcher
    boot: str
    kernel: str


class EnvironmentRules(Record):
    """How the environment of a command is made of the caller's, when it runs."""

    passed: tuple[str, ...]
    defaults: tuple[tuple[str, str], ...]
    fixed: tuple[tuple[str, str], ...]


class CompiledPlan(Record):
    host: PlanHost
    seen: tuple[Seen, ...]
    environment: EnvironmentRules
    output_bytes: int | None
    spec: tuple[int, bytes]  # number of records, records
    note: str  # JSON, for `corral compile --show`


class MalformedPlan(ValueError):
    """Not a plan to the letter."""


def encode_plan(plan: CompiledPlan) -> bytes:
    """The bytes of the file. Raises ValueError for a string that holds a NUL, or a plan that is too long."""
    pieces = [RECORD.pack(kind, len(payload)) + payload for kind, payload in _records(plan)]
    body = b"".join(pieces)
    total = HEADER.size + len(body)
    if total > MAX_BYTES:
        raise ValueError(f"the plan has {total} bytes, and {MAX_BYTES} is the most")
    return HEADER.pack(MAGIC, total, len(pieces), _sum(body) ^ len(pieces)) + body


def resolved_of(spec: bytes) -> tuple[int, bytes]:
    """A spec without what belongs to one command: (number of records, records)."""
    at, count, kept = SPEC_HEADER.size, 0, []
    while at < len(spec):
        kind, length = RECORD.unpack_from(spec, at)
        end = at + RECORD.size + length
        if kind not in _OF_THE_COMMAND:
            kept.append(spec[at:end])
            count += 1
        at = end
    return count, b"".join(kept)


def decode_plan(raw: bytes) -> CompiledPlan:
    """What a file holds. Raises MalformedPlan; it is as strict as the launcher."""
    if len(raw) < HEADER.size:
        raise MalformedPlan("it is shorter than its header")
    magic, total, count, checksum = HEADER.unpack_from(raw)
    if magic[:-1] != MAGIC[:-1]:
        raise MalformedPlan("it is not a plan")
    if magic != MAGIC:
        raise MalformedPlan("another version of corral has written it")
    if total != len(raw):
        raise MalformedPlan("it is not whole")
    if checksum != _sum(raw[HEADER.size :]) ^ count:
        raise MalformedPlan("it is damaged")
    try:
        return _gather(list(_split(raw, count)))
    except (struct.error, ValueError, IndexError) as problem:
        raise MalformedPlan(str(problem)) from problem


def _records(plan: CompiledPlan) -> Iterator[tuple[PlanRecord, bytes]]:
    host = plan.host
    texts = _string(host.build) + _string(host.boot) + _string(host.kernel)
    yield PlanRecord.HOST, _PAIR.pack(host.uid, host.gid) + texts
    for seen in plan.seen:
        yield _seen_record(seen)
    for name in plan.environment.passed:
        yield PlanRecord.PASS, _string(name)
    for kind, pairs in (
        (PlanRecord.DEFAULT, plan.environment.defaults),
        (PlanRecord.SET, plan.environment.fixed),
    ):
        for name, value in pairs:
            yield kind, _string(f"{name}={value}")
    if plan.output_bytes is not None:
        yield PlanRecord.OUTPUT, U64.pack(plan.output_bytes)
    yield PlanRecord.SPEC, U32.pack(plan.spec[0]) + plan.spec[1]
    yield PlanRecord.NOTE, _string(plan.note)


def _seen_record(seen: Seen) -> tuple[PlanRecord, bytes]:
    path = _string(seen.path)
    match seen:
        case SeenObject():
            fields = (seen.kind, seen.traits, seen.names, seen.device, seen.inode)
            return PlanRecord.OBJECT, _OBJECT.pack(*fields) + path
        case SeenNothing():
            return PlanRecord.FAILS, _PAIR.pack(seen.follows, seen.errno) + path
        case SeenLink():
            return PlanRecord.LINK, _string(seen.text) + path
        case SeenStamp():
            stamp = (seen.device, seen.inode, seen.size, seen.modified_ns, seen.changed_ns)
            return PlanRecord.STAMP, _STAMP.pack(*stamp) + path
        case SeenSilence():
            return PlanRecord.SILENT, path
        case SeenText():
            return PlanRecord.TEXT, _string(seen.text) + path
        case SeenMounts():
            return PlanRecord.MOUNTS, _string(seen.places) + _string(seen.lines) + path


def _split(raw: bytes, count: int) -> Iterator[tuple[PlanRecord, bytes]]:
    at = HEADER.size
    for _ in range(count):
        kind, length = RECORD.unpack_from(raw, at)
        at += RECORD.size + length
        if at > len(raw):
            raise MalformedPlan("a record ends after the plan")
        yield PlanRecord(kind), raw[at - length : at]
    if at != len(raw):
        raise MalformedPlan("bytes after the last record")


def _gather(records: list[tuple[PlanRecord, bytes]]) -> CompiledPlan:
    seen: list[Seen] = []
    texts: dict[PlanRecord, list[str]] = {kind: [] for kind in PlanRecord}
    single: dict[PlanRecord, bytes] = {}
    for kind, payload in records:
        if kind in {PlanRecord.HOST, PlanRecord.SPEC, PlanRecord.OUTPUT}:
            if kind in single:
                raise MalformedPlan("a record occurs again")
            single[kind] = payload
        elif kind <= PlanRecord.SILENT or kind in {PlanRecord.TEXT, PlanRecord.MOUNTS}:
            seen.append(_read_seen(kind, payload))
        else:
            texts[kind].append(_strings(payload, 1)[0])
    if PlanRecord.HOST not in single or PlanRecord.SPEC not in single:
        raise MalformedPlan("it is not whole")
    uid, gid = _PAIR.unpack_from(single[PlanRecord.HOST])
    output = single.get(PlanRecord.OUTPUT)
    spec = single[PlanRecord.SPEC]
    return CompiledPlan(
        PlanHost(uid, gid, *_strings(single[PlanRecord.HOST][_PAIR.size :], 3)),
        tuple(seen),
        EnvironmentRules(
            tuple(texts[PlanRecord.PASS]),
            tuple(map(_assignment, texts[PlanRecord.DEFAULT])),
            tuple(map(_assignment, texts[PlanRecord.SET])),
        ),
        None if output is None else U64.unpack(output)[0],
        (U32.unpack_from(spec)[0], spec[U32.size :]),
        "".join(texts[PlanRecord.NOTE]),
    )


def _read_seen(kind: PlanRecord, payload: bytes) -> Seen:
    if kind is PlanRecord.OBJECT:
        what, *rest = _OBJECT.unpack_from(payload)
        return SeenObject(_strings(payload[_OBJECT.size :], 1)[0], ObjectKind(what), *rest)
    if kind is PlanRecord.FAILS:
        follows, number = _PAIR.unpack_from(payload)
        return SeenNothing(_strings(payload[_PAIR.size :], 1)[0], number, bool(follows))
    if kind in _WITH_TEXT:
        text, path = _strings(payload, 2)
        return _WITH_TEXT[kind](path, text)
    if kind is PlanRecord.MOUNTS:
        places, lines, path = _strings(payload, 3)
        return SeenMounts(path, places, lines)
    if kind is PlanRecord.STAMP:
        return SeenStamp(_strings(payload[_STAMP.size :], 1)[0], *_STAMP.unpack_from(payload))
    return SeenSilence(_strings(payload, 1)[0])


def _strings(raw: bytes, count: int) -> list[str]:
    parts = raw.split(b"\0")
    if len(parts) != count + 1 or parts[-1]:
        raise MalformedPlan("a record does not have the length of its fields")
    return [part.decode("utf-8", "surrogateescape") for part in parts[:-1]]


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise MalformedPlan("a variable is not NAME=VALUE")
    return name, value


def _string(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise ValueError(f"{text!r} contains a NUL byte")
    return raw + b"\0"


def _sum(body: bytes) -> int:
    """FNV-1a with 64 bits: every step is a bijection, so a change of one byte is always seen."""
    value = _SUM_START
    for byte in body:
        value = (value ^ byte) * _SUM_FACTOR & _U64_MASK
    return value
