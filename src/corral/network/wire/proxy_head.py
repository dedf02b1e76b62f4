"""Heads of HTTP/1 requests that are sent to a proxy, read to the letter. Pure.

What two readers could understand differently is refused: a proxy that guesses is led to one host and the
server behind it to another.
"""

from __future__ import annotations

from corral.model.network.traffic import NetReason
from corral.model.record import Record
from corral.network.wire.proxy_request import BadRequest

MOST_HEAD = 64 * 1024
_END = b"\r\n\r\n"
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_VERSIONS = frozenset({"HTTP/1.0", "HTTP/1.1"})
_MOST_LENGTH_DIGITS = 18
CHUNKED = -1


class ProxyHead(Record):
    """The head of one request; names of fields are as they were written."""

    method: str
    target: str
    version: str
    fields: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        """All values of a field."""
        return [value for field, value in self.fields if field.lower() == name]

    def names_in(self, name: str) -> set[str]:
        """The words of a field that is a list, in lower case."""
        return {word.strip().lower() for value in self.values(name) for word in value.split(",")}

    @property
    def body(self) -> int:
        """The length of its body, or CHUNKED. Raises Unfit where two could be meant."""
        encodings, lengths = self.values("transfer-encoding"), self.values("content-length")
        if encodings:
            if (
                lengths
                or len(encodings) > 1
                or encodings[0].lower() != "chunked"
                or self.version == "HTTP/1.0"
            ):
                raise unreadable("the length of a request's body can be read in two ways")
            return CHUNKED
        if not lengths:
            return 0
        text = lengths[0]
        is_plain = text.isascii() and text.isdigit() and len(text) <= _MOST_LENGTH_DIGITS
        if len(lengths) > 1 or not is_plain:
            raise unreadable("the length of a request's body is not a number")
        return int(text)


def unreadable(detail: str) -> BadRequest:
    """The answer to what is no request."""
    return BadRequest(NetReason.NOT_HTTP, detail)


def split_head(data: bytes) -> tuple[ProxyHead, bytes] | None:
    """The first request of the bytes and what comes after it; None: it is not whole yet. Raises Unfit."""
    end = data.find(_END, 0, MOST_HEAD)
    if end < 0:
        if len(data) >= MOST_HEAD:
            raise unreadable(f"a request's head is longer than {MOST_HEAD} bytes")
        return None
    return _read_head(data[:end]), data[end + len(_END) :]


def _read_head(raw: bytes) -> ProxyHead:
    """The lines, without the empty one at the end."""
    text = raw.decode("latin-1")
    first, *lines = text.split("\r\n")
    if any(letter in text.replace("\r\n", "") for letter in "\r\n\0"):
        raise unreadable("a request's head has control characters in it")
    words = first.split(" ")
    if len(words) != 3 or not _is_token(words[0]) or words[2] not in _VERSIONS:
        raise unreadable("what was sent to the proxy is not an HTTP/1 request")
    method, target, version = words
    if not target.isascii() or not target.isprintable():
        raise unreadable("a request is for something unprintable")
    return ProxyHead(method, target, version, tuple(map(_read_field, lines)))


def _read_field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _is_token(name):  # a line that continues the one before begins with a space
        raise unreadable("a request's head has a line that is not a field")
    return name, value.strip(" \t")


def _is_token(text: str) -> bool:
    return bool(text) and _TOKEN.issuperset(text)
