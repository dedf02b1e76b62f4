"""Published ports: a server inside is reached at a port of loopback outside, and nothing else changes."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from corral.model.errors import SetupError
from support.confinement import PYTHON
from support.keeping import wait_until
from support.net_runs import TRANSPARENT
from support.network_stage import is_reset, is_served

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.result import Result
    from support.net_runs import Place
    from support.network_stage import Stage

#: Answers whoever comes until somebody says that it is enough.
SERVER = """
import socket, sys
server = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
server.bind((sys.argv[1], 3000)); server.listen(64); open('ready', 'w').close()
while True:
    visitor, _ = server.accept()
    said = visitor.recv(100)
    visitor.sendall(b'got ' + said); visitor.close()
    if said == b'enough': break
"""
SECONDS = 60.0
#: More than there are sockets for: each is used again.
VISITS = 40
#: Longer than anybody waits for anything here.
LONG_SECONDS = 100.0


@pytest.fixture
def port() -> Iterator[int]:
    """Of loopback, kept from others: whoever may use an address again can still listen there."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


def visit(port: int, words: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), SECONDS) as visitor:
        visitor.sendall(words)
        return b"".join(iter(lambda: visitor.recv(100), b""))


@contextmanager
def serving(
    place: Place, port: int, address: str = "127.0.0.1", *, grants: tuple[str, ...] = ()
) -> Iterator[None]:
    """A server inside, for as long as it is visited."""
    python = PYTHON if place.backend in {"native", "bubblewrap"} else "python3"
    sandbox = place.sandbox(f"network:publish:{port}:3000", grants=grants)
    results: list[Result] = []
    command = [python, "-I", "-S", "-c", SERVER, address]
    thread = threading.Thread(target=lambda: results.append(sandbox.run(command)))
    thread.start()
    try:
        wait_until(lambda: (place.work / "ready").exists() or not thread.is_alive(), "the server listens")
        yield
        visit(port, b"enough")
    finally:
        thread.join(SECONDS)
    assert results[0].ok, results[0].stderr


@pytest.mark.parametrize("place", TRANSPARENT, indirect=True)
def test_a_server_inside_is_reached_by_one_after_the_other(place: Place, port: int) -> None:
    with serving(place, port):
        answers = [visit(port, b"%d" % number) for number in range(VISITS)]

    assert answers == [b"got %d" % number for number in range(VISITS)]


@pytest.mark.parametrize("place", ["native"], indirect=True)
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_server_inside_is_reached_by_many_at_once(place: Place, port: int, address: str) -> None:
    """Some know only IPv6; and what else the policy permits makes no difference."""
    with (
        serving(place, port, address, grants=("network:https:api.example.test",)),
        ThreadPoolExecutor(VISITS) as visitors,
    ):
        answers = list(visitors.map(lambda number: visit(port, b"%d" % number), range(VISITS)))

    assert answers == [b"got %d" % number for number in range(VISITS)]


@pytest.mark.parametrize("place", ["native"], indirect=True)
def test_it_listens_on_loopback_alone_and_only_meanwhile(place: Place, port: int) -> None:
    def listening() -> list[str]:
        lines = [line.split() for line in open("/proc/self/net/tcp").read().splitlines()[1:]]
        return [place for _, place, _, state, *_ in lines if place.endswith(f":{port:04X}") and state == "0A"]

    with serving(place, port):
        assert listening() == [f"0100007F:{port:04X}"]

    assert listening() == []


@pytest.mark.parametrize("place", ["native"], indirect=True)
def test_a_port_that_is_taken_keeps_the_command_from_running(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        sandbox = place.sandbox(f"network:publish:{taken.getsockname()[1]}:3000", grants=())

        with pytest.raises(SetupError) as refused:
            sandbox.run("touch ran")

    assert refused.value.code == "publish"
    assert not (place.work / "ran").exists()


def publish(stage: Stage, port: int, inside: int) -> None:
    """No line is there until one is given."""
    stage.network.publish([(port, inside)])


def give_line(stage: Stage) -> None:
    stage.network.attach([socket.socket().detach()])


def visitor(stage: Stage, port: int) -> socket.socket:
    return stage.connect_to("127.0.0.1", port)


def waiting(stage: Stage) -> int:
    published = stage.network._published
    return len(published._waiting) if published is not None else 0


def test_who_waits_to_visit_takes_no_room_from_the_command(stage: Stage, port: int) -> None:
    stage.open(most_connections=2)
    server = stage.serve()
    publish(stage, port, server.port)
    visitors = [visitor(stage, port) for _ in range(8)]
    stage.wait(lambda: waiting(stage) == len(visitors))

    assert is_served(stage.connect())

    give_line(stage)
    for one in visitors:  # one after the other, by the one line
        assert is_served(one)
        one.close()


def test_a_visitor_without_room_is_no_connection_of_the_command(stage: Stage, port: int) -> None:
    network = stage.open(most_connections=1)
    server = stage.serve()
    publish(stage, port, server.port)
    assert is_served(stage.connect())

    one = visitor(stage, port)
    stage.wait(lambda: network.room._patience is not None)
    stage.pass_time(LONG_SECONDS)

    assert is_reset(one) or one.recv(1) == b""
    assert stage.reasons() == ["granted"] and not network.violations()


def test_nobody_waits_for_ever_to_visit(stage: Stage, port: int) -> None:
    stage.open()
    publish(stage, port, port)
    one = visitor(stage, port)
    stage.wait(lambda: waiting(stage) == 1)
    stage.pass_time(LONG_SECONDS)

    assert one.recv(1) == b""
    assert waiting(stage) == 0


def test_who_waits_is_sent_away_with_the_sandbox(stage: Stage, port: int) -> None:
    network = stage.open()
    publish(stage, port, port)
    one = visitor(stage, port)
    stage.wait(lambda: waiting(stage) == 1)
    network.detach()

    assert one.recv(1) == b""
