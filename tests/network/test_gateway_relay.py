"""Connections pass: names, bytes, ends and resets, in both directions."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import struct
import threading

import pytest

from corral.model.feature import Feature
from corral.network.gateway import Gateway
from support.network_stage import (
    AAAA,
    LOOPBACK,
    NAME,
    NO_ERROR,
    NO_SUCH_NAME,
    SECONDS,
    Stage,
    is_reset,
    is_served,
    make_stage,
    read_all,
)


def test_a_permitted_name_leads_to_its_server(stage: Stage) -> None:
    stage.serve()
    stage.open()

    client = stage.connect()
    client.sendall(b"hello")

    assert client.recv(100) == b"hello"
    client.shutdown(socket.SHUT_WR)
    assert client.recv(100) == b""
    stage.wait(lambda: stage.of("close"))
    (lookup,), (connect,), (close,) = stage.of("lookup"), stage.of("connect"), stage.of("close")
    assert (lookup.allowed, lookup.host, lookup.reason.value) == (True, NAME, "granted")
    assert (connect.allowed, connect.host, connect.port, connect.address) == (
        True,
        NAME,
        stage.port,
        LOOPBACK,
    )
    assert connect.rule == f"tcp:{NAME}:{stage.port}"
    assert (close.sent, close.received) == (5, 5)


def test_a_name_that_is_not_permitted_does_not_exist_and_nobody_is_asked(stage: Stage) -> None:
    stage.serve()
    stage.serve(name="other.test")
    stage.open()

    assert stage.look_up("other.test") == (NO_SUCH_NAME, [])
    assert stage.resolved == []
    assert stage.look_up(NAME)[0] == NO_ERROR  # the control: this one is asked for
    assert stage.resolved == [NAME]
    stage.wait(lambda: len(stage.events) == 2)
    assert stage.reasons("lookup") == ["not-granted", "granted"]
    (violation,) = stage.network.violations()
    assert (violation.feature, violation.subject) == (Feature.NET_DOMAINS, "other.test")
    assert violation.hint == f"network:tcp:other.test:{stage.port}"


def test_both_kinds_of_addresses_are_one_lookup(stage: Stage) -> None:
    stage.serve()
    stage.open()

    assert stage.look_up(NAME) == (NO_ERROR, ["127.64.0.1"])
    assert stage.look_up(NAME, AAAA) == (NO_ERROR, [])
    assert stage.look_up("no.test") == (NO_SUCH_NAME, [])
    assert stage.look_up("no.test", AAAA) == (NO_SUCH_NAME, [])
    assert stage.resolved == [NAME]
    stage.wait(lambda: len(stage.events) == 2)
    assert stage.network.traffic().refused == 1


def test_the_answer_comes_from_the_address_that_was_asked_in_both_families(stage: Stage) -> None:
    """Also on a socket for both families; `ask` only takes answers from there."""
    stage.serve()
    stage.open(family=socket.AF_INET6)

    for address in ("127.0.0.1", "127.64.200.1", "127.99.1.2", "::1"):
        assert stage.look_up(NAME, at=address) == (NO_ERROR, ["127.64.0.1"])
    client = stage.connect()  # of which the listener sees a mapped address
    client.sendall(b"x")
    assert client.recv(1) == b"x"


def test_a_name_that_has_ipv6_is_given_an_address_of_each_kind(stage: Stage) -> None:
    stage.serve()
    ((_, port),) = stage.targets[NAME, 0]
    stage.targets[NAME, 0] = [("::1", 9), (LOOPBACK, port)]  # nobody is at the first
    stage.open(f"tcp:{NAME}:{{}}", f"tcp:{LOOPBACK}:{{}}", "tcp:[::1]:{}", family=socket.AF_INET6)

    assert stage.look_up(NAME) == (NO_ERROR, ["127.64.0.1"])
    assert stage.look_up(NAME, AAAA) == (NO_ERROR, ["::ffff:127.64.0.1"])
    with socket.socket(socket.AF_INET6) as client:
        client.connect(("::ffff:127.64.0.1", stage.port))
        assert is_served(client)


def test_an_address_that_no_lookup_gave_out_is_refused_by_a_reset(stage: Stage) -> None:
    server = stage.serve()
    stage.open()
    stage.address()

    assert is_reset(stage.connect_to("127.64.0.99"))
    stage.wait(lambda: stage.events[1:])
    assert stage.reasons() == ["address"]
    assert stage.network.violations()[0].subject == f"127.64.0.99:{stage.port}"
    assert server.connections == []


def test_the_same_name_on_another_port_is_refused(stage: Stage) -> None:
    server = stage.serve()
    stage.open(
        f"tcp:{NAME}:{{}}",
        f"tcp:{LOOPBACK}:{{}}",
        f"tcp:x.test:{stage.other_port}",
        ports=(stage.port, stage.other_port),
    )

    assert is_reset(stage.connect(port=stage.other_port))
    (violation,) = stage.network.violations()
    assert (violation.feature, violation.subject) == (Feature.NET_PORTS, f"{NAME}:{stage.other_port}")
    assert server.connections == []


def test_much_data_arrives_as_it_was_in_both_directions_at_once(stage: Stage) -> None:
    size, blocks = 1 << 16, 400
    block = random.Random(1).randbytes(size)
    sums: list[str] = []

    def serve(client: socket.socket) -> None:
        writer = threading.Thread(target=lambda: [client.sendall(block) for _ in range(blocks)])
        writer.start()
        left, digest = size * blocks, hashlib.sha256()
        while left and (data := client.recv(1 << 16)):
            digest.update(data)
            left -= len(data)
        sums.append(digest.hexdigest())
        writer.join()
        client.shutdown(socket.SHUT_WR)

    stage.serve(serve)
    stage.open()
    client = stage.connect()
    writer = threading.Thread(target=lambda: [client.sendall(block) for _ in range(blocks)])
    writer.start()
    received = hashlib.sha256(read_all(client)).hexdigest()
    writer.join()

    expected = hashlib.sha256(block * blocks).hexdigest()
    assert received == expected
    assert sums == [expected]
    client.close()
    stage.wait(lambda: stage.of("close"))
    traffic = stage.network.traffic()
    assert (traffic.sent, traffic.received) == (size * blocks, size * blocks)
    assert (traffic.hosts[0].host, traffic.hosts[0].sent) == (NAME, size * blocks)


def test_without_a_pipe_bytes_are_copied_and_arrive_as_well(stage: Stage, monkeypatch) -> None:
    """Slow readers may hold all pipes: nobody else stands still for that."""
    monkeypatch.setattr("corral.network.relay.Pipes.take", lambda self: None)
    data = os.urandom(3 << 20)
    stage.serve()
    stage.open()
    client = stage.connect()
    writer = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)))
    writer.start()

    assert read_all(client) == data
    writer.join()


def test_a_client_that_has_said_everything_still_gets_its_answer(stage: Stage) -> None:
    def serve(client: socket.socket) -> None:
        said = read_all(client)  # ends only when the half-close is passed on
        client.sendall(said[::-1])
        client.close()

    stage.serve(serve)
    stage.open()
    client = stage.connect()
    client.sendall(b"abc")
    client.shutdown(socket.SHUT_WR)

    assert read_all(client) == b"cba"


def test_a_server_that_has_said_everything_is_still_heard(stage: Stage) -> None:
    heard: list[bytes] = []

    def serve(client: socket.socket) -> None:
        client.sendall(b"goodbye")
        client.shutdown(socket.SHUT_WR)
        heard.append(read_all(client))

    stage.serve(serve)
    stage.open()
    client = stage.connect()

    assert read_all(client) == b"goodbye"
    client.sendall(b"wait")
    client.close()
    stage.wait(lambda: heard)
    assert heard == [b"wait"]


def test_a_reset_by_the_server_reaches_the_client_as_one(stage: Stage) -> None:
    def serve(client: socket.socket) -> None:
        client.recv(1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    stage.serve(serve)
    stage.open()
    client = stage.connect()
    client.sendall(b"x")

    assert is_reset(client)


def test_a_reset_by_the_client_reaches_the_server_as_one(stage: Stage) -> None:
    ends: list[bool] = []
    stage.serve(lambda client: ends.append(is_reset(client)))
    stage.open()
    client = stage.connect()
    client.sendall(b"x")
    stage.wait(lambda: stage.of("connect"))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()

    stage.wait(lambda: ends)
    assert ends == [True]


def test_a_reset_is_noticed_although_nobody_reads_or_writes(stage: Stage) -> None:
    """The server has ended its side, the client resets: only the error says that it is over."""
    server = stage.serve(lambda client: client.shutdown(socket.SHUT_WR))
    stage.open()
    client = stage.connect()
    assert client.recv(1) == b""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()

    stage.wait(lambda: stage.of("close"))
    assert is_reset(server.connections[0])


def test_a_slow_reader_holds_back_its_own_server_and_nobody_else(stage: Stage) -> None:
    sent: list[int] = [0]

    def serve(client: socket.socket) -> None:
        if client.recv(1) != b"f":
            client.sendall(b"quick")
            return
        client.settimeout(0.5)
        try:
            while True:
                sent[0] += client.send(b"x" * 65536)
        except TimeoutError:
            client.settimeout(SECONDS)
            sent.append(sent[0])

    stage.serve(serve)
    stage.open()
    slow = stage.connect()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    slow.sendall(b"f")
    stage.wait(lambda: len(sent) == 2)

    assert sent[1] < 40 << 20  # what the kernel's buffers and one pipe hold, and no more
    quick = stage.connect()
    quick.sendall(b"q")
    assert quick.recv(100) == b"quick"
    assert stage.network.gateway.pipes.made <= 4


def test_a_server_that_nobody_answers_for_ends_the_client_by_a_reset(stage: Stage) -> None:
    stage.targets[NAME, 0] = [(LOOPBACK, 1)]  # nobody listens there
    stage.open()

    assert is_reset(stage.connect())
    stage.wait(lambda: stage.of("connect"))
    assert stage.reasons() == ["unreachable"]
    assert stage.network.violations() == ()


def test_the_next_address_is_tried_when_one_does_not_answer(stage: Stage) -> None:
    server = stage.serve()
    stage.targets[NAME, 0] = [(LOOPBACK, 1), (LOOPBACK, server.port)]
    stage.open()
    client = stage.connect()
    client.sendall(b"x")

    assert client.recv(1) == b"x"


def test_when_close_returns_all_sockets_are_closed_and_all_events_told(stage: Stage) -> None:
    server = stage.serve()
    network = stage.open()
    clients = [stage.connect() for _ in range(20)]
    for client in clients:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    network.close()

    assert len(stage.of("close")) == 20
    assert all(is_reset(client) for client in clients)
    with pytest.raises(ConnectionRefusedError):
        stage.connect_to("127.64.0.1")
    assert len(server.connections) == 20
    network.close()  # again: nothing happens
    assert network.traffic().connections == 20


def test_one_thread_serves_all_networks_and_ends_with_the_last() -> None:
    def threads() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name == "corral-gateway"]

    with make_stage() as outer:
        outer.serve()
        outer.open()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Gateway, "__init__", None)  # a second one could not be made
            inner = outer.network, Stage(outer._stack)
            inner[1].serve()
            inner[1].open()
        assert threads() == ["corral-gateway"]
        for stage in (outer, inner[1]):
            client = stage.connect()
            client.sendall(b"x")
            assert client.recv(1) == b"x"
        inner[1].network.close()
        assert threads() == ["corral-gateway"]

    assert threads() == []


def test_what_is_no_socket_is_not_served_and_nothing_is_left_open(stage: Stage) -> None:
    network = stage.open(listeners=False)
    good, pipe = socket.create_server(("0.0.0.0", stage.port)), os.pipe()
    good.set_inheritable(True)
    number = good.detach()
    with pytest.raises(OSError, match="non-socket"):
        network.attach([number, *pipe])
    for descriptor in (number, *pipe):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_no_program_that_is_started_inherits_a_listener(stage: Stage) -> None:
    network = stage.open(listeners=False)
    listener = socket.create_server(("0.0.0.0", stage.port))
    listener.set_inheritable(True)
    number = listener.detach()
    network.attach([number])

    assert not os.get_inheritable(number)
