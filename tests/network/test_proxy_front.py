"""The proxy: the same decisions and the same checks as for connections of a sandbox's own network."""

from __future__ import annotations

import base64
import socket
import ssl
import threading

import pytest

from corral.model.network.traffic import NetReason
from support.network_stage import (
    LOOPBACK,
    NAME,
    SECONDS,
    Stage,
    is_reset,
    keep,
    read_all,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.plan import ProxyPlace

OTHER = "other.test"


class Front:
    """A sandbox network with a proxy, and clients of it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.place: ProxyPlace

    def open(self, *allow: str, **options: object) -> None:
        self.stage.open(*allow, listeners=False, **options)  # type: ignore[arg-type]
        self.place = self.stage.network.open_proxy()

    def client(self) -> socket.socket:
        return self.stage.connect_to(LOOPBACK, self.place.port)

    def shown(self, token: str = "") -> bytes:
        given = base64.b64encode(f"corral:{token or self.place.token}".encode())
        return b"Proxy-Authorization: Basic " + given + b"\r\n"

    def connect(self, target: str) -> tuple[socket.socket, bytes]:
        """CONNECT; the client and the first line of the answer."""
        client = self.client()
        client.sendall(f"CONNECT {target} HTTP/1.1\r\n".encode() + self.shown() + b"\r\n")
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = client.recv(1)
            if not piece:
                break
            answer += piece
        return client, answer.partition(b"\r\n")[0]

    def socks(self, name: bytes, port: int) -> tuple[socket.socket, bytes]:
        client = self.client()
        token = self.place.token.encode()
        client.sendall(b"\x05\x01\x02" + b"\x01\x06corral" + bytes((len(token),)) + token)
        client.sendall(b"\x05\x01\x00\x03" + bytes((len(name),)) + name + port.to_bytes(2, "big"))
        answer = b""
        while len(answer) < 14:
            piece = client.recv(14 - len(answer))
            if not piece:
                break
            answer += piece
        return client, answer[4:6]


@pytest.fixture
def front(stage: Stage) -> Front:
    return Front(stage)


def hello_for(name: str) -> bytes:
    """The first words of a TLS client that asks for a name."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


class Web:
    """A server of plain HTTP, with what came to it."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    def __call__(self, client: socket.socket) -> None:
        buffer = b""
        while True:
            while b"\r\n\r\n" not in buffer:
                data = client.recv(65536)
                if not data:
                    client.shutdown(socket.SHUT_WR)
                    return
                buffer += data
            head, _, buffer = buffer.partition(b"\r\n\r\n")
            self.requests.append(head)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def test_connect_and_socks_lead_to_a_permitted_host(front: Front) -> None:
    front.stage.serve()
    front.open()
    port = front.stage.port

    for client, status in (front.connect(f"{NAME}:{port}"), front.socks(NAME.encode(), port)):
        assert status in {b"HTTP/1.1 200 Connection established", b"\x05\x00"}
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b""
    front.stage.wait(lambda: len(front.stage.of("close")) == 2)
    assert front.stage.reasons() == ["granted", "granted"]
    assert front.stage.network.traffic().connections == 2
    assert front.stage.network.traffic().sent == 10


@pytest.mark.parametrize("target", ["evil.test", f"{NAME}.evil.test", f"evil{NAME}", "10.0.0.1"])
def test_another_host_is_refused_with_the_reason_and_nobody_is_asked(front: Front, target: str) -> None:
    server = front.stage.serve(keep)
    front.open()
    port = front.stage.port

    client, status = front.connect(f"{target}:{port}")
    _, code = front.socks(target.encode(), port)

    assert (status, code) == (b"HTTP/1.1 403 Forbidden", b"\x05\x02")
    reason = "not-granted"
    if target[0].isdigit():
        reason = f"address; beware: {target} is an address of a private network"
    body = f"corral: {target}:{port}: {reason}; to permit it: network:tcp:{target}:{port}\n"
    assert read_all(client).endswith(body.encode())
    assert front.stage.resolved == []
    assert server.connections == []
    (violation,) = front.stage.network.violations()
    assert (violation.subject, violation.hint) == (f"{target}:{port}", f"network:tcp:{target}:{port}")


def test_a_permitted_host_is_refused_at_another_port(front: Front) -> None:
    server = front.stage.serve(keep)
    front.open(f"https:{NAME}", f"tcp:{LOOPBACK}:443")

    assert front.connect(f"{NAME}:22")[1] == b"HTTP/1.1 403 Forbidden"
    assert front.socks(NAME.encode(), 22)[1] == b"\x05\x02"
    assert server.connections == []


def test_a_name_with_a_nul_is_no_name(front: Front) -> None:
    server = front.stage.serve(keep)
    front.open()
    port = front.stage.port

    for name in (f"evil.test\0.{NAME}", f"{NAME}\0", f"{NAME}\0.evil.test"):
        _, code = front.socks(name.encode(), port)
        _, status = front.connect(f"{name}:{port}")

        assert (code, status) == (b"\x05\x01", b"HTTP/1.1 400 Bad Request")
    assert (server.connections, front.stage.resolved) == ([], [])


def test_without_the_token_nothingis_served(front: Front) -> None:
    """Also to another user: who it is, nobody asks."""
    server = front.stage.serve(keep)
    front.open()
    target = f"{NAME}:{front.stage.port}"
    wrong = front.shown("0" * 48)

    for said, answer in (
        (f"CONNECT {target} HTTP/1.1\r\n\r\n".encode() * 2, b"HTTP/1.1 407 "),
        (f"CONNECT {target} HTTP/1.1\r\n".encode() + wrong + b"\r\n", b"HTTP/1.1 407 "),
        (f"GET http://{target}/ HTTP/1.1\r\n".encode() + wrong + b"\r\n", b"HTTP/1.1 407 "),
        (b"\x05\x01\x00", b"\x05\xff"),
        (b"\x05\x01\x02\x01\x06corral\x04evil", b"\x05\x02\x01\x01"),
    ):
        client = front.client()
        client.sendall(said)

        assert read_all(client).startswith(answer)
    assert server.connections == []
    assert set(front.stage.reasons()) == {"no-token"}
    assert front.stage.network.violations() == ()  # nobody knows whose attempts these were


@pytest.mark.parametrize("asked", [OTHER, f"{NAME}.evil.test", None])
def test_tls_in_a_tunnel_is_for_the_host_of_the_tunnel(front: Front, asked: str | None) -> None:
    server = front.stage.serve(keep)
    front.open(f"https:{NAME}", f"tcp:{LOOPBACK}:443")
    client, status = front.connect(f"{NAME}:443")
    assert status.startswith(b"HTTP/1.1 200 ")

    client.sendall(hello_for(asked) if asked else b"GET / HTTP/1.1\r\n\r\n")

    assert is_reset(client)
    assert front.stage.reasons() == ["other-name" if asked else "not-tls"]
    for connection in server.connections:
        connection.settimeout(SECONDS)
        assert _rest_of(connection) == b""  # it was dialled, and heard nothing


def test_tls_for_the_host_of_the_tunnel_passes_as_it_is(front: Front) -> None:
    front.stage.serve()
    front.open(f"https:{NAME}", f"tcp:{LOOPBACK}:443")
    client, _ = front.connect(f"{NAME}:443")
    hello = hello_for(NAME)

    client.sendall(hello)

    assert client.recv(len(hello), socket.MSG_WAITALL) == hello


def test_plain_requests_are_sent_on_one_after_the_other(front: Front) -> None:
    web = Web()
    front.stage.serve(web)
    front.open(f"http:{NAME}", f"tcp:{LOOPBACK}:80")
    client = front.client()

    for path in ("/one", "/two"):
        client.sendall(
            f"GET http://{NAME}{path} HTTP/1.1\r\nHost: {NAME}\r\n".encode() + front.shown() + b"\r\n"
        )
        assert client.recv(1000).endswith(b"ok")

    assert web.requests == [f"GET {path} HTTP/1.1\r\nHost: {NAME}".encode() for path in ("/one", "/two")]
    client.close()
    front.stage.wait(lambda: front.stage.of("close"))
    assert front.stage.reasons() == ["granted"]


def test_a_large_body_passes_in_both_directions(front: Front) -> None:
    size = 3_000_000

    def swallow(client: socket.socket) -> None:
        got = b""
        while b"\r\n\r\n" not in got:
            got += client.recv(65536)
        left = size - len(got.partition(b"\r\n\r\n")[2])
        while left:
            left -= len(client.recv(65536))
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"y" * size)
        client.shutdown(socket.SHUT_WR)

    front.stage.serve(swallow)
    front.open(f"http:{NAME}", f"tcp:{LOOPBACK}:80")
    client = front.client()
    head = f"POST http://{NAME}/ HTTP/1.1\r\nContent-Length: {size}\r\n".encode() + front.shown() + b"\r\n"
    sender = threading.Thread(target=lambda: client.sendall(head + b"x" * size))
    sender.start()

    answer = read_all(client)
    sender.join()

    assert answer.endswith(b"y" * 1000)
    assert len(answer.partition(b"\r\n\r\n")[2]) == size


@pytest.mark.parametrize("scheme", ["http:{}", "tcp:{}:80"])
@pytest.mark.parametrize(
    "second",
    [
        f"GET http://{OTHER}/ HTTP/1.1\r\n\r\n",
        f"GET http://{NAME}/ HTTP/1.1\r\nHost: {OTHER}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {OTHER}\r\n\r\n",
        f"CONNECT {OTHER}:443 HTTP/1.1\r\n\r\n",
    ],
)
def test_a_second_request_for_another_host_ends_the_connection(
    front: Front, second: str, scheme: str
) -> None:
    web = Web()
    front.stage.serve(web)
    front.open(scheme.format(NAME), scheme.format(OTHER), f"tcp:{LOOPBACK}:80")
    client = front.client()
    client.sendall(f"GET http://{NAME}/ HTTP/1.1\r\n".encode() + front.shown() + b"\r\n")
    assert client.recv(1000).endswith(b"ok")

    client.sendall(second.encode())

    assert _rest_of(client) == b""
    assert len(web.requests) == 1
    front.stage.wait(lambda: len(front.stage.reasons()) == 2)
    assert front.stage.reasons()[1] in {"other-name", "malformed"}


def test_http_in_a_tunnel_is_for_the_host_of_the_tunnel(front: Front) -> None:
    web = Web()
    front.stage.serve(web)
    front.open(f"http:{NAME}", f"tcp:{LOOPBACK}:80")
    client, _ = front.connect(f"{NAME}:80")
    client.sendall(f"GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
    assert client.recv(1000).endswith(b"ok")

    client.sendall(f"GET / HTTP/1.1\r\nHost: {OTHER}\r\n\r\n".encode())

    assert _rest_of(client) == b""
    assert len(web.requests) == 1


def test_a_host_that_leads_to_nobody_is_told_apart_from_one_that_is_refused(front: Front) -> None:
    front.stage.targets[NAME, 0] = [(LOOPBACK, front.stage.other_port)]
    front.open(f"tcp:{NAME}:{{}}", f"tcp:{LOOPBACK}:{{}}", f"tcp:{OTHER}:{{}}")
    port = front.stage.port

    assert front.connect(f"{NAME}:{port}")[1] == b"HTTP/1.1 502 Bad Gateway"
    assert front.socks(NAME.encode(), port)[1] == b"\x05\x05"
    assert front.connect(f"{OTHER}:{port}")[1] == b"HTTP/1.1 502 Bad Gateway"
    assert front.socks(OTHER.encode(), port)[1] == b"\x05\x04"


def test_a_name_that_leads_into_the_own_network_is_refused(front: Front) -> None:
    server = front.stage.serve(keep)
    front.open(f"tcp:{NAME}:{{}}")

    assert front.connect(f"{NAME}:{front.stage.port}")[1] == b"HTTP/1.1 403 Forbidden"
    assert server.connections == []
    assert front.stage.reasons() == ["not-public"]


def test_a_plain_request_that_is_refused_is_told_why(front: Front) -> None:
    front.open(f"http:{NAME}")
    client = front.client()
    client.sendall(f"GET http://{OTHER}/ HTTP/1.1\r\n".encode() + front.shown() + b"\r\n")

    answer = read_all(client)

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert answer.endswith(f"to permit it: network:http:{OTHER}\n".encode())


def test_whoever_says_nothing_has_to_go_when_others_come(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corral.network.fronts import proxy

    monkeypatch.setattr(proxy, "_MOST_TALKING", 8)
    front.stage.serve()
    front.open()
    silent = [front.client() for _ in range(20)]

    client, status = front.connect(f"{NAME}:{front.stage.port}")

    assert status.startswith(b"HTTP/1.1 200 ")
    client.sendall(b"hello")
    assert client.recv(100) == b"hello"
    assert [read_all(each) for each in silent[:12]] == [b""] * 12


def test_whoever_says_nothing_has_to_go_after_a_time(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    from corral.network.fronts import proxy

    monkeypatch.setattr(proxy, "_TALK_SECONDS", 0.05)
    front.open()
    mute, slow = front.client(), front.client()
    slow.sendall(b"CONN")

    assert (read_all(mute), read_all(slow)) == (b"", b"")
    front.stage.wait(lambda: front.stage.reasons() == ["too-late"])


def test_the_end_of_the_border_is_the_end_of_the_proxy(front: Front) -> None:
    front.stage.serve()
    front.open()
    connected, _ = front.connect(f"{NAME}:{front.stage.port}")
    silent = front.client()

    front.stage.network.close()

    assert _rest_of(connected) == b""
    assert _rest_of(silent) == b""
    with pytest.raises(ConnectionRefusedError):
        front.client()


def test_tokens_are_never_the_same(front: Front) -> None:
    places = set()
    for _ in range(2):
        front.open()  # another network
        places.add(front.place.token)

    assert len(places) == 2
    assert all(len(token) == 48 for token in places)


def test_revoking_a_host_ends_its_tunnels(front: Front) -> None:
    front.stage.serve()
    front.open()
    client, _ = front.connect(f"{NAME}:{front.stage.port}")

    front.stage.network.revoke(NAME)

    assert _rest_of(client) == b""
    assert front.connect(f"{NAME}:{front.stage.port}")[1] == b"HTTP/1.1 403 Forbidden"
    assert NetReason.REVOKED.value in front.stage.reasons("close")


def _rest_of(client: socket.socket) -> bytes:
    """What comes until the end, which may be a reset."""
    try:
        return read_all(client)
    except ConnectionError:
        return b""
