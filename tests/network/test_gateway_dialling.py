"""A name with several addresses: dead ones cost next to nothing, and each is judged before it is dialled.

No clock is waited for: what the loop has put off comes when the test says so. A server that drops what comes
is one whose queue of connections is full.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

import pytest

from corral.network import dial
from corral.network.dial import by_turns
from support.network_stage import LOOPBACK, NAME, SECONDS, Stage, is_reset, is_served

SIX = "::1"
LONG = 3600.0
SYN_SENT = 2  # of the states in linux/tcp.h
GRANTS = (f"tcp:{NAME}:{{}}", f"tcp:{LOOPBACK}:{{}}", f"tcp:[{SIX}]:{{}}")


class Dials:
    """What was dialled, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[str] = []
        self._sockets: list[socket.socket] = []
        self._open = dial.open_socket
        monkeypatch.setattr(dial, "open_socket", self._count)
        monkeypatch.setattr(dial, "_DELAY_SECONDS", LONG)
        monkeypatch.setattr(dial, "_SECONDS_EACH", 100 * LONG)

    def _count(self, address: str) -> socket.socket:
        self._sockets.append(self._open(address))
        self.addresses.append(address)
        return self._sockets[-1]

    def connecting(self) -> int:
        """How many wait for an answer. Each is asked: /proc/net/tcp, read in pieces, tells some twice."""
        count = 0
        for sock in tuple(self._sockets):
            with contextlib.suppress(OSError):  # closed
                count += sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == SYN_SENT
        return count


@pytest.fixture
def dials(monkeypatch: pytest.MonkeyPatch) -> Dials:
    return Dials(monkeypatch)


def drops(stage: Stage, address: str) -> tuple[str, int]:
    """Where nobody ever answers, and nobody says so either."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    full = socket.create_server((address, 0), family=family, backlog=0)
    stage._stack.callback(full.close)
    place: tuple[str, int] = full.getsockname()[:2]
    filler = socket.create_connection(place, timeout=SECONDS)
    stage._stack.callback(filler.close)
    stage.wait(lambda: waiting_at(place[1]))
    return place


def own_sockets() -> set[str]:
    """Numbers of those that this process has: other tests may use the same ports at other addresses."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # another thread has closed it
            kind, _, number = os.readlink(f"/proc/self/fd/{name}").partition(":[")
            found |= {number[:-1]} if kind == "socket" else set()
    return found


def sockets() -> Iterator[tuple[int, int, str, int]]:
    """Of this process: the port here, the port there, the state, and how much waits to be taken."""
    own = own_sockets()
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as table:
            for line in list(table)[1:]:
                fields = line.split()
                here, there, waiting = (fields[place].rpartition(":")[2] for place in (1, 2, 4))
                if fields[9] in own:
                    yield int(here, 16), int(there, 16), fields[3], int(waiting, 16)


def waiting_at(port: int) -> bool:
    """Whether somebody waits in the queue of a listener."""
    return any(here == port and state == "0A" and waiting for here, _, state, waiting in sockets())


def refuses(address: str) -> tuple[str, int]:
    """Where nobody listens."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as one:
        one.bind((address, 0))
        return one.getsockname()[:2]


def live(stage: Stage) -> tuple[str, int]:
    return (LOOPBACK, stage.serve().port)


def test_four_dead_addresses_of_the_other_family_cost_one_delay(stage: Stage, dials: Dials) -> None:
    alive = live(stage)
    stage.targets[NAME, 0] = [*(drops(stage, SIX) for _ in range(4)), alive]
    stage.open(*GRANTS)
    client = stage.connect()
    stage.wait(lambda: dials.addresses)
    stage.pass_time(LONG)

    assert is_served(client)
    assert dials.addresses == [SIX, LOOPBACK]


def test_dead_addresses_of_one_family_cost_a_delay_each(stage: Stage, dials: Dials) -> None:
    alive = live(stage)
    stage.targets[NAME, 0] = [*(drops(stage, LOOPBACK) for _ in range(4)), alive]
    stage.open(*GRANTS)
    client = stage.connect()
    for count in range(1, 5):
        stage.wait(lambda: len(dials.addresses) == count)  # noqa: B023
        stage.pass_time(LONG)

    assert is_served(client)
    assert len(dials.addresses) == 5


def test_an_address_that_refuses_costs_nothing(stage: Stage, dials: Dials) -> None:
    alive = live(stage)
    stage.targets[NAME, 0] = [refuses(SIX), refuses(LOOPBACK), refuses(LOOPBACK), alive]
    stage.open(*GRANTS)

    assert is_served(stage.connect())
    assert dials.addresses == [SIX, LOOPBACK, LOOPBACK, LOOPBACK]


def test_the_first_that_answers_is_alone_before_the_first_byte_arrives(stage: Stage, dials: Dials) -> None:
    dead = [drops(stage, SIX), drops(stage, LOOPBACK)]
    seen: list[int] = []

    def serve(client: socket.socket) -> None:
        data = client.recv(1)
        seen.append(dials.connecting())
        client.sendall(data)

    server = stage.serve(serve)
    stage.targets[NAME, 0] = [*dead, (LOOPBACK, server.port)]
    stage.open(*GRANTS)
    client = stage.connect()
    client.sendall(b"x")
    stage.wait(lambda: len(dials.addresses) == 1)
    stage.pass_time(LONG)
    stage.wait(lambda: len(dials.addresses) == 2)
    stage.settle()
    assert dials.connecting() == 2
    stage.pass_time(LONG)

    assert client.recv(1) == b"x"
    assert seen == [0]
    assert stage.network.traffic().connections == 1


def test_each_address_is_judged_when_its_turn_comes(stage: Stage, dials: Dials) -> None:
    """Two were permitted when the name was looked up; one is no longer, when the other has not answered."""
    alive = live(stage)
    stage.targets[NAME, 0] = [drops(stage, SIX), alive]
    network = stage.open(*GRANTS)
    client = stage.connect()
    stage.wait(lambda: dials.addresses)
    network.revoke(LOOPBACK)
    stage.pass_time(LONG)
    stage.settle()
    stage.pass_time(100 * LONG)

    assert is_reset(client)
    assert dials.addresses == [SIX]
    assert stage.reasons() == ["unreachable"]


def test_who_goes_away_while_several_are_dialled_leaves_nothing(stage: Stage, dials: Dials) -> None:
    dead = [drops(stage, SIX), drops(stage, LOOPBACK)]
    stage.targets[NAME, 0] = dead
    network = stage.open(*GRANTS)
    client = stage.connect()
    stage.wait(lambda: dials.addresses)
    stage.pass_time(LONG)
    stage.wait(lambda: dials.connecting() == 2)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()

    stage.wait(lambda: network.gateway.connections == 0)
    stage.wait(lambda: not dials.connecting())


def test_only_so_many_are_tried_at_once(stage: Stage, dials: Dials, monkeypatch) -> None:
    monkeypatch.setattr(dial, "_MOST_AT_ONCE", 2)
    dead = [drops(stage, LOOPBACK) for _ in range(4)]
    stage.targets[NAME, 0] = dead
    stage.open(*GRANTS)
    stage.connect()
    for count in range(1, 5):
        stage.wait(lambda: len(dials.addresses) == count)  # noqa: B023
        stage.settle()
        assert dials.connecting() == min(count, 2)
        stage.pass_time(LONG)


def test_the_families_take_turns() -> None:
    six, four = [(f"2001:db8::{n}", 1) for n in range(3)], [(f"192.0.2.{n}", 1) for n in range(2)]

    assert by_turns([*six, *four]) == [six[0], four[0], six[1], four[1], six[2]]
    assert by_turns([*four, *six]) == [four[0], six[0], four[1], six[1], six[2]]
    assert by_turns(four) == four
    assert by_turns([]) == []
