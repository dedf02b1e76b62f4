"""Endpoint: where a connection may go, as text: `https:api.example.com`, `tcp:db.internal:5432`, `http:*`.

A host is a name, an address, `*.example.com` for everything beneath a name (not the name itself), or `*`.
"""

from __future__ import annotations

from corral.model.record import Record
from corral.model.rules.quantities import parse_natural

#: The ports that a scheme stands for when none is written; TCP stands for none.
DEFAULT_PORTS = {"http": 80, "https": 443}
#: Names that mean the machine itself, whatever a resolver says.
LOCALHOST = "localhost"
_LOOPBACK = "127.0.0.1"
_OWN_ADDRESSES = frozenset({"0.0.0.0", "::", "::1"})  # noqa: S104 - besides 127.0.0.0/8
_ANY = "*"
_MOST_LABEL, _MOST_NAME, _MOST_PORT = 63, 253, 65535
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_HEX_DIGITS = frozenset("0123456789abcdef")
#: Characters that IDNA of 2003, which Python has, replaces, and that of 2008 does not (RFC 5894, 7.2).
_AMBIGUOUS = frozenset("\u00df\u03c2\u200c\u200d")


class Endpoint(Record):
    """`str()` gives the canonical text, and parsing that gives the same endpoint."""

    scheme: str  # http, https or tcp
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == DEFAULT_PORTS.get(self.scheme) else f":{self.port}"
        return f"{self.scheme}:{host}{port}"

    def covers(self, other: Endpoint) -> bool:
        """Whether every connection to the other one is also a connection to this one."""
        if self.port != other.port or self.scheme not in {other.scheme, "tcp"}:
            return False
        return grant_covers(self.host, other.host)


def parse_endpoint(scheme: str, target: str) -> Endpoint:
    """`https`, `API.example.com.` -> Endpoint. Raises ValueError with a sentence."""
    if host_in_url(target):
        raise ValueError(f"{target!r}: a host name, not a URL, such as {host_in_url(target)}")
    host, port_text = _split(target)
    if not port_text:
        if scheme not in DEFAULT_PORTS:
            raise ValueError(f"{target!r} needs a port, such as {target}:5432")
        return Endpoint(scheme, parse_host(host), DEFAULT_PORTS[scheme])
    return Endpoint(scheme, parse_host(host), parse_port(port_text))


def parse_port(text: str) -> int:
    """A number between 1 and 65535. Raises ValueError."""
    port = parse_natural(text, _MOST_PORT)
    if not port:
        raise ValueError(f"{text[:40]!r} is not a port between 1 and {_MOST_PORT}")
    return port


def read_endpoint(text: str) -> Endpoint:
    """The endpoint of a canonical text, as a policy keeps it."""
    scheme, _, target = text.partition(":")
    return parse_endpoint(scheme, target)


def has_port(text: str) -> bool:
    """Whether a host was written with a port: `name:80`, `[::1]:80`."""
    return text.rpartition(":")[2].isdigit() and (not text.startswith("[") or "]:" in text)


def host_in_url(text: str) -> str:
    """The host, and the port if there is one, of what is a URL and no host; empty for everything else.

    A URL may lack its scheme (`files.example.org/x`); a number behind the slash is that of a network.
    """
    scheme, mark, rest = text.partition("://")
    if not mark:
        _, slash, path = text.partition("/")
        if not slash or path.isdigit():
            return ""
        scheme, rest = "", text
    authority = min((rest.partition(end)[0] for end in "/?#"), key=len)
    host = authority.rpartition("@")[2]
    default = DEFAULT_PORTS.get(scheme.lower())
    return host.removesuffix(f":{default}") if default else host


def host_covers(pattern: str, host: str) -> bool:
    """Whether a host pattern stands for everything that another one stands for."""
    if pattern in {host, _ANY}:
        return True
    return pattern.startswith("*.") and host.removeprefix("*").endswith(pattern[1:]) and host != pattern


def grant_covers(pattern: str, host: str, *, has_denied: bool = False) -> bool:
    """Whether a host pattern that is granted stands for everything that another one does.

    INVARIANT: `*` is every host of the Internet: not the machine itself, nor what is not public. And where
    some names are denied (`has_denied`), no address: it may be that of one of those.
    """
    if pattern != _ANY or host == _ANY:
        return host_covers(pattern, host)
    if not is_address(host):
        return not is_localhost(host.removeprefix("*."))
    from corral.model.network.addresses import is_public_address  # few ask for an address

    return not has_denied and is_public_address(host)


def denial_covers(pattern: str, host: str) -> bool:
    """Whether a denied pattern stands for a host.

    INVARIANT: this machine is denied by its name and by its address alike. A client that asks for `localhost`
    looks the name up for itself and comes with the address, or comes with the name, as it likes.
    """
    if host_covers(pattern, host):
        return True
    if pattern == LOCALHOST:
        return host in _OWN_ADDRESSES or (host.startswith("127.") and is_address(host))
    return pattern == _LOOPBACK and is_localhost(host)


def is_localhost(host: str) -> bool:
    """Whether a name means the machine itself (RFC 6761)."""
    return host == LOCALHOST or host.endswith(f".{LOCALHOST}")


def is_address(host: str) -> bool:
    """Whether a canonical host is an address and no name."""
    return ":" in host or is_number(host.rpartition(".")[2])


def parse_host(text: str) -> str:
    """The canonical form of a host pattern. Raises ValueError with a sentence."""
    if text == _ANY:
        return text
    name = text.lower().removesuffix(".")
    if ":" in name:
        return _address(name, text)
    beneath = name.removeprefix("*.")
    if not beneath.isascii():
        beneath = _to_ascii(beneath, text)
    labels = beneath.split(".")
    if len(beneath) > _MOST_NAME or not all(_is_label(label) for label in labels):
        raise ValueError(f"{text!r} is not the name of a host")
    is_pattern = name.startswith("*.")
    if is_number(labels[-1]):  # resolvers read 127.1, 0x7f.1 and 2130706433 as addresses
        if is_pattern:
            raise ValueError(f"{text!r}: there is nothing below an address")
        return _address(beneath, text)
    return f"*.{beneath}" if is_pattern else beneath


def parse_one_host(text: str) -> str:
    """The canonical form of a host that a client asks for. Raises ValueError with a sentence.

    INVARIANT: it is no pattern, and what it was written in was ASCII. A client that could ask for `*` or for
    `*.example.com` would be asking for every rule; and other letters each program folds in its own way.
    """
    if "*" in text or not text.isascii():
        raise ValueError(f"{text!r} is not the name of one host")
    return parse_host(text)


def is_number(label: str) -> bool:
    """Whether resolvers read a name that ends in this label as an address: 1, 0x7f."""
    return label.isdigit() or (label.startswith("0x") and _HEX_DIGITS.issuperset(label[2:]))


def _split(target: str) -> tuple[str, str]:
    if target.startswith("["):
        host, bracket, rest = target[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")) or ":" not in host:
            raise ValueError(f"{target!r} is not an address in brackets")
        if rest == ":":
            raise ValueError(f"{target!r} ends before its port")
        return host, rest[1:]
    host, colon, port = target.partition(":")
    if ":" in port:
        raise ValueError(f"{target!r}: an IPv6 address is written in brackets, such as [::1]:443")
    if colon and not port:
        raise ValueError(f"{target!r} ends before its port")
    return host, port


def _is_label(label: str) -> bool:
    plain = 0 < len(label) <= _MOST_LABEL and _NAME_CHARACTERS.issuperset(label)
    return plain and label[0] != "-" and label[-1] != "-"


def _address(name: str, text: str) -> str:
    import ipaddress  # few policies name an address

    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        raise ValueError(f"{text!r} is not an address in its usual form") from None
    if "%" in name:
        raise ValueError(f"{text!r}: what a zone means is for each host to say; leave it out")
    # One host has one form: a denied address must not be reachable in its other spelling.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _to_ascii(name: str, text: str) -> str:
    ambiguous = sorted(_AMBIGUOUS.intersection(name))
    if ambiguous:
        raise ValueError(f"{text!r}: programs disagree about {ambiguous[0]!r}; write the name with xn--")
    try:
        if len(name) > _MOST_NAME:
            raise UnicodeError("it only becomes longer")
        return name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise ValueError(f"{text[:_MOST_NAME]!r} is not the name of a host") from None
