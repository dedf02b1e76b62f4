"""DNS on the wire: one plain question in, one answer out (RFC 1035, 6891). Pure.

TRUST: every byte of a packet is the sandbox's. What is not a plain question for a host's name is malformed;
no resolver of the host ever sees a packet of the sandbox, only a name that was read and permitted.
"""

from __future__ import annotations

import struct

from corral.model.network.endpoint import parse_one_host
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Longer packets are malformed; a question with all its options has a tenth of it.
MOST_QUERY = 4096
KIND_A, KIND_AAAA = 1, 28
_SIZES = {KIND_A: 4, KIND_AAAA: 16}  # of an address, in bytes

_HEADER = struct.Struct("!6H")  # id, flags, and how many questions, answers, authorities, additions
_KIND_AND_CLASS = struct.Struct("!2H")
_RECORD_AFTER_NAME = struct.Struct("!2HIH")  # kind, class, seconds to live, length of the data
_LENGTH = struct.Struct("!H")
_IN = 1
_OPT = 41  # a pseudo-record of the root, by which a client says that it knows EDNS
_IS_RESPONSE, _OPCODE, _WANTS_RECURSION, _HAS_RECURSION = 0x8000, 0x7800, 0x0100, 0x0080
_NO_ERROR, _FORMAT_ERROR, _SERVER_FAILURE, _NO_SUCH_NAME, _NOT_IMPLEMENTED = range(5)
_MOST_LABEL = 63
#: What every client takes by UDP. INVARIANT: no answer is longer, so that none is ever cut short.
_MOST_ANSWER = 512
_POINTER_TO_QUESTION = b"\xc0\x0c"
_OUR_OPT = b"\x00" + _RECORD_AFTER_NAME.pack(_OPT, _MOST_ANSWER, 0, 0)
_MOST_SECONDS = 2**31 - 1


class Query(Record):
    """A question about one name."""

    id: int
    name: str  # lower case, without the last dot; "" is the root
    kind: int  # KIND_A, KIND_AAAA or another number
    question: bytes  # as it came: clients compare the very letters (0x20)
    recursion: bool
    edns: bool


def parse_query(packet: bytes) -> Query | None:
    """The question of a packet; None for what is malformed, or is anything but one plain question."""
    if not _HEADER.size < len(packet) <= MOST_QUERY:
        return None
    identity, flags, questions, answers, authorities, additions = _HEADER.unpack_from(packet)
    if flags & (_IS_RESPONSE | _OPCODE) or (questions, answers, authorities) != (1, 0, 0) or additions > 1:
        return None
    read = _read_name(packet, _HEADER.size)
    if read is None:
        return None
    name, position = read
    end = position + _KIND_AND_CLASS.size
    if end > len(packet):
        return None
    kind, network = _KIND_AND_CLASS.unpack_from(packet, position)
    if network != _IN or not (_is_opt(packet, end) if additions else end == len(packet)):
        return None
    question = bytes(packet[_HEADER.size : end])
    return Query(identity, name, kind, question, bool(flags & _WANTS_RECURSION), additions == 1)


def answer(query: Query, addresses: Sequence[str], *, ttl: int) -> bytes:
    """The addresses of the family that was asked for; none of them is an answer as well."""
    import ipaddress  # few packets have an answer

    size = _SIZES.get(query.kind, -1)
    packed = [ipaddress.ip_address(text).packed for text in addresses]
    seconds = min(max(ttl, 0), _MOST_SECONDS)
    fixed = _POINTER_TO_QUESTION + _RECORD_AFTER_NAME.pack(query.kind, _IN, seconds, max(size, 0))
    records = [fixed + address for address in packed if len(address) == size]
    room = _MOST_ANSWER - _HEADER.size - len(query.question) - len(_OUR_OPT)
    return _build(query, _NO_ERROR, records[: room // (len(fixed) + size)])


def answer_nxdomain(query: Query) -> bytes:
    """There is no such name."""
    return _build(query, _NO_SUCH_NAME)


def answer_failure(query: Query) -> bytes:
    """The name may exist, and could not be found out about: ask again."""
    return _build(query, _SERVER_FAILURE)


def answer_malformed(packet: bytes) -> bytes | None:
    """What to say to a packet that is no query; None where nobody waits for an answer."""
    if len(packet) < 2:
        return None
    (identity,) = _LENGTH.unpack_from(packet)
    (flags,) = _LENGTH.unpack_from(packet, 2) if len(packet) >= 4 else (0,)
    if flags & _IS_RESPONSE:  # two that answer each other's answers would never end
        return None
    code = _NOT_IMPLEMENTED if flags & _OPCODE else _FORMAT_ERROR
    kept = flags & (_OPCODE | _WANTS_RECURSION)
    return _HEADER.pack(identity, _IS_RESPONSE | _HAS_RECURSION | kept | code, 0, 0, 0, 0)


def split_frames(buffer: bytearray) -> list[bytes]:
    """Take all whole packets of a TCP connection off the front. Raises ValueError for one that is too long.

    A caller that reads no more than a few kilobytes at a time holds no more than these and one packet.
    """
    frames = []
    start = 0
    while len(buffer) - start >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(buffer, start)
        if length > MOST_QUERY:
            raise ValueError(f"a query of {length} bytes; the most is {MOST_QUERY}")
        end = start + _LENGTH.size + length
        if end > len(buffer):
            break
        frames.append(bytes(buffer[start + _LENGTH.size : end]))
        start = end
    del buffer[:start]
    return frames


def build_frame(packet: bytes) -> bytes:
    """A packet as it goes over TCP."""
    return _LENGTH.pack(len(packet)) + packet


def _read_name(packet: bytes, position: int) -> tuple[str, int] | None:
    """The name that stands here and where it ends; None where it is no host's."""
    labels = []
    while position < len(packet) and (length := packet[position]):
        # Also without pointers: a question has nothing before it that could be pointed to.
        if length > _MOST_LABEL:
            return None
        label = packet[position + 1 : position + 1 + length]
        # INVARIANT: a dot within a label never becomes one between labels.
        if len(label) != length or b"." in label:
            return None
        labels.append(label)
        position += 1 + length
    if position >= len(packet):
        return None
    if not labels:
        return "", position + 1
    try:
        return parse_one_host(b".".join(labels).decode("ascii")), position + 1
    except ValueError:
        return None


def _is_opt(packet: bytes, position: int) -> bool:
    """Whether all that is left is one EDNS record."""
    fixed = position + 1 + _RECORD_AFTER_NAME.size
    if fixed > len(packet) or packet[position]:
        return False
    kind, _, _, length = _RECORD_AFTER_NAME.unpack_from(packet, position + 1)
    return bool(kind == _OPT and fixed + length == len(packet))


def _build(query: Query, code: int, records: Sequence[bytes] = ()) -> bytes:
    flags = _IS_RESPONSE | _HAS_RECURSION | (_WANTS_RECURSION if query.recursion else 0) | code
    header = _HEADER.pack(query.id, flags, 1, len(records), 0, int(query.edns))
    return b"".join((header, query.question, *records, _OUR_OPT if query.edns else b""))
