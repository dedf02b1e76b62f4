"""HTTP requests to a proxy: CONNECT, and plain requests that name their host in the target. Pure.

A plain request is sent on as the server knows it: with the path alone for a target, one Host that says what
the target said, and without the fields that are between client and proxy. All requests of a connection are
for one host.
"""

from __future__ import annotations

from enum import Enum

from corral.model.network.traffic import NetReason
from corral.network.wire.proxy_head import CHUNKED, split_head, unreadable
from corral.network.wire.proxy_request import (
    USER,
    BadRequest,
    ProxyRequest,
    explain,
    is_same_secret,
    read_authority,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.network.wire.proxy_head import ProxyHead

_HTTP, _HTTP_PORT = "http://", 80
_MOST_TRIES = 2  # clients first ask without a password, to see whether one is wanted
_MOST_LINE = 4096  # of a chunk's size, and of a trailer
_MOST_CHUNK_DIGITS = 15
#: What a client and its proxy tell each other, and nobody else.
_BETWEEN_THEM = frozenset({"connection", "keep-alive", "te", "upgrade", "http2-settings", "host"})
#: Never removed, whatever `Connection` says: where a body ends depends on them.
_FRAMING = frozenset({"content-length", "transfer-encoding"})
_STATUS = {
    NetReason.NO_TOKEN: "407 Proxy Authentication Required",
    NetReason.MALFORMED: "400 Bad Request",
    NetReason.NOT_HTTP: "400 Bad Request",
    NetReason.UNRESOLVED: "502 Bad Gateway",
    NetReason.UNREACHABLE: "502 Bad Gateway",
    NetReason.TOO_MANY: "503 Service Unavailable",
    NetReason.TOO_LATE: "408 Request Timeout",
}


class _Line(Enum):
    """What a line of a chunked body is."""

    SIZE = "size"
    END = "end"  # of a chunk: nothing is in it
    TRAILER = "trailer"  # or nothing: then the body has ended


class HttpHandshake:
    """One client, until its first request with a password is there."""

    def __init__(self, token: str) -> None:
        self.request: ProxyRequest | None = None
        self.rest = b""
        self.forwarder: Forwarder | None = None
        self.is_known = False
        self._secret = f"{USER}:{token}".encode("ascii")
        self._buffer = b""
        self._answer = b""  # to what was taken off just now
        self._tries = 0

    def feed(self, data: bytes) -> bytes:
        """Take what came, and return what to answer now. Raises Unfit."""
        self._buffer += data
        self._answer = b""
        while self.request is None:
            found = split_head(self._buffer)
            if found is None:
                break
            head, after = found
            if self._shows_token(head):
                self._take(head, after)
            else:
                self._answer += self._ask_again(head)
                self._buffer = after
        return self._answer

    def granted(self) -> bytes:
        """Nothing for a plain request: its answer is that of the server."""
        return b"" if self.forwarder is not None else b"HTTP/1.1 200 Connection established\r\n\r\n"

    def refused(self, problem: BadRequest) -> bytes:
        """An answer with the reason in a line of text."""
        unsent, self._answer = (b"" if self.request else self._answer), b""
        return unsent + _answer(_STATUS.get(problem.reason, "403 Forbidden"), explain(problem), closes=True)

    def _shows_token(self, head: ProxyHead) -> bool:
        given = head.values("proxy-authorization")
        if not given:
            return False
        if len(given) > 1 or not is_same_secret(_password(given[0]), self._secret):
            raise BadRequest(NetReason.NO_TOKEN, "a wrong password for the proxy")
        self.is_known = True
        return True

    def _ask_again(self, head: ProxyHead) -> bytes:
        self._tries += 1
        if self._tries == _MOST_TRIES or head.body != 0:
            raise BadRequest(NetReason.NO_TOKEN, "no password for the proxy")
        return _answer(_STATUS[NetReason.NO_TOKEN], "corral: the proxy requires a password", closes=False)

    def _take(self, head: ProxyHead, after: bytes) -> None:
        request = read_request(head)
        if head.method == "CONNECT":
            self.rest = after
        else:
            self.forwarder = Forwarder(request)
            self.rest = self.forwarder.feed(self._buffer)
        self.request, self._buffer = request, b""


class Forwarder:
    """Rewrites what a client sends on one connection: request after request, bodies as they are."""

    def __init__(self, request: ProxyRequest) -> None:
        self._request = request
        self._buffer = b""
        self._left = 0  # of a body or chunk
        self._is_chunked = False
        self._line = _Line.SIZE  # what comes next of a chunked body

    def most_at_once(self, few: int, many: int) -> int:
        """How much to read: of a long body, of which nothing has to be looked at, as much as can be."""
        return many if self._left >= many else few

    def feed(self, data: bytes) -> bytes:
        """What may go to the server now. Raises Unfit."""
        self._buffer += data
        ready = b""
        while self._buffer:
            if self._left:
                piece, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
                self._left -= len(piece)
            else:
                taken = self._take_line() if self._is_chunked else self._take_head()
                if taken is None:
                    break
                piece = taken
            ready += piece
        return ready

    def _take_head(self) -> bytes | None:
        found = split_head(self._buffer)
        if found is None:
            return None
        head, self._buffer = found
        if head.method == "CONNECT" or read_request(head) != self._request:
            raise BadRequest(NetReason.OTHER_NAME, "a second request of the connection is for another host")
        body = head.body
        self._is_chunked, self._left = body == CHUNKED, max(0, body)
        return _rewritten(head, self._request)

    def _take_line(self) -> bytes | None:
        """What is between the chunks of a body, and after the last."""
        end = self._buffer.find(b"\r\n", 0, _MOST_LINE)
        if end < 0:
            if len(self._buffer) >= _MOST_LINE:
                raise unreadable("a chunk of a body has no size")
            return None
        line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
        if any(letter in line for letter in b"\r\n\0"):
            raise unreadable("a chunk of a body has control characters before it")
        match self._line:
            case _Line.SIZE:
                self._left = _chunk_size(line)
                self._line = _Line.END if self._left else _Line.TRAILER
                return b"%x\r\n" % self._left
            case _Line.END if line:
                raise unreadable("a chunk of a body is longer than it says")
            case _Line.END:
                self._line = _Line.SIZE
            case _Line.TRAILER if not line:
                self._is_chunked, self._line = False, _Line.SIZE
        return line + b"\r\n"


def read_request(head: ProxyHead) -> ProxyRequest:
    """Where a request wants to go. Raises Unfit."""
    try:
        if head.method == "CONNECT":
            return read_authority(head.target)
        if head.target[: len(_HTTP)].lower() != _HTTP:
            raise BadRequest(NetReason.MALFORMED, "a request to the proxy names no http: host")
        request = read_authority(_authority(head.target), _HTTP_PORT)
        hosts = head.values("host")
        if len(hosts) > 1 or (hosts and read_authority(hosts[0], _HTTP_PORT) != request):
            raise BadRequest(
                NetReason.OTHER_NAME, "Host and target of a request differ", request.host, request.port
            )
    except ValueError as problem:
        raise BadRequest(NetReason.MALFORMED, str(problem)) from problem
    return request


def _authority(target: str) -> str:
    rest = target[len(_HTTP) :]
    end = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    return rest[:end]


def _rewritten(head: ProxyHead, request: ProxyRequest) -> bytes:
    path = head.target[len(_HTTP) + len(_authority(head.target)) :].partition("#")[0]
    path = path if path.startswith("/") else f"/{path}"
    listed = head.names_in("connection")
    left_out = (_BETWEEN_THEM | listed) - _FRAMING
    host = f"[{request.host}]" if ":" in request.host else request.host
    fields = [("Host", host if request.port == _HTTP_PORT else f"{host}:{request.port}")]
    fields += (
        (name, value)
        for name, value in head.fields
        if name.lower() not in left_out and not name.lower().startswith("proxy-")
    )
    if "close" in listed | head.names_in("proxy-connection"):
        fields.append(("Connection", "close"))
    lines = (f"{head.method} {path} {head.version}", *(f"{name}: {value}" for name, value in fields), "", "")
    return "\r\n".join(lines).encode("latin-1")


def _chunk_size(line: bytes) -> int:
    """Extensions are left out: nobody needs them, and servers disagree about how they end."""
    digits = line.partition(b";")[0].rstrip(b" \t")
    if not digits or len(digits) > _MOST_CHUNK_DIGITS or not set(digits) <= set(b"0123456789abcdefABCDEF"):
        raise unreadable("the size of a chunk is not a number")
    return int(digits, 16)


def _password(field: str) -> bytes:
    """`Basic ...`, decoded; nothing where it is something else."""
    import binascii

    scheme, _, encoded = field.partition(" ")
    if scheme.lower() != "basic":
        return b""
    try:
        return binascii.a2b_base64(encoded.strip(" "), strict_mode=True)
    except ValueError:
        return b""


def _answer(status: str, text: str, *, closes: bool) -> bytes:
    body = f"{text}\n".encode("utf-8", "replace")
    asks = ['Proxy-Authenticate: Basic realm="corral"'] if status.startswith("407") else []
    lines = (
        f"HTTP/1.1 {status}",
        *asks,
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        *(["Connection: close"] if closes else []),
        "",
        "",
    )
    return "\r\n".join(lines).encode("ascii") + body
