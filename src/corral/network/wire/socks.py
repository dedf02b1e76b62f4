"""SOCKS5 (RFC 1928) with a password (RFC 1929): what a client says before its connection begins. Pure.

Only CONNECT is there. A name is looked up by corral, never by the client, and is checked like every other:
what is no host name, a NUL in it for instance, is refused before anybody compares it with anything.
"""

from __future__ import annotations

from corral.model.network.traffic import NetReason
from corral.network.wire.proxy_request import USER, BadRequest, ProxyRequest, is_same_secret, read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.network.wire.http_proxy import Forwarder

FIRST_BYTE = VERSION = 5
_PASSWORD_VERSION = 1
_METHOD_PASSWORD, _NO_METHOD = 2, 0xFF
_CONNECT = 1
_ADDRESS_4, _NAME, _ADDRESS_6 = 1, 3, 4
_SIZES = {_ADDRESS_4: 4, _ADDRESS_6: 16}

_SUCCEEDED, _FAILED, _NOT_ALLOWED, _HOST_UNREACHABLE, _REFUSED, _NO_COMMAND, _NO_ADDRESS = 0, 1, 2, 4, 5, 7, 8
_CODES = {
    NetReason.UNRESOLVED: _HOST_UNREACHABLE,
    NetReason.UNREACHABLE: _REFUSED,
    NetReason.MALFORMED: _FAILED,
    NetReason.TOO_MANY: _FAILED,
    NetReason.TOO_LATE: _FAILED,
}
#: The address that the proxy connects from is nobody's business.
_BOUND = bytes((0, _ADDRESS_4, 0, 0, 0, 0, 0, 0))


class SocksHandshake:
    """One client, from its greeting to its request."""

    forwarder: Forwarder | None = None

    def __init__(self, token: str) -> None:
        self.request: ProxyRequest | None = None
        self.rest = b""
        self.is_known = False
        self._token = token
        self._buffer = b""
        self._has_greeted = False
        self._answer = b""  # to what was taken off just now
        self._last_words = b""  # of the step that it is at, should it end here

    def feed(self, data: bytes) -> bytes:
        """Take what came, and return what to answer now. Raises Unfit."""
        self._buffer += data
        self._answer = b""
        # INVARIANT: a step has at most some 500 bytes, and is taken off as soon as it is whole.
        while self.request is None:
            if self._has_greeted:
                reply = self._request() if self.is_known else self._password()
            else:
                reply = self._greeting()
            if reply is None:
                return self._answer
            self._answer += reply
        self.rest, self._buffer = self._buffer, b""
        return self._answer

    def granted(self) -> bytes:
        """The answer to a request that was granted."""
        return bytes((VERSION, _SUCCEEDED)) + _BOUND

    def refused(self, problem: BadRequest) -> bytes:
        """The last words: of the step at which it ended, or why the request is not granted."""
        if self._last_words or not self.is_known:
            return self._answer + self._last_words
        return bytes((VERSION, _CODES.get(problem.reason, _NOT_ALLOWED))) + _BOUND

    def _take(self, size: int) -> bytes:
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _greeting(self) -> bytes | None:
        """Version, number of methods, methods."""
        buffer = self._buffer
        if len(buffer) < 2 or len(buffer) < 2 + buffer[1]:
            return None
        methods = self._take(2 + buffer[1])[2:]
        if _METHOD_PASSWORD not in methods:
            self._last_words = bytes((VERSION, _NO_METHOD))
            raise BadRequest(NetReason.NO_TOKEN, "a SOCKS client without a password")
        self._has_greeted = True
        return bytes((VERSION, _METHOD_PASSWORD))

    def _password(self) -> bytes | None:
        """Version, user, password; both with their length."""
        buffer = self._buffer
        if len(buffer) < 2 or len(buffer) < 3 + buffer[1]:
            return None
        user_end = 2 + buffer[1]
        end = user_end + 1 + buffer[user_end]
        if len(buffer) < end:
            return None
        taken = self._take(end)
        given = taken[2:user_end] + b":" + taken[user_end + 1 :]
        is_right = is_same_secret(given, f"{USER}:{self._token}".encode("ascii"))
        if taken[0] != _PASSWORD_VERSION or not is_right:
            self._last_words = bytes((_PASSWORD_VERSION, _FAILED))
            raise BadRequest(NetReason.NO_TOKEN, "a SOCKS client with a wrong password")
        self.is_known = True
        return bytes((_PASSWORD_VERSION, _SUCCEEDED))

    def _request(self) -> bytes | None:
        """Version, command, nothing, kind of address, address, port."""
        buffer = self._buffer
        if len(buffer) < 5:
            return None
        version, command, reserved, kind = buffer[:4]
        if version != VERSION or reserved:
            raise self._malformed(_FAILED, "not a SOCKS request")
        if command != _CONNECT:
            raise self._malformed(_NO_COMMAND, "SOCKS without CONNECT: neither BIND nor UDP is served")
        if kind == _NAME:
            begin, end = 5, 5 + buffer[4]
        elif kind in _SIZES:
            begin, end = 4, 4 + _SIZES[kind]
        else:
            raise self._malformed(_NO_ADDRESS, f"a SOCKS address of the unknown kind {kind}")
        if len(buffer) < end + 2:
            return None
        taken = self._take(end + 2)
        self.request = self._read_request(kind, taken[begin:end], int.from_bytes(taken[end:], "big"))
        return b""

    def _read_request(self, kind: int, address: bytes, port: int) -> ProxyRequest:
        try:
            host = read_host(address.decode("ascii")) if kind == _NAME else _written(address)
        except ValueError as problem:  # no ASCII is one as well
            raise self._malformed(_FAILED, f"a SOCKS request for no host: {problem}") from problem
        if not port:
            raise self._malformed(_FAILED, "a SOCKS request for port 0")
        return ProxyRequest(host, port)

    def _malformed(self, code: int, detail: str) -> BadRequest:
        self._last_words = bytes((VERSION, code)) + _BOUND
        return BadRequest(NetReason.MALFORMED, detail)


def _written(address: bytes) -> str:
    import ipaddress

    from corral.model.network.addresses import canonical_address

    return canonical_address(str(ipaddress.ip_address(address)))
