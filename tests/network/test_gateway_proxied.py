"""What a proxy front needs of a sandbox's network: who has said what he wants is served as any other."""

from __future__ import annotations

import socket
import threading

import pytest

from corral.model.network.traffic import NetReason
from support.network_stage import LOOPBACK, NAME, SECONDS, Stage, is_reset, read_all


def _reply(reason: NetReason | None) -> bytes:
    return b"yes;" if reason is None else f"no: {reason.value}".encode()


def _client(stage: Stage, host: str = NAME, head: bytes = b"", port: int | None = None) -> socket.socket:
    """A client of a proxy that has said what it wants."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        client = socket.create_connection(listener.getsockname(), timeout=SECONDS)
        accepted, _ = listener.accept()
    stage._stack.callback(client.close)
    stage.network.relay(accepted, host, port or stage.port, head, _reply)
    return client


def test_a_permitted_host_is_dialled_and_what_was_read_already_passes_first(stage: Stage) -> None:
    stage.serve()
    stage.open(listeners=False)
    client = _client(stage, head=b"one ")
    client.sendall(b"two")
    client.shutdown(socket.SHUT_WR)

    assert read_all(client) == b"yes;one two"


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("other.test", "not-granted"),
        ("denied.test", "denied"),
        ("nowhere.test", "unresolved"),
        ("private.test", "not-public"),
        ("closed.test", "unreachable"),
        ("10.0.0.1", "address"),
        ("localhost", "not-granted"),
        ("127.64.0.1", "address"),
    ],
)
def test_the_client_is_told_why_not_and_hears_all_of_it(stage: Stage, host: str, reason: str) -> None:
    """Also if it has already sent more than anybody will read."""
    names = (NAME, "nowhere.test", "private.test", "closed.test", "denied.test")
    stage.targets["private.test", 0] = [("10.0.0.1", 1)]
    stage.targets["closed.test", 0] = [(LOOPBACK, 1)]
    allow = [f"tcp:{name}:{{}}" for name in names]
    stage.open(*allow, f"tcp:{LOOPBACK}:{{}}", deny=("denied.test",), listeners=False)
    client = _client(stage, host)
    client.sendall(bytes(10_000))

    assert read_all(client) == f"no: {reason}".encode()
    client.close()
    stage.wait(lambda: stage.network.gateway.connections == 0)


def test_what_is_spoken_after_the_yes_is_checked(stage: Stage) -> None:
    received = bytearray()
    stage.serve(lambda client: received.extend(read_all(client)))
    stage.open(f"https:{NAME}:{{}}", f"https:{LOOPBACK}:{{}}", listeners=False)
    client = _client(stage)
    assert client.recv(100) == b"yes;"
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")

    assert is_reset(client)
    assert bytes(received) == b""
    stage.wait(lambda: stage.of("connect"))
    assert stage.reasons() == ["not-tls"]


def test_a_client_that_goes_while_its_host_is_looked_up_leaves_nothing(stage: Stage) -> None:
    release = threading.Event()

    def resolve(name: str, port: int) -> list[tuple[str, int]]:
        release.wait(SECONDS)
        return stage.resolve(name, port)

    server = stage.serve()
    stage.open(listeners=False, resolve=resolve)
    client = _client(stage)
    stage.wait(lambda: stage.network.gateway.connections == 1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    stage.wait(lambda: stage.network.gateway.connections == 0)
    release.set()
    stage.network.close()

    assert server.connections == []


def test_more_clients_than_there_may_be_are_refused(stage: Stage) -> None:
    stage.serve()
    stage.open(listeners=False, most_connections=2)
    first, second = _client(stage), _client(stage)
    assert first.recv(4) == second.recv(4) == b"yes;"

    assert read_all(_client(stage)) == b"no: too-many"


def test_a_border_that_is_closed_takes_no_client(stage: Stage) -> None:
    stage.open(listeners=False)
    stage.network.close()
    client = _client(stage)

    assert client.recv(1) == b"" or pytest.fail("it was served")
