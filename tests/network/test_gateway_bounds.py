"""Bounds: many connections, no descriptors, ceilings; and a sandbox that opens and abandons."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from corral.limits.open_files import start_process
from corral.model.feature import Feature
from corral.network import admission as room
from corral.network import exchange, relay
from support.network_stage import LOOPBACK, NAME, SECONDS, Stage, is_reset, is_served, keep, read_all

RESET = struct.pack("ii", 1, 0)
LONG = 3600.0


def _serve_many() -> tuple[socket.socket, threading.Thread, list[int]]:
    """An echo server in one thread, for thousands of connections."""
    listener = socket.create_server((LOOPBACK, 0), backlog=4096)
    listener.setblocking(False)
    stopped: list[int] = []

    def run() -> None:
        poll = select.epoll()
        poll.register(listener.fileno(), select.EPOLLIN)
        clients: dict[int, socket.socket] = {}
        while not stopped:
            for descriptor, _ in poll.poll(0.05):
                if descriptor == listener.fileno():
                    with contextlib.suppress(BlockingIOError):
                        while True:
                            client, _ = listener.accept()
                            clients[client.fileno()] = client
                            poll.register(client.fileno(), select.EPOLLIN)
                    continue
                client = clients[descriptor]
                try:
                    data = client.recv(65536)
                    client.sendall(data)
                except OSError:
                    data = b""
                if not data:
                    del clients[descriptor]
                    client.close()
        for client in clients.values():
            client.close()
        poll.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return listener, thread, stopped


@pytest.fixture
def crowd(stage: Stage) -> Iterator[Stage]:
    listener, thread, stopped = _serve_many()
    stage.targets[NAME, 0] = [(LOOPBACK, listener.getsockname()[1])]
    yield stage
    stage.network.close()
    stopped.append(1)
    thread.join()
    listener.close()


@pytest.mark.thorough
def test_three_thousand_connections_one_after_the_other(crowd: Stage) -> None:
    network = crowd.open(on_event=None)
    address = crowd.address()
    for _ in range(3000):
        with socket.create_connection((address, crowd.port), timeout=SECONDS) as client:
            assert is_served(client)

    crowd.wait(lambda: network.gateway.connections == 0)
    traffic = network.traffic()
    assert (traffic.connections, traffic.sent, traffic.received) == (3000, 3000, 3000)
    assert network.gateway.pipes.made <= 4


def test_a_thousand_connections_at_once(crowd: Stage) -> None:
    network = crowd.open(on_event=None)
    address = crowd.address()
    clients = [crowd.connect_to(address) for _ in range(1000)]
    for client in clients:
        client.sendall(b"x")

    assert all(client.recv(1) == b"x" for client in clients)
    assert network.gateway.connections == 1000
    assert network.gateway.pipes.made <= 4  # none is held by who has nothing to say


def test_connections_that_are_opened_and_abandoned_leave_nothing(crowd: Stage) -> None:
    network = crowd.open(on_event=None)
    address = crowd.address()
    for number in range(2000):
        client = socket.create_connection((address, crowd.port), timeout=SECONDS)
        if number % 3:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.close()

    crowd.wait(lambda: network.gateway.connections == 0)
    assert is_served(crowd.connect())


def test_beyond_the_bound_connections_wait_and_come_in_when_others_go(crowd: Stage, monkeypatch) -> None:
    monkeypatch.setattr(room, "_PATIENCE_SECONDS", LONG)
    network = crowd.open(most_connections=10)
    address = crowd.address()
    clients = [crowd.connect_to(address) for _ in range(30)]
    for client in clients:
        client.sendall(b"x")
    served = [client for client in clients[:10] if client.recv(1) == b"x"]
    assert len(served) == 10
    assert network.gateway.connections == 10
    assert select.select(clients[10:], [], [], 0.5)[0] == []  # they wait, and are not refused
    for client in served:
        client.close()

    assert all(client.recv(1) == b"x" for client in clients[10:20])
    assert crowd.look_up(NAME)[0] == 0  # lookups are served meanwhile


def test_whoever_waits_for_long_is_refused_and_reported(crowd: Stage, monkeypatch) -> None:
    monkeypatch.setattr(room, "_PATIENCE_SECONDS", LONG)
    network = crowd.open(most_connections=10)
    address = crowd.address()
    clients = [crowd.connect_to(address) for _ in range(30)]
    crowd.wait(lambda: network.gateway.connections == 10)
    crowd.pass_time(LONG)

    assert all(map(is_reset, clients[10:]))
    crowd.wait(lambda: crowd.reasons().count("too-many") == 20)
    (refusal,) = network.traffic().refusals
    assert (refusal.host, refusal.port, refusal.detail) == (NAME, crowd.port, "10 are open")
    late = crowd.connect_to(address)
    assert is_reset(late)  # the patience of this network is at an end
    assert all(is_served(client) for client in clients[:10])
    for client in clients[:10]:
        client.close()
    crowd.wait(lambda: network.gateway.connections == 0)
    assert is_served(crowd.connect_to(address))


@pytest.fixture
def few_files() -> Iterator[int]:
    """The soft limit that most programs are started with."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    yield 1024
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_files_are_opened_where_connections_need_them_and_only_for_so_long(
    few_files: int, crowd: Stage
) -> None:
    network = crowd.open(on_event=None)
    address = crowd.address()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == few_files
    clients = [crowd.connect_to(address) for _ in range(400)]

    assert all(is_served(client) for client in clients)
    assert network.gateway.connections == 400
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert few_files < soft <= hard
    assert _limit_of_child() == few_files  # what a command is started with
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
    for client in clients:
        client.close()
    crowd.wait(lambda: _highest_socket() < few_files)  # the server has closed too
    network.close()  # and with it the pipes that it lends, of which some may be as high
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few_files, hard)


def _highest_socket() -> int:
    """The number of the highest socket that is open in this process."""
    highest = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                highest = max(highest, int(name))
    return highest


def _limit_of_child() -> int:
    """Of one that waits for a word before it looks."""
    output = os.memfd_create("said")
    waiting, word = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, waiting, 0), (os.POSIX_SPAWN_DUP2, output, 1)]
    pid = start_process("/bin/sh", ("sh", "-c", "read word; ulimit -Sn"), {}, file_actions=actions)
    os.write(word, b"go\n")
    os.waitpid(pid, 0)
    said = os.pread(output, 100, 0)
    for descriptor in (output, waiting, word):
        os.close(descriptor)
    return int(said)


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_connection_of_which_one_side_has_ended_is_given_back(stage: Stage, monkeypatch, who: str) -> None:
    monkeypatch.setattr(exchange, "_SECONDS_FOR_ANSWER", LONG)
    monkeypatch.setattr(exchange, "_SECONDS_FOR_CLIENT", LONG)
    server = stage.serve(keep)
    network = stage.open()
    client = stage.connect()
    server.came.acquire()
    ends = {"client": client, "server": server.connections[0]}
    other = next(end for name, end in ends.items() if name != who)
    ends[who].shutdown(socket.SHUT_WR)
    assert other.recv(1) == b""
    stage.settle()
    other.sendall(b"still here")
    assert ends[who].recv(100) == b"still here"
    stage.pass_time(LONG)
    stage.settle()
    assert network.gateway.connections == 1  # it was not silent
    stage.pass_time(LONG)

    stage.wait(lambda: network.gateway.connections == 0)
    (closed,) = stage.of("close")
    assert closed.detail == "one side had ended, and the other was silent"


def test_one_border_does_not_take_the_room_of_all(crowd: Stage, monkeypatch) -> None:
    network = crowd.open()
    monkeypatch.setattr(network.gateway, "most_connections", 40)
    clients = [crowd.connect_to(crowd.address()) for _ in range(60)]
    crowd.wait(lambda: network.gateway.connections >= 30)
    other = Stage(crowd._stack)
    other.targets = crowd.targets
    other.open()

    assert is_served(other.connect())
    assert network.gateway.connections <= 40
    other.network.close()
    del clients


def test_without_descriptors_nothing_spins_and_afterwards_all_goes_on(crowd: Stage) -> None:
    network = crowd.open()
    address = crowd.address()
    assert is_served(crowd.connect_to(address))
    waiting = socket.socket()
    crowd._stack.callback(waiting.close)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    hold = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                hold.append(os.dup(0))
        waiting.settimeout(SECONDS)
        waiting.connect((address, crowd.port))  # the kernel takes it; nobody can accept it
        waiting.sendall(b"x")
        before = time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)
        time.sleep(1.0)
        spent = time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID) - before
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in hold:
            os.close(descriptor)

    assert spent < 0.3
    assert waiting.recv(1) == b"x"
    assert network.faults == 0


@pytest.mark.parametrize("has_pipes", [True, False])
def test_the_ceiling_on_bytes_is_exact_and_ends_everything(
    stage: Stage, monkeypatch, has_pipes: bool
) -> None:
    if not has_pipes:
        monkeypatch.setattr("corral.network.relay.Pipes.take", lambda self: None)
    received = bytearray()

    def serve(client: socket.socket) -> None:
        while data := client.recv(65536):
            received.extend(data)

    stage.serve(serve)
    network = stage.open(most_bytes=100_000)
    idle = stage.connect()
    client = stage.connect()
    client.sendall(bytes(100_000))
    stage.wait(lambda: len(received) == 100_000)
    assert network.traffic().sent == 100_000
    client.sendall(b"x")

    assert is_reset(client) and is_reset(idle)
    stage.wait(lambda: len(stage.of("close")) == 2)
    assert stage.reasons("close") == ["too-much"] * 2
    (violation,) = network.violations()
    assert violation.feature is Feature.LIMIT_TRAFFIC
    assert violation.detail == "all the bytes that may pass had passed: traffic:limit:100KB"
    assert len(received) == 100_000
    with pytest.raises(ConnectionRefusedError):
        stage.connect_to("127.64.0.1")


def test_the_ceiling_counts_both_directions(stage: Stage) -> None:
    def serve(client: socket.socket) -> None:
        client.recv(10)
        client.sendall(bytes(1 << 20))

    stage.serve(serve)
    network = stage.open(most_bytes=50_000)
    client = stage.connect()
    client.sendall(bytes(10))
    received = 0
    with pytest.raises(ConnectionResetError):
        while data := client.recv(65536):
            received += len(data)

    assert received <= 50_000 - 10
    assert network.traffic().received <= 50_000


@pytest.mark.parametrize("streams", [1, 5])
def test_the_ceiling_on_the_rate_holds_for_all_together(stage: Stage, streams: int, monkeypatch) -> None:
    size, rate, burst_seconds = 300_000, 400_000, 0.1
    monkeypatch.setattr("corral.network.meter._BURST_SECONDS", burst_seconds)

    def serve(client: socket.socket) -> None:
        client.sendall(bytes(size // streams))
        client.close()

    stage.serve(serve)
    network = stage.open(most_rate=rate)
    address = stage.address()
    clients = [stage.connect_to(address) for _ in range(streams)]
    took: list[float] = []
    passed: list[int] = []
    began = time.monotonic()

    def read(client: socket.socket) -> None:
        assert len(read_all(client)) == size // streams
        took.append(time.monotonic() - began)
        passed.append(network.traffic().received)

    threads = [threading.Thread(target=read, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(took) == streams
    least = (size - rate * burst_seconds) / rate  # less what may come at once
    assert least * 0.9 <= max(took)
    if streams > 1:  # the first has what may come at once; of the others nobody waits for the rest
        assert sorted(passed)[1] >= size * 0.6


def _flood_or_page(client: socket.socket) -> None:
    if client.recv(1) == b"f":
        client.sendall(bytes(64 << 20))
    else:
        client.sendall(bytes(1 << 20))
        client.close()


def test_pipes_that_slow_readers_hold_are_bounded_and_others_pass(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(relay, "_WORTH_A_COPY", 1 << 40)
    stage.serve(_flood_or_page)
    network = stage.open()
    monkeypatch.setattr(network.gateway.pipes, "most", 4)
    slow = [stage.connect() for _ in range(12)]
    for client in slow:
        client.sendall(b"f")
    stage.wait(lambda: network.gateway.pipes.made == 4)
    quick = stage.connect()
    quick.sendall(b"q")

    assert len(read_all(quick)) == 1 << 20
    assert network.gateway.pipes.made == 4


def test_memory_that_slow_readers_hold_is_bounded_and_others_pass(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(relay, "_MOST_HELD", 1 << 20)
    monkeypatch.setattr(relay, "_WORTH_A_COPY", 1)
    stage.serve(_flood_or_page)
    network = stage.open()
    pipes = network.gateway.pipes
    slow = [stage.connect() for _ in range(12)]
    for client in slow:
        client.sendall(b"f")
    stage.wait(lambda: pipes.held > 1 << 20)
    quick = stage.connect()
    quick.sendall(b"q")

    assert len(read_all(quick)) == 1 << 20
    assert pipes.held <= (1 << 20) + relay._BULK_BYTES
    network.close()
    assert pipes.held == 0


def test_an_error_that_nobody_foresaw_ends_one_connection_and_is_counted(stage: Stage, monkeypatch) -> None:
    stage.serve()
    network = stage.open()
    good, bad = stage.connect(), stage.connect()
    assert is_served(good) and is_served(bad)
    connections = {one for one in network.gateway._watched.values() if hasattr(one, "rests_on_grants")}
    victim = next(one for one in connections if one._client.getpeername() == bad.getsockname())._exchange
    monkeypatch.setattr(type(victim), "grant", _raise_for(victim, type(victim).grant))
    bad.sendall(b"y")

    assert is_reset(bad)
    assert is_served(good)
    assert len(network.gateway.faults) == 1 and "a mistake" in network.gateway.faults[0]
    network.gateway.faults.clear()


def _raise_for(victim: object, original):
    def grant(self: object, wanted: int, flow: object) -> int:
        if self is victim:
            raise RuntimeError("a mistake")
        return original(self, wanted, flow)

    return grant


def test_a_border_that_is_closed_while_much_passes_ends_all_of_it(stage: Stage) -> None:
    def serve(client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client.sendall(bytes(1 << 16))

    stage.serve(serve)
    network = stage.open()
    clients = [stage.connect() for _ in range(10)]
    reading = [threading.Thread(target=is_reset, args=(client,)) for client in clients]
    for thread in reading:
        thread.start()
    stage.wait(lambda: network.traffic().received > 1 << 24)
    network.close()

    assert network.gateway.connections == 0
    for thread in reading:
        thread.join()


def test_a_server_that_never_answers_a_dial_holds_nothing_up(stage: Stage, monkeypatch) -> None:
    """Its queue of connections is full: the kernel drops what comes."""
    monkeypatch.setattr("corral.network.dial._SECONDS_EACH", 0.3)
    full = socket.create_server((LOOPBACK, 0), backlog=0)
    stage._stack.callback(full.close)
    fillers = []
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(full.getsockname())
        fillers.append(filler)
        stage._stack.callback(filler.close)
    stage.serve(name="quick.test")
    stage.targets[NAME, 0] = [full.getsockname()]
    stage.open(f"tcp:{NAME}:{{}}", f"tcp:{LOOPBACK}:{{}}", "tcp:quick.test:{}")
    client = stage.connect()
    assert is_served(stage.connect("quick.test"))

    assert is_reset(client)
    stage.wait(lambda: len(stage.of("connect")) == 2)
    assert stage.of("connect")[1].detail == "no answer in time"
