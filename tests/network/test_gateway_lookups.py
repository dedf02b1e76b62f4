"""Lookups: what is answered, what is asked of the host, and what hostile packets and resolvers can do."""

from __future__ import annotations

import os
import socket
import struct
import threading

import pytest

from corral.network import lookups, names
from corral.network.names import MOST_NAMES, Names
from support.network_stage import (
    AAAA,
    FORMAT_ERROR,
    LOOPBACK,
    NAME,
    NO_ERROR,
    NO_SUCH_NAME,
    RANGE,
    SECONDS,
    SERVER_FAILURE,
    Stage,
    dns_on,
    is_reset,
    is_served,
    query,
    read_answer,
)


def test_a_port_that_a_name_has_no_server_for_is_no_reason_to_ask_again(stage: Stage) -> None:
    """Else whoever owns the name could have it looked up between a lookup and its connection."""
    stage.serve(port=stage.port)
    stage.open(
        *(f"tcp:{host}:{port}" for host in (NAME, LOOPBACK) for port in (stage.port, stage.other_port)),
        ports=(stage.port, stage.other_port),
    )

    assert is_served(stage.connect())
    assert len(stage.resolved) == 2  # once for each port
    assert is_reset(stage.connect(port=stage.other_port))
    assert is_served(stage.connect())
    assert len(stage.resolved) == 2


def test_a_name_that_leads_elsewhere_after_its_lookup_is_not_followed(stage: Stage, monkeypatch) -> None:
    """Rebinding: the second answer of the name's owner comes too late for the first lookup's connections."""
    first, second = stage.serve(), stage.serve(name="second.test")
    stage.open()
    address = stage.address()
    stage.targets[NAME, 0] = [(LOOPBACK, second.port)]

    for _ in range(3):
        client = stage.connect_to(address)
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    assert (len(first.connections), len(second.connections)) == (3, 0)
    assert stage.address() == address and stage.resolved == [NAME]
    monkeypatch.setattr(names, "FRESH_SECONDS", 0.0)
    assert stage.address() == address and stage.resolved == [NAME, NAME]
    assert is_served(stage.connect())
    assert (len(first.connections), len(second.connections)) == (3, 1)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.1.1", "::1", "fd00:ec2::254", "0.0.0.0"),
        *("64:ff9b::7f00:1", "::ffff:127.0.0.1", "100.64.0.1", "224.0.0.1", "198.18.0.1", "fe80::1%lo"),
        "nonsense",
    ],
)
def test_a_name_that_leads_into_a_network_of_the_host_is_refused(stage: Stage, address: str) -> None:
    stage.targets[NAME, 0] = [(address, 80)]
    stage.open(f"tcp:{NAME}:{{}}")

    assert stage.look_up(NAME) == (NO_SUCH_NAME, [])
    stage.wait(lambda: stage.events)
    wanted = "unresolved" if address == "nonsense" else "not-public"
    assert stage.reasons("lookup") == [wanted]
    assert bool(stage.network.violations()) is (wanted == "not-public")


def test_of_several_addresses_only_the_permitted_ones_are_dialled(stage: Stage) -> None:
    trap, server = stage.serve(name="trap.test"), stage.serve()
    stage.targets[NAME, 0] = [("127.0.0.2", trap.port), (LOOPBACK, server.port)]
    stage.open()

    assert is_served(stage.connect())
    assert (len(trap.connections), len(server.connections)) == (0, 1)


def test_a_permitted_name_that_does_not_exist_says_so_and_is_asked_for_once(stage: Stage) -> None:
    stage.open()

    assert stage.look_up(NAME) == (NO_SUCH_NAME, [])
    assert stage.look_up(NAME, AAAA) == (NO_SUCH_NAME, [])
    assert stage.resolved == [NAME]
    stage.wait(lambda: stage.events)
    assert stage.reasons("lookup") == ["unresolved"]


@pytest.mark.parametrize(
    "problem", [socket.gaierror(socket.EAI_AGAIN, "again"), ValueError("a bug"), SystemError("worse")]
)
def test_a_resolver_that_fails_or_raises_anything_harms_nobody(stage: Stage, problem: Exception) -> None:
    stage.targets["bad.test", 0] = problem
    stage.serve()
    stage.open(f"tcp:{NAME}:{{}}", f"tcp:{LOOPBACK}:{{}}", "tcp:bad.test:{}")

    assert stage.look_up("bad.test") == (SERVER_FAILURE, [])
    assert is_served(stage.connect())


def test_a_resolver_that_hangs_delays_nobody_else_and_is_given_up(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(lookups, "_LOOKUP_SECONDS", 600.0)
    release = threading.Event()
    stage.serve()

    def resolve(name: str, port: int) -> list[tuple[str, int]]:
        if name != NAME:
            release.wait()
        return stage.resolve(name, port)

    network = stage.open(f"tcp:{NAME}:{{}}", f"tcp:{LOOPBACK}:{{}}", "tcp:*.hang.test:{}", resolve=resolve)
    stage._stack.callback(release.set)
    assert is_served(stage.connect())
    answers: list[tuple[int, list[str]]] = []
    askers = [
        threading.Thread(target=lambda n=number: answers.append(stage.look_up(f"n{n}.hang.test")))
        for number in range(12)
    ]
    for asker in askers:
        asker.start()
    stage.wait(lambda: len(network.lookups._pending) == 12)
    assert is_served(stage.connect())  # known already: no resolver is needed
    assert answers == []
    stage.pass_time(600.0)
    for asker in askers:
        asker.join()

    assert answers == [(SERVER_FAILURE, [])] * 12
    hung = [thread for thread in threading.enumerate() if thread.name == "corral-lookup"]
    assert len(hung) <= 4
    other = Stage(stage._stack)
    other.serve()
    other.open()
    assert is_served(other.connect())  # another network has threads of its own share
    other.network.close()
    network.close()  # nobody waits for what hangs
    assert network.gateway.connections == 0


def test_more_lookups_than_can_wait_fail_and_are_not_kept(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(lookups, "_MOST_LOOKUPS", 4)
    release = threading.Event()

    def resolve(name: str, port: int) -> list[tuple[str, int]]:
        release.wait(SECONDS)
        return [(LOOPBACK, 1)]

    stage.open("tcp:*.test:{}", f"tcp:{LOOPBACK}:{{}}", resolve=resolve)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(SECONDS)
        asker.connect(("127.0.0.1", stage.dns_port))
        for number in range(40):
            asker.send(query(f"n{number}.test"))
        early = [read_answer(asker.recv(4096))[0] for _ in range(36)]
        release.set()
        late = [read_answer(asker.recv(4096))[0] for _ in range(4)]

    assert early == [SERVER_FAILURE] * 36
    assert late == [NO_ERROR] * 4


def test_localhost_is_answered_without_asking_anybody(stage: Stage) -> None:
    stage.open()

    assert stage.look_up("localhost") == (NO_ERROR, ["127.0.0.1"])
    assert stage.look_up("a.localhost", AAAA) == (NO_ERROR, ["::1"])
    assert stage.resolved == []


def test_the_own_loopback_of_the_host_is_reached_only_if_granted(stage: Stage) -> None:
    server = stage.serve(name="localhost")
    stage.open(f"tcp:{NAME}:{{}}")

    assert is_reset(stage.connect_to("127.0.0.1"))
    stage.wait(lambda: stage.events)
    assert [(event.host, event.reason.value) for event in stage.events] == [("localhost", "not-granted")]
    assert stage.network.violations()[0].hint == f"network:tcp:localhost:{stage.port}"
    assert server.connections == []
    stage.network.close()

    stage.open("tcp:localhost:{}")
    client = stage.connect_to("127.0.0.1")
    client.sendall(b"x")
    assert client.recv(1) == b"x"


@pytest.mark.parametrize("name", ["127.0.0.1", "0x7f.1", "2130706433", "1.0.64.127.in-addr.arpa", ""])
def test_what_is_no_name_has_no_address(stage: Stage, name: str) -> None:
    stage.open("tcp:*:{}")

    status, addresses = stage.look_up(name)
    assert status in {NO_SUCH_NAME, FORMAT_ERROR}
    assert (addresses, stage.resolved) == ([], [])


@pytest.mark.parametrize("size", [0, 1, 2, 11, 12, 13, 100, 4097, 65000])
def test_packets_that_are_no_queries_are_answered_or_dropped(stage: Stage, size: int) -> None:
    stage.serve()
    stage.open()
    packet = (b"\x12\x34\x01\x00" + os.urandom(size))[:size]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(SECONDS)
        asker.connect(("127.0.0.1", stage.dns_port))
        for _ in range(50):
            asker.send(packet)
        if size >= 2:
            assert struct.unpack_from("!2H", asker.recv(4096))[1] & 15 == FORMAT_ERROR

    assert is_served(stage.connect())


class Stream:
    """A client that asks by TCP."""

    def __init__(self, stage: Stage) -> None:
        self.socket = stage.connect_to("127.64.200.1", stage.other_port)

    def send(self, packet: bytes) -> None:
        self.socket.sendall(struct.pack("!H", len(packet)) + packet)

    def receive(self) -> bytes:
        (length,) = struct.unpack("!H", self._exactly(2))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.socket.recv(size - len(data)) or pytest.fail("it ended")
        return data


@pytest.fixture
def streams(stage: Stage, monkeypatch) -> Stage:
    dns_on(monkeypatch, stage.other_port)
    stage.serve()
    stage.open(ports=(stage.port, stage.other_port))
    return stage


def test_lookups_by_tcp_are_answered_however_they_are_cut(streams: Stage) -> None:
    stream = Stream(streams)
    packet = query(NAME)
    for byte in struct.pack("!H", len(packet)) + packet:
        stream.socket.sendall(bytes([byte]))
    assert read_answer(stream.receive()) == (NO_ERROR, ["127.64.0.1"])
    for name in (NAME, "other.test", NAME):
        stream.send(query(name))
    stream.socket.shutdown(socket.SHUT_WR)

    assert [read_answer(stream.receive())[0] for _ in range(3)] == [NO_ERROR, NO_SUCH_NAME, NO_ERROR]
    assert stream.socket.recv(1) == b""


def test_a_hundred_kilobytes_by_tcp_end_the_connection_and_no_other(streams: Stage) -> None:
    control = Stream(streams)
    stream = Stream(streams)
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        stream.socket.sendall(b"\xff\xff" + bytes(100_000))
        while stream.socket.recv(4096):
            pass
        raise BrokenPipeError
    control.send(query(NAME))

    assert read_answer(control.receive())[0] == NO_ERROR


def test_a_client_that_asks_by_tcp_and_says_nothing_is_let_go(streams: Stage, monkeypatch) -> None:
    monkeypatch.setattr("corral.network.fronts.listeners._STREAM_SECONDS", 0.2)
    stream = Stream(streams)
    stream.socket.sendall(b"\x00")

    assert stream.socket.recv(1) == b""


def test_a_client_that_asks_by_tcp_and_never_reads_is_not_read_either(streams: Stage, monkeypatch) -> None:
    monkeypatch.setattr("corral.network.fronts.listeners._MOST_QUESTIONS_OF_STREAM", 1 << 30)
    monkeypatch.setattr("corral.network.fronts.listeners._STREAM_SECONDS", 1.0)
    monkeypatch.setattr("corral.network.fronts.dns_answers.answer", lambda *_, **__: bytes(60_000))
    stream = Stream(streams)
    stream.socket.settimeout(0.5)
    packet = query(NAME)
    with pytest.raises((TimeoutError, ConnectionError)):
        for _ in range(1_000_000):
            stream.socket.sendall((struct.pack("!H", len(packet)) + packet) * 100)
    monkeypatch.undo()

    assert is_served(streams.connect())
    streams.wait(lambda: streams.network.gateway.connections <= 1)


def test_names_are_bounded_and_addresses_do_not_go_over_to_others() -> None:
    table = Names(RANGE)
    first = table.give("first.test")
    kept = table.give("kept.test")
    given = {first.address: "first.test", kept.address: "kept.test"}
    for number in range(3 * MOST_NAMES):
        entry = table.give(f"n{number}.test")
        assert given.setdefault(entry.address, entry.name) == entry.name
        assert table.find(kept.address) is kept  # used all the time
    assert len(table) == MOST_NAMES
    assert table.find(first.address) is None
    assert table.give("first.test").address != first.address
    assert table.covers(first.address) and not table.covers("127.0.0.1") and not table.covers("::1")


def test_a_small_range_comes_round_without_giving_an_address_twice() -> None:
    table = Names("198.18.0.0/24", most=16)
    for number in range(1000):
        table.give(f"n{number}.test")
        live = [entry.address for entry in table._by_name.values()]
        assert len(set(live)) == len(live) == len(table._by_address)
    with pytest.raises(ValueError, match="too small"):
        Names("198.18.0.0/28", most=16)


def test_the_address_of_a_name_has_two_spellings() -> None:
    table = Names("198.18.0.0/15")
    entry = table.give("a.test")
    six = table.in_ipv6(entry.address)

    assert six == "2001:2::c612:1"
    assert table.find(six) is table.find("198.18.0.1") is entry
    assert table.covers(six) and table.covers("2001:2::c613:99")
    for other in ("2001:2::c614:1", "2001:2:0:1::c612:1", "2001:2:1::c612:1", "::c612:1"):
        assert table.find(other) is None
        assert not table.covers(other)
