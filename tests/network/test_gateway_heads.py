"""What a connection says first: TLS and HTTP name the host that was looked up, or no byte arrives there."""

from __future__ import annotations

import os
import socket
import ssl
import time

import pytest

from corral.network import connection as connection
from support.network_stage import LOOPBACK, NAME, SECONDS, Server, Stage, is_reset, read_all

HTTPS = (f"https:{NAME}:{{}}", f"https:{LOOPBACK}:{{}}")
HTTP = (f"http:{NAME}:{{}}", f"http:{LOOPBACK}:{{}}")


class Sink:
    """A server that keeps all it gets, and says something right away."""

    def __init__(self, stage: Stage, greeting: bytes = b"") -> None:
        self.received = bytearray()
        self._greeting = greeting
        self.server: Server = stage.serve(self._serve)

    def _serve(self, client: socket.socket) -> None:
        client.sendall(self._greeting)
        while data := client.recv(65536):
            self.received += data


def hello(name: str | None) -> bytes:
    """The first message of a real TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_tls_for_the_name_that_was_looked_up_passes(stage: Stage) -> None:
    sink = Sink(stage)
    stage.open(*HTTPS)
    client = stage.connect()
    client.sendall(hello(NAME))

    stage.wait(lambda: bytes(sink.received) == hello_like(sink.received) and sink.received)
    stage.wait(lambda: stage.of("connect"))
    assert stage.reasons() == ["granted"]
    client.close()
    stage.wait(lambda: stage.of("close"))
    assert stage.of("close")[0].sent == len(sink.received)


def hello_like(data: bytes) -> bytes:
    """The whole record that a hello begins with."""
    return bytes(data[: 5 + int.from_bytes(data[3:5])])


def test_tls_that_comes_byte_by_byte_passes_as_it_was(stage: Stage) -> None:
    sink = Sink(stage)
    stage.open(*HTTPS)
    client = stage.connect()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    message = hello(NAME)
    for byte in message:
        client.sendall(bytes([byte]))

    stage.wait(lambda: bytes(sink.received) == message)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (hello("other.test"), "other-name"),
        (hello(f"{NAME}.other.test"), "other-name"),
        (hello(f"x.{NAME}"), "other-name"),
        (hello(None), "no-name"),
        (b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n", "not-tls"),
        (b"SSH-2.0-x\r\n", "not-tls"),
        (b"\x16\x03\x01\x00\x05\x01\x00\xff\xff\xff", "not-tls"),
        (b"\x00" * 100_000, "not-tls"),
        (b"\xff" + os.urandom(100_000), "not-tls"),
    ],
)
def test_anything_but_tls_for_that_name_ends_without_a_byte(stage: Stage, said: bytes, reason: str) -> None:
    sink = Sink(stage)
    stage.open(*HTTPS)
    client = stage.connect()
    try:
        client.sendall(said)
    except ConnectionError:
        pass  # it was refused before all was said
    else:
        assert is_reset(client)

    stage.wait(lambda: stage.of("connect"))
    assert stage.reasons() == [reason]
    assert [one.subject for one in stage.network.violations()] == [f"{NAME}:{stage.port}"]
    stage.network.close()
    assert bytes(sink.received) == b""


def test_nothing_comes_back_either_before_the_name_was_checked(stage: Stage) -> None:
    Sink(stage, greeting=b"a secret of the server")
    stage.open(*HTTPS)
    client = stage.connect()
    stage.wait(lambda: stage.network.gateway.connections == 1)
    client.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(SECONDS)
    client.sendall(hello(NAME))

    assert client.recv(100) == b"a secret of the server"


@pytest.mark.parametrize("said", [b"", hello(NAME)[:-1], hello(NAME)[:3]])
def test_who_does_not_say_in_time_what_he_wants_is_let_go(stage: Stage, said: bytes, monkeypatch) -> None:
    monkeypatch.setattr(connection, "_HEAD_SECONDS", 0.3)
    sink = Sink(stage)
    stage.open(*HTTPS)
    client = stage.connect()
    client.sendall(said)

    assert is_reset(client)
    stage.wait(lambda: stage.of("connect"))
    assert stage.reasons() == ["too-late"]
    assert bytes(sink.received) == b""


def test_who_said_it_in_time_may_be_silent_afterwards(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(connection, "_HEAD_SECONDS", 0.2)
    sink = Sink(stage)
    stage.open(*HTTPS)
    client = stage.connect()
    client.sendall(hello(NAME))
    stage.wait(lambda: sink.received)
    time.sleep(0.5)  # longer than the limit that must no longer hold
    before = len(sink.received)
    client.sendall(b"more")

    stage.wait(lambda: len(sink.received) == before + 4)


def test_who_ends_before_saying_anything_reaches_nobody(stage: Stage) -> None:
    Sink(stage)
    stage.open(*HTTPS)
    client = stage.connect()
    client.shutdown(socket.SHUT_WR)

    assert is_reset(client)
    stage.wait(lambda: stage.of("connect"))
    assert stage.reasons() == ["malformed"]


def test_tcp_permits_anything(stage: Stage) -> None:
    sink = Sink(stage)
    stage.open()
    client = stage.connect()
    client.sendall(b"SSH-2.0-x\r\n")

    stage.wait(lambda: bytes(sink.received) == b"SSH-2.0-x\r\n")


def test_names_are_not_compared_if_that_was_chosen_but_it_has_to_be_tls(stage: Stage) -> None:
    sink = Sink(stage)
    stage.open(*HTTPS, checks_names=False)
    client = stage.connect()
    client.sendall(hello("other.test"))
    stage.wait(lambda: sink.received)

    other = stage.connect()
    other.sendall(b"SSH-2.0-x\r\n")
    assert is_reset(other)


def test_a_granted_address_needs_no_name_in_tls(stage: Stage) -> None:
    """TLS cannot name an address; a name, there, is another one."""
    server = stage.serve(lambda client: client.sendall(client.recv(4096)[:1]))
    stage.open("https:127.0.0.1:{}")
    # The very port of the address is the listener's here, and the server has another one.
    connected: list[tuple[str, int]] = []
    original = connection.Dial

    def dial(gateway, addresses, *rest):
        connected.extend(addresses)
        return original(gateway, [(LOOPBACK, server.port)], *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "Dial", dial)
        client = stage.connect_to("127.0.0.1")
        client.sendall(hello(None))
        assert client.recv(1) == b"\x16"
        named = stage.connect_to("127.0.0.1")
        named.sendall(hello(NAME))
        assert is_reset(named)
    stage.wait(lambda: stage.reasons()[1:] == ["other-name"])
    assert connected == [("127.0.0.1", stage.port)] * 2


def request(host: str, target: str = "/", body: bytes = b"", extra: str = "") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"POST {target} HTTP/1.1\r\nHost: {host}\r\n{length}{extra}\r\n".encode() + body


def test_every_request_of_a_connection_is_for_the_name(stage: Stage) -> None:
    sink = Sink(stage)
    stage.open(*HTTP)
    client = stage.connect()
    host = f"{NAME}:{stage.port}"
    good = request(host, body=os.urandom(300_000)) + request(host) + request(host, body=b"x" * 70_000)
    client.sendall(good)
    stage.wait(lambda: len(sink.received) == len(good))
    assert bytes(sink.received) == good
    client.sendall(request("other.test"))

    assert is_reset(client)
    stage.wait(lambda: stage.of("close"))
    (close,) = stage.of("close")
    assert (close.allowed, close.reason.value) == (False, "other-name")
    assert bytes(sink.received) == good
    assert len(stage.network.violations()) == 1


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (request("other.test"), "other-name"),
        (b"GET / HTTP/1.1\r\n\r\n", "no-name"),
        (b"GET http://other.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", "other-name"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not-http"),
        (b"CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test\r\n\r\n", None),
        (hello(NAME), "not-http"),
        (b"\x00" * 100_000, "not-http"),
        (b"A" * 100_000, "not-http"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000, "not-http"),
    ],
)
def test_anything_but_http_for_that_name_ends_without_a_byte(
    stage: Stage, said: bytes, reason: str | None
) -> None:
    sink = Sink(stage)
    stage.open(*HTTP)
    client = stage.connect()
    try:
        client.sendall(said)
    except ConnectionError:
        pass
    else:
        assert is_reset(client)

    stage.wait(lambda: stage.of("connect"))
    (event,) = stage.of("connect")
    assert not event.allowed
    assert reason is None or event.reason.value == reason
    assert bytes(sink.received) == b""


def test_a_websocket_passes_once_the_server_has_agreed(stage: Stage) -> None:
    def serve(client: socket.socket) -> None:
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            data += client.recv(1)
        client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nwelcome")
        client.sendall(client.recv(6)[::-1])

    stage.serve(serve)
    stage.open(*HTTP)
    client = stage.connect()
    extra = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    extra += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    head = f"GET /chat HTTP/1.1\r\nHost: {NAME}:{stage.port}\r\n{extra}\r\n".encode()
    client.sendall(head + b"\x00\x01\x02\x03\x04\x05")  # in haste: not passed on before the server agrees

    assert read_all(client).endswith(b"welcome\x05\x04\x03\x02\x01\x00")
    client.close()
    stage.wait(lambda: stage.of("close"))
    assert stage.of("close")[0].sent == len(head) + 6


def _serve_posts(client: socket.socket) -> None:
    """Each with three bytes; to the last, a server's that changes the protocol by itself."""
    data = b""
    while not data.endswith(b"bye"):
        data += client.recv(4096)
        if data.endswith(b"abc"):
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
            data = b""
    client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\nframes")


def test_an_offer_of_http2_does_not_reach_the_server_and_the_connection_goes_on(stage: Stage) -> None:
    """As curl --http2 and Java's client send it, with every request."""
    stage.serve(_serve_posts)
    stage.open(*HTTP)
    client = stage.connect()
    first = f"POST / HTTP/1.1\r\nHost: {NAME}:{stage.port}\r\n".encode()
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    length = b"Content-Length: 3\r\n\r\n"
    plain = first + length + b"abc"
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(plain) + plain
    for _ in range(3):
        client.sendall(first + offer + length + b"abc")
        assert _receive(client, len(answer)) == answer
    client.sendall(first + length + b"bye")

    assert is_reset(client)
    stage.wait(lambda: stage.of("close"))
    assert stage.reasons("close") == ["not-http"]
    assert stage.of("close")[0].received == 3 * len(answer) + 56


def _receive(client: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length and (more := client.recv(length - len(data))):
        data += more
    return data


def test_a_request_that_is_answered_before_it_has_ended_goes_on(stage: Stage) -> None:
    def serve(client: socket.socket) -> None:
        client.recv(10)
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not client.recv(65536).endswith(b"end"):
            pass
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    stage.serve(serve)
    stage.open(*HTTP)
    client = stage.connect()
    length = (1 << 20) + 3
    client.sendall(
        f"PUT / HTTP/1.1\r\nHost: {NAME}:{stage.port}\r\nContent-Length: {length}\r\n\r\n".encode()
    )
    assert client.recv(100).startswith(b"HTTP/1.1 100")
    client.sendall(bytes(1 << 20) + b"end")

    assert client.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("named", ["localhost", "127.0.0.1", "[::1]"])
def test_this_machine_may_be_called_by_all_of_its_names_but_by_no_other(stage: Stage, named: str) -> None:
    received = bytearray()
    stage.serve(lambda client: received.extend(client.recv(4096)), name="localhost")
    stage.open("http:localhost:{}")
    message = f"GET / HTTP/1.1\r\nHost: {named}:{stage.port}\r\n\r\n".encode()
    client = stage.connect_to("127.0.0.1")
    for part in (message[:20], message[20:]):
        client.sendall(part)
    stage.wait(lambda: received)
    assert bytes(received) == message

    other = stage.connect_to("127.0.0.1")
    other.sendall(message.replace(named.encode(), b"other.test"))
    assert is_reset(other)
    assert bytes(received) == message
