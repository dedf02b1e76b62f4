"""The name that a TLS client asks for: the first message of a connection, read and not changed. Pure.

TRUST: every byte is the sandbox's. A message counts only when it can be read in one way: where a lenient
server might see another name than we do, it is malformed. An encrypted ClientHello (ECH) is let through; the
name that counts is the outer one, which is the only one that leads the connection anywhere.
"""

from __future__ import annotations

from enum import Enum

from corral.model.network.endpoint import parse_one_host
from corral.model.record import Record

#: Of all that a client may send before it has said a name. Those with post-quantum keys have two kilobytes.
MOST_HELLO = 32 * 1024
#: A message may be cut into records as small as a byte. Nobody does, and each of them costs us time.
_MOST_RECORDS = 64
_MOST_RECORD = 2**14
_RECORD_HEADER, _MESSAGE_HEADER = 5, 4
_HANDSHAKE, _CLIENT_HELLO, _MAJOR_VERSION = 22, 1, 3
_RANDOM, _MOST_SESSION = 32, 32
_SERVER_NAME, _HOST_NAME = 0, 0


class HelloState(Enum):
    """How far the reading of a ClientHello has come."""

    MORE = "more"  # it is not complete yet
    FOUND = "found"
    ABSENT = "absent"  # it is complete and names no host
    NOT_TLS = "not-tls"
    MALFORMED = "malformed"


class ServerName(Record):
    """What the beginning of a connection says about the host that is wanted."""

    state: HelloState
    name: str = ""  # canonical; only when it was found


_MORE = ServerName(HelloState.MORE)
_ABSENT = ServerName(HelloState.ABSENT)
_NOT_TLS = ServerName(HelloState.NOT_TLS)
_MALFORMED = ServerName(HelloState.MALFORMED)


class _NotTls(Exception):
    """The connection does not begin like TLS."""


class _Malformed(Exception):
    """The message breaks its own lengths or rules."""


class _Reader:
    """Takes fields off a message. Raises _Malformed beyond its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    @property
    def is_at_end(self) -> bool:
        return self._position == len(self._data)

    def take(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        if self._position > len(self._data):
            raise _Malformed
        return self._data[start : self._position]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, length_size: int) -> bytes:
        """A field that begins with its own length."""
        return self.take(self.number(length_size))


def read_server_name(data: bytes) -> ServerName:
    """Read all that a client has sent so far, from its very first byte.

    What is once decided stays so, whatever comes after it.
    """
    try:
        message = _collect_message(data[:MOST_HELLO])
        if message is None:
            return _MORE if len(data) < MOST_HELLO else _MALFORMED
        name = _read_hello(_Reader(message))
    except _NotTls:
        return _NOT_TLS
    except _Malformed:
        return _MALFORMED
    return _ABSENT if name is None else ServerName(HelloState.FOUND, name)


def _collect_message(data: bytes) -> bytes | None:
    """The body of the ClientHello, put together from its records; None until it is complete."""
    parts: list[bytes] = []
    collected = promised = position = size = 0
    while position < len(data):
        # SSL 2 has other headers, and can carry no name: it is refused with everything else.
        if data[position] != _HANDSHAKE or data[position + 1 : position + 2] not in {b"", b"\x03"}:
            raise _Malformed if parts else _NotTls
        content = position + _RECORD_HEADER
        if len(data) < content:
            return None
        length = int.from_bytes(data[position + 3 : content])
        if not 0 < length <= _MOST_RECORD or len(parts) == _MOST_RECORDS:
            raise _Malformed
        position = content + length
        parts.append(data[content:position])
        promised += length
        collected += len(parts[-1])
        if not size and collected >= _MESSAGE_HEADER:
            size = _message_size(b"".join(parts))
        # INVARIANT: the message ends with its record. What servers make of a rest in there differs. Records
        # of their own, such as early data, may well follow.
        if size and promised > size:
            raise _Malformed
        if size and collected == size:
            return b"".join(parts)[_MESSAGE_HEADER:]
    return None


def _message_size(beginning: bytes) -> int:
    """The size of the whole message, by its header."""
    size = _MESSAGE_HEADER + int.from_bytes(beginning[1:_MESSAGE_HEADER])
    if beginning[0] != _CLIENT_HELLO or not _MESSAGE_HEADER < size <= MOST_HELLO:
        raise _Malformed
    return size


def _read_hello(hello: _Reader) -> str | None:
    """The host that a ClientHello names (RFC 8446, 4.1.2; RFC 5246, 7.4.1.2)."""
    if hello.take(2)[0] != _MAJOR_VERSION:
        raise _Malformed
    hello.take(_RANDOM)
    session, suites, compressions = hello.vector(1), hello.vector(2), hello.vector(1)
    if len(session) > _MOST_SESSION or not suites or len(suites) % 2 or not compressions:
        raise _Malformed
    if hello.is_at_end:
        return None
    extensions = _Reader(hello.vector(2))
    if not hello.is_at_end:
        raise _Malformed
    found: dict[int, bytes] = {}
    while not extensions.is_at_end:
        kind = extensions.number(2)
        if kind in found:  # one server takes the first of two, another the last
            raise _Malformed
        found[kind] = extensions.vector(2)
    return _read_names(_Reader(found[_SERVER_NAME])) if _SERVER_NAME in found else None


def _read_names(extension: _Reader) -> str:
    """The one name of a server_name extension (RFC 6066, 3)."""
    names = _Reader(extension.vector(2))
    kind, name = names.number(1), names.vector(2)
    if kind != _HOST_NAME or not names.is_at_end or not extension.is_at_end:
        raise _Malformed
    try:
        return parse_one_host(name.decode("ascii"))
    except ValueError:  # also of letters that are not ASCII
        raise _Malformed from None
