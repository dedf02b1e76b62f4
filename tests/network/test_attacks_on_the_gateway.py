"""One sandbox against the others, and against the process that makes its connections."""

from __future__ import annotations

import socket
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from corral.model.network.connection import Rules
from corral.model.network.endpoint import Endpoint
from corral.model.network.traffic import NetReason
from corral.model.policy import NetMode, NetPolicy
from corral.network.grants import Grants
from support.network_stage import LOOPBACK, NAME, SECONDS, Stage, is_reset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: What the gateway may do for one sandbox while another waits, in seconds of its processor time: other work
#: of the machine makes no difference to those. Without any fairness it is a minute.
_BEARABLE_SECONDS = 1.5
_HEAD = f"POST / HTTP/1.1\r\nHost: {NAME}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
_TINY_CHUNKS = b"1\r\nX\r\n" * 20_000
_TINY_REQUESTS = f"G / HTTP/1.1\r\nHost:{NAME}\r\n\r\n".encode() * 4_000


def _say(client: socket.socket, first: bytes, again: bytes, is_over: threading.Event) -> None:
    try:
        client.sendall(first)
        while not is_over.is_set():
            client.sendall(again)
    except OSError:
        return


@contextmanager
def _flood(stage: Stage, clients: list[socket.socket], first: bytes, again: bytes) -> Iterator[None]:
    """All clients talk without a pause; some of it was relayed when this begins."""
    is_over = threading.Event()
    flooding = [
        threading.Thread(target=_say, args=(client, first, again, is_over), daemon=True) for client in clients
    ]
    for thread in flooding:
        thread.start()
    try:
        stage.wait(lambda: stage.network.traffic().sent > 1 << 19, 60)
        yield
    finally:
        is_over.set()
        for client in clients:
            client.shutdown(socket.SHUT_RDWR)
            client.close()
        for thread in flooding:
            thread.join(SECONDS)


def _swallow(client: socket.socket) -> None:
    while client.recv(1 << 20):
        pass


def _worst_wait(victim: Stage, rounds: int = 6) -> float:
    """How long the gateway works, at the worst, while another sandbox waits for a lookup and an echo."""
    thread = victim.network.gateway._thread
    assert thread is not None and thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)
    worst = 0.0
    for _ in range(rounds):
        began = time.clock_gettime(clock)
        with victim.connect() as client:
            client.settimeout(60)
            client.sendall(b"x")
            assert client.recv(1) == b"x"
        worst = max(worst, time.clock_gettime(clock) - began)
    return worst


def _other_sandbox(stage: Stage) -> Stage:
    other = Stage(stage._stack)
    other.serve()
    other.open()
    return other


@pytest.mark.parametrize(
    ("first", "again"), [(_HEAD, _TINY_CHUNKS), (b"", _TINY_REQUESTS)], ids=["chunks", "requests"]
)
@pytest.mark.parametrize("connections", [pytest.param(1, marks=pytest.mark.thorough), 24])
def test_requests_that_are_slow_to_read_keep_no_other_sandbox_waiting(
    stage: Stage, first: bytes, again: bytes, connections: int
) -> None:
    stage.serve(_swallow)
    stage.open(f"http:{NAME}:{{}}", f"http:{LOOPBACK}:{{}}")
    other = _other_sandbox(stage)
    assert _worst_wait(other) < _BEARABLE_SECONDS  # without the attack
    with _flood(stage, [stage.connect() for _ in range(connections)], first, again):
        worst = _worst_wait(other)
    other.network.close()

    assert worst < _BEARABLE_SECONDS


def test_requests_to_a_proxy_that_are_slow_to_read_keep_no_other_sandbox_waiting(stage: Stage) -> None:
    import base64

    stage.serve(_swallow)
    stage.open(f"http:{NAME}:{{}}", f"http:{LOOPBACK}:{{}}", listeners=False)
    place = stage.network.open_proxy()
    token = base64.b64encode(f"corral:{place.token}".encode()).decode()
    head = (
        f"POST http://{NAME}:{stage.port}/ HTTP/1.1\r\nProxy-Authorization: Basic {token}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    ).encode()
    other = _other_sandbox(stage)
    clients = [socket.create_connection((LOOPBACK, place.port)) for _ in range(4)]
    with _flood(stage, clients, head, _TINY_CHUNKS):
        worst = _worst_wait(other)
    other.network.close()

    assert worst < _BEARABLE_SECONDS


def test_connections_that_pass_the_proxy_by_are_bounded_like_all_others(stage: Stage, monkeypatch) -> None:
    """They come from the kernel's questions, and not from a listener that could wait."""
    stage.serve()
    network = stage.open(listeners=False)
    monkeypatch.setattr(network.gateway, "most_connections", 40)
    clients = []
    for _ in range(80):
        ours, theirs = socket.socketpair()
        stage._stack.callback(ours.close)
        clients.append(ours)
        network.relay(theirs, NAME, stage.port)
    other = _other_sandbox(stage)

    assert _worst_wait(other, 1) < _BEARABLE_SECONDS
    assert network.gateway.connections <= 40
    assert "too-many" in stage.reasons()
    other.network.close()


def test_thousands_of_answers_do_not_make_lookups_slow() -> None:
    """Each costs the loop, and so everybody. It does not cost more than in proportion."""
    few, many = _calls_of_a_lookup(256), _calls_of_a_lookup(4096)

    assert many < 1.5 * few * 4096 / 256


def _calls_of_a_lookup(answers: int) -> int:
    """How many functions are called for one, when so many have been answered."""
    grants = Grants(NetPolicy(NetMode.LIMITED, frozenset({"https:*.example.test", "tcp:db.test:5432"})))
    for number in range(answers):
        grants.answer(Endpoint("tcp", f"h{number}.test", 1024 + number), NetReason.ASKED)
    calls = [0]

    def count(_frame: object, event: str, _argument: object) -> None:
        calls[0] += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        assert grants.ports("h7.test") == (1031,)
        assert not grants.decide_lookup("nobody.test").allowed
    finally:
        sys.setprofile(None)
    return calls[0]


def test_rules_name_the_same_rule_however_they_are_found() -> None:
    allow = {"https:*", "https:a.test", "http:a.test:443", "tcp:*.test:443", "tcp:b.test:22"}
    rules = Rules(NetPolicy(NetMode.LIMITED, frozenset(allow)))

    verdict = rules.decide("a.test", 443)

    assert verdict.schemes == {"http", "https", "tcp"}
    assert verdict.rule == "http:a.test:443"
    assert rules.decide("c.test", 443).rule == "https:*"
    assert not rules.decide("a.test", 22).allowed
    assert rules.ports == {443, 22}


def test_after_a_revocation_only_what_is_allowed_anew_is_permitted(stage: Stage) -> None:
    """And not what the policy had permitted for the host besides."""
    stage.serve()
    stage.serve(port=stage.other_port)
    more = f"tcp:{NAME}:{stage.other_port}", f"tcp:{LOOPBACK}:{stage.other_port}"
    ports = (stage.port, stage.other_port)
    network = stage.open(f"tcp:{NAME}:{{}}", f"tcp:{LOOPBACK}:{{}}", *more, ports=ports)
    network.revoke(NAME)
    network.allow(Endpoint("tcp", NAME, stage.port), None)

    assert not is_reset_after_a_byte(stage.connect())
    assert is_reset_after_a_byte(stage.connect(port=stage.other_port))


def test_what_is_allowed_for_a_time_after_a_revocation_is_over_afterwards(stage: Stage) -> None:
    stage.serve()
    network = stage.open()
    network.revoke(NAME)
    network.allow(Endpoint("tcp", NAME, stage.port), 600.0)
    client = stage.connect()

    assert not is_reset_after_a_byte(client)
    stage.pass_time(600.0)
    assert is_reset(client)
    assert stage.look_up(NAME)[1] == []


def test_who_may_reach_all_but_a_revoked_host_does_not_reach_it_by_its_address() -> None:
    grants = Grants(NetPolicy(NetMode.LIMITED, frozenset({"https:*"})))
    assert grants.decide("8.8.8.8", 443).allowed
    grants.revoke("evil.test")

    assert not grants.decide("8.8.8.8", 443).allowed
    assert grants.decide("good.test", 443).allowed
    assert grants.decide_lookup("evil.test").reason is NetReason.DENIED


def test_an_address_that_was_revoked_is_dialled_for_nobody_until_it_is_allowed() -> None:
    grants = Grants(NetPolicy(NetMode.LIMITED, frozenset({"https:good.test", "https:10.0.0.5"})))
    assert grants.may_dial("good.test", 443, "10.0.0.5")
    grants.revoke("10.0.0.5")
    assert not grants.may_dial("good.test", 443, "10.0.0.5")
    number = grants.allow(Endpoint("https", "10.0.0.5", 443))
    assert grants.may_dial("good.test", 443, "10.0.0.5")
    assert grants.expire(number)

    assert not grants.may_dial("good.test", 443, "10.0.0.5")


def is_reset_after_a_byte(client: socket.socket) -> bool:
    """Whether the server behind does not send a byte back."""
    try:
        client.sendall(b"x")
        return client.recv(1) != b"x"
    except ConnectionError:  # or a broken pipe, where the reset was heard of before
        return True


@pytest.mark.parametrize("seconds", [1e8, float("inf")])
def test_a_question_that_may_take_for_ever_ends_nobodys_network(stage: Stage, seconds: float) -> None:
    """The first timer of all is so far away that the kernel cannot wait for it."""
    is_asked, may_answer = threading.Event(), threading.Event()

    def ask(request: object) -> bool:
        is_asked.set()
        return may_answer.wait(SECONDS)

    stage.serve()
    stage.serve(name="asked.test")
    stage.open(ask=ask, ask_seconds=seconds)
    waiting = stage.connect("asked.test")
    assert is_asked.wait(SECONDS)

    assert not is_reset_after_a_byte(stage.connect())
    may_answer.set()
    assert not is_reset_after_a_byte(waiting)


@pytest.mark.parametrize("seconds", [1e8, float("inf")])
def test_a_grant_for_very_long_ends_nobodys_network(stage: Stage, seconds: float) -> None:
    stage.serve()
    network = stage.open(f"tcp:{LOOPBACK}:{{}}")
    network.allow(Endpoint("tcp", NAME, stage.port), seconds)

    assert not is_reset_after_a_byte(stage.connect())


def test_a_flood_of_refusals_does_not_hide_those_that_come_later(stage: Stage) -> None:
    """In a session one command could make corral blind for all that come after it."""
    network = stage.open()
    for number in range(600):
        stage.look_up(f"h{number}.test")
    mark = network.mark()
    stage.look_up("later.test")
    stage.wait(lambda: network.mark() > mark)

    assert [found.subject for found in network.violations(mark)] == ["later.test"]
    assert "h0.test" in {event.host for event in network.traffic().refusals}  # nor those that came first
    assert len(network.traffic().refusals) <= 256
