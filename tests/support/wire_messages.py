"""Messages as they go over the wire, built field by field, so that each field can be wrong."""

from __future__ import annotations

import ssl
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OPT = b"\x00" + struct.pack("!2HIH", 41, 1232, 0, 0)


def dns_name(name: str) -> bytes:
    labels = [label.encode() for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\x00"


def dns_query(
    name: str | bytes,
    kind: int = 1,
    *,
    identity: int = 0x1234,
    flags: int = 0x0100,
    network: int = 1,
    counts: Sequence[int] = (1, 0, 0, 0),
    rest: bytes = b"",
) -> bytes:
    wire = name if isinstance(name, bytes) else dns_name(name)
    return struct.pack("!6H", identity, flags, *counts) + wire + struct.pack("!2H", kind, network) + rest


def vector(length_size: int, content: bytes) -> bytes:
    return len(content).to_bytes(length_size) + content


def server_name(*names: bytes, kind: int = 0) -> tuple[int, bytes]:
    return 0, vector(2, b"".join(bytes([kind]) + vector(2, name) for name in names))


def client_hello(
    extensions: Iterable[tuple[int, bytes]] | None,
    *,
    version: bytes = b"\x03\x03",
    session: bytes = b"",
    suites: bytes = b"\x13\x01",
    compressions: bytes = b"\x00",
    rest: bytes = b"",
) -> bytes:
    """The handshake message, header included."""
    body = version + bytes(32) + vector(1, session) + vector(2, suites) + vector(1, compressions)
    if extensions is not None:
        body += vector(2, b"".join(struct.pack("!H", kind) + vector(2, data) for kind, data in extensions))
    return b"\x01" + vector(3, body + rest)


def records(message: bytes, size: int = 2**14) -> bytes:
    """A handshake message, cut into records."""
    pieces = [message[start : start + size] for start in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + vector(2, piece) for piece in pieces)


def real_hello(name: str | None) -> bytes:
    """What the TLS library of this machine sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake that needs no server")


def name_seen_by_a_server(data: bytes) -> tuple[bool, str | None]:
    """Whether the TLS library of this machine gets as far as to ask for a name, and which it sees."""
    seen: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _socket, name, _context: seen.append(name)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(data)
    try:
        server.do_handshake()
    except (ssl.SSLError, ValueError):  # no certificate; or an alert
        pass
    return bool(seen), seen[0] if seen else None
