"""Clients and servers that do whatever they like, many at once: the gateway goes on, and leaks nothing."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import threading
from collections.abc import Callable

import pytest

from support.network_stage import LOOPBACK, NAME, Stage, echo, query, read_all

_RESET = struct.pack("ii", 1, 0)
_CLIENTS, _EACH = 8, 60
_UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\n"


def _server(luck: random.Random) -> Callable[[socket.socket], None]:
    """One that is different for each connection."""

    def flood(client: socket.socket) -> None:
        for _ in range(luck.randrange(50)):
            client.sendall(os.urandom(luck.randrange(1, 60_000)))

    def reset(client: socket.socket) -> None:
        client.recv(luck.randrange(1, 1000))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        client.close()

    def upgrade(client: socket.socket) -> None:
        client.recv(4096)
        client.sendall(luck.choice((b"HTTP/1.1 101 Go\r\n\r\n", b"HTTP/1.1 100 Go\r\n\r\n", b"\0")))
        echo(client)

    def serve(client: socket.socket) -> None:
        client.settimeout(1)
        try:
            luck.choice((echo, flood, reset, upgrade, read_all, _say_nothing))(client)
        finally:
            client.close()

    return serve


def _say_nothing(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)
    client.recv(1)


def _says(luck: random.Random, port: int) -> bytes:
    host = luck.choice((f"{NAME}:{port}", "other.test", "", f"{NAME}:{port}, x"))
    return luck.choice(
        (
            b"",
            os.urandom(luck.randrange(1, 100_000)),
            b"\x16\x03\x01" + os.urandom(luck.randrange(1, 40_000)),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(505),
            f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() * luck.randrange(1, 50),
            f"POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".encode(),
            f"PUT / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100000\r\n\r\n".encode() + bytes(90_000),
            f"GET / HTTP/1.1\r\nHost: {host}\r\n{_UPGRADE}\r\nxyz".encode(),
        )
    )


def _misbehave(stage: Stage, luck: random.Random, addresses: list[str], ports: list[int]) -> None:
    with socket.socket() as client:
        client.settimeout(luck.choice((0.01, 0.1, 0.3)))
        with contextlib.suppress(OSError):
            port = luck.choice(ports)
            client.connect((luck.choice(addresses), port))
            data = _says(luck, port)
            while data:
                size = luck.choice((1, 100, 10_000, 100_000)) if len(data) < 2000 else 100_000
                client.sendall(data[:size])
                data = data[size:]
            if luck.random() < 0.3:
                client.shutdown(luck.choice((socket.SHUT_WR, socket.SHUT_RD, socket.SHUT_RDWR)))
            for _ in range(luck.randrange(4)):
                client.recv(luck.choice((1, 1000, 100_000)))
        if luck.random() < 0.4:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker, contextlib.suppress(OSError):
        packet = bytearray(query(luck.choice((NAME, "other.test", "a" * 63 + ".test"))))
        for _ in range(luck.randrange(3)):
            packet[luck.randrange(len(packet))] = luck.randrange(256)
        asker.sendto(packet[: luck.randrange(len(packet) + 1)], (LOOPBACK, stage.dns_port))


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 4))]
)
def test_whatever_clients_and_servers_do_the_gateway_goes_on(stage: Stage, seed: int) -> None:
    luck = random.Random(seed)
    tls, http, tcp = stage.port, stage.other_port, stage.extra_port
    stage.serve(_server(luck), port=tls)
    stage.serve(_server(luck), port=http)
    stage.serve(_server(luck), port=tcp)
    stage.serve(echo, "good.test")
    grants = [
        f"{scheme}:{host}:{port}"
        for host in (NAME, LOOPBACK)
        for scheme, port in (("https", tls), ("http", http), ("tcp", tcp))
    ]
    network = stage.open(
        *grants, f"tcp:good.test:{tcp}", ports=(tls, http, tcp), most_connections=100, most_rate=50_000_000
    )
    addresses = [stage.address(), stage.address(), "127.64.9.9"]

    def run(number: int) -> None:
        own = random.Random(seed * 100 + number)
        for _ in range(_EACH):
            _misbehave(stage, own, addresses, [tls, http, tcp])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    stage.wait(lambda: network.gateway.connections == 0)
    assert network.gateway.faults == []
    assert network.faults == 0
    assert network.gateway.pipes.made == len(network.gateway.pipes._free)  # none is held by who has gone
    client = stage.connect("good.test", tcp)
    client.sendall(b"x")
    assert client.recv(1) == b"x"
    network.close()
    traffic = network.traffic()
    assert traffic.connections + traffic.refused >= _CLIENTS * _EACH // 2
    # Every connection that was told of was also told to be over.
    assert len(stage.of("close")) == sum(one.allowed for one in stage.of("connect")) == traffic.connections
