"""The head of an HTTP/1 request: which host it asks for, and where its body ends (RFC 9110, 9112). Pure.

TRUST: every byte is the sandbox's. INVARIANT: a head is accepted only if every server, lenient or strict,
reads the same host and the same end of the body in it. So what the standard lets a server forgive, such as a
bare line feed, a folded line or a space before the colon, is not forgiven here; real clients send none of it.
"""

from __future__ import annotations

from corral.model.network.endpoint import parse_one_host
from corral.model.network.traffic import NetReason
from corral.model.record import Record

_TOKEN = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = b"0123456789"
#: Of a target and of a value: no control characters. Bytes beyond ASCII mean nothing to the framing.
_VISIBLE = bytes(range(0x21, 0x7F)) + bytes(range(0x80, 0x100))
_VALUE = _VISIBLE + b" \t"
_BLANK = b" \t"
_VERSIONS = {b"HTTP/1.0", b"HTTP/1.1"}
_SCHEME = b"http://"
_MOST_METHOD = 32
_MOST_DIGITS = 18  # so that no server's number runs over
#: The fields that say who is asked and where a request ends.
_HOST, _LENGTH, _CODING = b"host", b"content-length", b"transfer-encoding"
_DECISIVE = frozenset({_HOST, _LENGTH, _CODING})
#: What has no body. Servers differ in whether they would read one, and nobody sends one.
_WITHOUT_BODY = {b"HEAD", b"TRACE"}
#: The one protocol to change to. In HTTP/2 (h2c) or TLS a client could ask the same server for other hosts.
_WEBSOCKET = b"websocket"
#: By which a client offers another one. Whoever stands in between may take it out (RFC 9110, 7.8).
_OFFER = frozenset({b"upgrade", b"http2-settings"})


class Mismatch(Exception):
    """The connection is not what it was permitted to be, and ends."""

    def __init__(self, reason: NetReason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


class Framing(Record):
    """What follows a head."""

    length: int = 0  # of the body, when it is not chunked
    is_chunked: bool = False
    is_websocket: bool = False  # if the server agrees
    has_offer: bool = False  # to speak something else, which is not passed on: see `without_offer`


def check_beginning(data: bytes) -> None:
    """Whether what has come of a head so far can become one; if it cannot, nobody need wait for the rest."""
    method, blank, _ = data[: _MOST_METHOD + 1].partition(b" ")
    if method.translate(None, _TOKEN) or len(method) > _MOST_METHOD or (blank and not method):
        raise _not_http("it does not begin with a method")


def read_head(head: bytes, host: str, port: int) -> Framing:
    """Read a head, without the empty line at its end. Raises Mismatch.

    `host` is canonical: the name, or the address, that the connection is permitted for.
    """
    first, *lines = head.split(b"\r\n")
    method, target, version = _read_first_line(first)
    fields = read_fields(lines)
    found = [value for name, value in fields if name == _HOST]
    if not found or found == [b""]:
        raise Mismatch(NetReason.NO_NAME, "a request without a host")
    if len(found) > 1:
        raise Mismatch(NetReason.OTHER_NAME, "a request for several hosts")
    check_authority(found[0], host, port)
    _check_target(method, target, host, port)
    framing = _read_framing(fields, is_old=version == b"HTTP/1.0")
    if method.upper() in _WITHOUT_BODY and (framing.length or framing.is_chunked):
        raise _not_http(f"a body with {method.decode('ascii')}")
    return framing


def without_offer(head: bytes) -> bytes:
    """The same head, in which nothing is said of another protocol; all other fields are as they came."""
    first, *lines = head.split(b"\r\n")
    kept = [first]
    for line in lines:
        name, _, value = line.partition(b":")
        if name.lower() == b"connection":
            words = [word for word in value.split(b",") if word.strip(_BLANK).lower() not in _OFFER]
            line = name + b":" + b",".join(words) if words else b""  # noqa: PLW2901
        if line and name.lower() not in _OFFER:
            kept.append(line)
    return b"\r\n".join(kept)


def read_fields(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Names in lower case, and values without the blanks around them. Raises Mismatch."""
    fields = []
    for line in lines:
        name, colon, value = line.partition(b":")
        # Also refuses a line that begins with a blank, which would continue the one before.
        if not colon or not name or name.translate(None, _TOKEN) or value.translate(None, _VALUE):
            raise _not_http("a field that is not one")
        lowered = name.lower()
        # Gateways of the CGI kind take an underscore for a dash.
        if b"_" in lowered and lowered.replace(b"_", b"-") in _DECISIVE:
            raise _not_http("a field that some servers read as another")
        fields.append((lowered, value.strip(_BLANK)))
    return fields


def check_trailer(lines: list[bytes]) -> None:
    """The fields after a chunked body. Raises Mismatch. Some servers add them to those of the head."""
    if any(name in _DECISIVE for name, _ in read_fields(lines)):
        raise _not_http("a field after the body that belongs before it")


def check_authority(authority: bytes, host: str, port: int) -> None:
    """Whether `name`, `name:port` or `[address]:port` is the permitted host. Raises Mismatch."""
    text = authority.decode("latin-1")
    name, bracket, rest = text.rpartition("]")
    if bracket:
        is_bracketed = name.startswith("[") and ":" in name
        name = name[1:]
    else:
        is_bracketed = True  # none are needed
        name, colon, rest = text.partition(":")
        rest = colon + rest
    try:
        is_same = is_bracketed and parse_one_host(name) == host and rest in {"", f":{port}"}
    except ValueError:
        is_same = False
    if not is_same:
        raise Mismatch(NetReason.OTHER_NAME, f"a request for {text[:200]!r}")


def _read_first_line(line: bytes) -> tuple[bytes, bytes, bytes]:
    check_beginning(line)
    words = line.split(b" ")
    if len(words) != 3 or words[2] not in _VERSIONS or not words[1] or words[1].translate(None, _VISIBLE):
        raise _not_http("its first line is not HTTP/1")
    method, target, version = words
    return method, target, version


def _check_target(method: bytes, target: bytes, host: str, port: int) -> None:
    if method.upper() == b"CONNECT":  # it would be a proxy's business, and the way to every other host
        raise _not_http("CONNECT")
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return
    if target[: len(_SCHEME)].lower() != _SCHEME:
        raise _not_http("a target that is not a path")
    # Without a slash, parsers differ in what else ends an authority: `http://allowed.com?@evil.test`.
    authority = target[len(_SCHEME) :].partition(b"/")[0]
    check_authority(authority, host, port)


def _read_framing(fields: list[tuple[bytes, bytes]], *, is_old: bool) -> Framing:
    lengths = [value for name, value in fields if name == _LENGTH]
    codings = [value for name, value in fields if name == _CODING]
    if len(lengths) + len(codings) > 1:
        raise _not_http("a body with two ends")
    if codings and (is_old or codings[0].lower() != b"chunked"):
        raise _not_http("a transfer coding other than chunked")
    if lengths and not _is_length(lengths[0]):
        raise _not_http("a length that is not a number")
    _check_handling(fields)
    is_websocket = [value.lower() for name, value in fields if name == b"upgrade"] == [_WEBSOCKET]
    return Framing(
        length=int(lengths[0]) if lengths else 0,
        is_chunked=bool(codings),
        is_websocket=is_websocket,
        has_offer=not is_websocket and any(name in _OFFER for name, _ in fields),
    )


def _is_length(value: bytes) -> bool:
    is_number = 0 < len(value) <= _MOST_DIGITS and not value.translate(None, _DIGITS)
    return is_number and (value == b"0" or not value.startswith(b"0"))  # 010 is 8 to some


def _check_handling(fields: list[tuple[bytes, bytes]]) -> None:
    """Fields that make a server, or one in front of it, drop other fields or not read the body."""
    for name, value in fields:
        if name == b"expect" and value.lower() != b"100-continue":
            raise _not_http("an expectation that servers differ about")
        if name == b"connection" and not _DECISIVE.isdisjoint(_words(value)):
            raise _not_http("a hop-by-hop field that must be dropped")


def _words(value: bytes) -> list[bytes]:
    return [word.strip(_BLANK).lower() for word in value.split(b",")]


def _not_http(detail: str) -> Mismatch:
    return Mismatch(NetReason.NOT_HTTP, detail)
