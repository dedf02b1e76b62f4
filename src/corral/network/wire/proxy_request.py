"""What a client asks of the proxy, and how it is told why it gets nothing. Pure."""

from __future__ import annotations

from typing import Protocol

from corral.model.network.connection import capability_for
from corral.model.network.endpoint import is_address, parse_one_host
from corral.model.network.traffic import NetReason
from corral.model.record import Record
from corral.model.rules.quantities import parse_natural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.network.wire.http_proxy import Forwarder

#: Who the client says it is; the token is its password.
USER = "corral"
_MOST_PORT = 65535
_MOST_TEXT = 300  # of what a client has written, in words about it
#: Where another policy would change nothing.
_NO_MATTER_OF_POLICY = frozenset(
    {
        NetReason.UNRESOLVED,
        NetReason.UNREACHABLE,
        NetReason.TOO_MANY,
        NetReason.TOO_MUCH,
        NetReason.TOO_LATE,
        NetReason.MALFORMED,
        NetReason.NO_TOKEN,
    }
)


class ProxyRequest(Record):
    """Where a client wants to go; the host is canonical."""

    host: str
    port: int


class BadRequest(Exception):
    """What the client said cannot be served: the connection ends."""

    def __init__(self, reason: NetReason, detail: str, host: str = "", port: int = 0) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.host, self.port = reason, detail, host, port


class Handshake(Protocol):
    """One way to ask the proxy, as far as it goes before anything is relayed. No I/O."""

    request: ProxyRequest | None  # known from some moment on; then nothing more is fed
    rest: bytes  # what came after it, as it goes to the host
    forwarder: Forwarder | None  # rewrites what the client says later, where that must be
    is_known: bool  # the client has shown the token

    def feed(self, data: bytes) -> bytes:
        """Take what came, and return what to answer now. Raises Unfit."""

    def granted(self) -> bytes:
        """The answer to a request that was granted; what follows is relayed."""

    def refused(self, problem: BadRequest) -> bytes:
        """The last words."""


def read_host(text: str) -> str:
    """A host that a client has named, in canonical form. Raises ValueError."""
    host = parse_one_host(text)
    if ":" not in host:
        return host
    from corral.model.network.addresses import canonical_address  # few name an address of IPv6

    return canonical_address(host)


def read_authority(text: str, default_port: int = 0) -> ProxyRequest:
    """`name:443`, `[::1]:443`; without a port only where there is a default one. Raises ValueError."""
    host, colon, port_text = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        host, port_text = text, str(default_port)
    if host.startswith("[") and host.endswith("]") and ":" in host:
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text[:_MOST_TEXT]!r}: an IPv6 address is written in brackets")
    port = parse_natural(port_text, _MOST_PORT)
    if not port:
        raise ValueError(f"{text[:_MOST_TEXT]!r} does not end in a port")
    return ProxyRequest(read_host(host), port)


def explain(problem: BadRequest) -> str:
    """One line for whoever reads what the proxy says: what was refused, why, and what would permit it."""
    subject = f"{problem.host}:{problem.port}" if problem.host and problem.port else problem.host
    about = f"{subject}: " if subject else ""
    detail = f" ({problem.detail})" if problem.detail else ""
    hint = ""
    if problem.host and problem.port and problem.reason not in _NO_MATTER_OF_POLICY:
        hint = f"{_warning(problem.host)}; to permit it: {capability_for(problem.host, problem.port)}"
    line = f"corral: {about}{problem.reason.value}{detail}{hint}"
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def _warning(host: str) -> str:
    from corral.model.network.addresses import what_is_private  # few ask for an address

    private = what_is_private(host) if is_address(host) else ""
    return f"; beware: {host} is {private}" if private else ""


def is_same_secret(given: bytes, expected: bytes) -> bool:
    """Compare in a time that does not tell how much of it was right."""
    from hmac import compare_digest  # only connections to the proxy come here

    return compare_digest(given, expected)
