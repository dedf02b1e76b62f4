"""Live changes: allowed for a time, revoked, asked; and the connections that rest on it."""

from __future__ import annotations

import socket
import threading

import pytest

from corral.model.network.endpoint import Endpoint
from corral.network.options import NetRequest
from support.network_stage import (
    LOOPBACK,
    NAME,
    NO_ERROR,
    NO_SUCH_NAME,
    SECONDS,
    Stage,
    is_reset,
    is_served,
)

LATER = "later.test"


def test_what_is_allowed_later_works_at_once_until_it_is_revoked(stage: Stage) -> None:
    stage.serve()
    stage.serve(name=LATER)
    network = stage.open()
    assert stage.look_up(LATER) == (NO_SUCH_NAME, [])
    network.allow(Endpoint("tcp", LATER, stage.port), None)
    client, other = stage.connect(LATER), stage.connect(NAME)
    assert is_served(client) and is_served(other)
    network.revoke(LATER)

    assert is_reset(client)
    assert is_reset(stage.connect_to("127.64.0.1"))
    assert stage.look_up(LATER) == (NO_SUCH_NAME, [])
    assert is_served(other)
    stage.wait(lambda: len(stage.of("close")) == 1)
    assert [event.reason.value for event in stage.of("allow") + stage.of("revoke")] == [
        "allowed-later",
        "revoked",
    ]
    assert stage.reasons("connect") == ["allowed-later", "granted", "denied"]
    assert stage.reasons("close") == ["revoked"]


def test_what_is_allowed_for_a_time_ends_by_itself_with_its_connections(stage: Stage) -> None:
    stage.serve(name=LATER)
    network = stage.open()
    network.allow(Endpoint("tcp", LATER, stage.port), 600.0)
    client = stage.connect(LATER)
    stage.pass_time(400.0)
    assert is_served(client)
    stage.pass_time(200.0)

    assert is_reset(client)
    assert stage.look_up(LATER) == (NO_SUCH_NAME, [])
    stage.wait(lambda: stage.of("revoke"))
    assert (stage.of("revoke")[0].rule, stage.of("revoke")[0].detail) == (
        f"tcp:{LATER}:{stage.port}",
        "its time is over",
    )


def test_the_end_of_one_grant_leaves_what_another_one_permits(stage: Stage) -> None:
    stage.serve()
    network = stage.open()
    network.allow(Endpoint("tcp", NAME, stage.port), 0.1)  # the policy permits it as well
    client = stage.connect()
    stage.wait(lambda: stage.of("revoke"))

    assert is_served(client)


def test_what_the_policy_permits_can_be_revoked_and_allowed_again(stage: Stage) -> None:
    stage.serve()
    network = stage.open("tcp:*.test:{}", f"tcp:{LOOPBACK}:{{}}")
    client = stage.connect()
    assert is_served(client)
    network.revoke(NAME)
    assert is_reset(client)
    assert stage.look_up(NAME) == (NO_SUCH_NAME, [])
    network.allow(Endpoint("tcp", NAME, stage.port), None)

    assert is_served(stage.connect())


def test_what_is_denied_cannot_be_allowed(stage: Stage) -> None:
    stage.serve()
    network = stage.open(deny=(NAME,))
    network.allow(Endpoint("tcp", NAME, stage.port), None)

    assert stage.look_up(NAME) == (NO_SUCH_NAME, [])
    stage.wait(lambda: stage.of("lookup"))
    assert stage.reasons("lookup") == ["denied"]


def test_a_connection_that_waits_for_an_address_is_ended_too(stage: Stage) -> None:
    """It was permitted, its name is being looked up, and then it is revoked."""
    release = threading.Event()

    def resolve(name: str, port: int) -> list[tuple[str, int]]:
        release.wait(SECONDS)
        return stage.resolve(name, port)

    server = stage.serve(name=LATER)
    network = stage.open(resolve=resolve, ask=lambda _: True)
    client = stage.connect(LATER)
    stage.wait(lambda: network.grants.decide(LATER, stage.port).allowed)
    network.revoke(LATER)
    assert is_reset(client)
    release.set()

    assert is_reset(stage.connect_to("127.64.0.1"))
    assert server.connections == []


class Asked:
    """Somebody who is asked."""

    def __init__(self, *answers: object) -> None:
        self.requests: list[NetRequest] = []
        self._answers = list(answers)

    def __call__(self, request: NetRequest) -> bool:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, threading.Event):
            return answer.wait()
        return answer  # type: ignore[return-value]


def test_who_is_asked_decides_once_for_the_border(stage: Stage) -> None:
    stage.serve(name=LATER)
    asked = Asked(True, False)
    stage.open(ask=asked)
    assert stage.look_up(LATER)[0] == NO_ERROR
    assert stage.resolved == []  # a name nobody has permitted: no query leaves
    assert asked.requests == []

    assert is_served(stage.connect(LATER))
    assert is_served(stage.connect(LATER))
    assert stage.resolved[:1] == [LATER]
    assert is_reset(stage.connect("no.test"))
    assert is_reset(stage.connect("no.test"))
    assert asked.requests == [NetRequest(LATER, stage.port), NetRequest("no.test", stage.port)]
    stage.wait(lambda: len(stage.of("connect")) == 4)
    assert stage.reasons() == ["asked", "asked", "refused", "refused"]
    assert "no.test" not in stage.resolved
    assert stage.network.violations()[0].hint == f"network:tcp:no.test:{stage.port}"


def test_the_deny_rules_are_not_asked_about(stage: Stage) -> None:
    asked = Asked()
    stage.open(deny=("evil.test",), ask=asked)

    assert stage.look_up("evil.test") == (NO_SUCH_NAME, [])
    assert asked.requests == []


def test_no_answer_in_time_is_a_no_and_what_is_said_later_counts_next_time(stage: Stage) -> None:
    stage.serve(name=LATER)
    answer = threading.Event()
    asked = Asked(answer)
    network = stage.open(ask=asked, ask_seconds=0.3)
    client = stage.connect(LATER)
    assert is_reset(client)
    assert is_reset(stage.connect(LATER))  # the same question is still open: it is not asked again
    stage.wait(lambda: len(stage.of("connect")) == 2)
    assert stage.reasons() == ["unanswered", "unanswered"]
    answer.set()
    stage.wait(lambda: network.grants.decide(LATER, stage.port).allowed)

    assert is_served(stage.connect(LATER))
    assert len(asked.requests) == 1


def test_many_connections_are_one_question(stage: Stage) -> None:
    stage.serve(name=LATER)
    answer = threading.Event()
    asked = Asked(answer)
    network = stage.open(ask=asked)
    clients = [stage.connect(LATER) for _ in range(30)]
    stage.wait(lambda: network.gateway.connections == 30)
    answer.set()

    assert all(is_served(client) for client in clients)
    assert len(asked.requests) == 1


@pytest.mark.parametrize("answer", [None, 1, "yes", RuntimeError("no"), OSError("no")])
def test_only_a_plain_yes_is_a_yes(stage: Stage, answer: object) -> None:
    server = stage.serve(name=LATER)
    stage.open(ask=Asked(answer))

    assert is_reset(stage.connect(LATER))
    assert server.connections == []


def test_a_client_that_goes_while_somebody_is_asked_leaves_nothing(stage: Stage) -> None:
    answer = threading.Event()
    server = stage.serve(name=LATER)
    network = stage.open(ask=Asked(answer))
    client = stage.connect(LATER)
    stage.wait(lambda: network.gateway.connections == 1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    stage.wait(lambda: network.gateway.connections == 0)
    answer.set()
    stage.wait(lambda: network.grants.decide(LATER, stage.port).allowed)

    assert server.connections == []


def test_a_border_closes_while_somebody_is_asked(stage: Stage) -> None:
    answer = threading.Event()
    network = stage.open(ask=Asked(answer))
    client = stage.connect(LATER)
    stage.wait(lambda: network.gateway.connections == 1)
    network.close()  # and nobody has answered

    assert network.gateway.connections == 0
    assert is_reset(client)
    answer.set()


def test_a_listener_that_raises_hears_the_next_event_all_the_same(stage: Stage) -> None:
    heard: list[str] = []

    def listen(event: object) -> None:
        heard.append(str(event))
        raise RuntimeError("not mine")

    stage.serve()
    network = stage.open(on_event=listen)
    client = stage.connect()
    assert is_served(client)
    network.close()

    assert len(heard) == network.tally.failed_callbacks == 3


def test_a_listener_that_is_slow_delays_no_connection(stage: Stage) -> None:
    release, heard = threading.Event(), []
    stage._stack.callback(release.set)
    stage.serve()
    network = stage.open(on_event=lambda event: release.wait() and heard.append(event))
    for _ in range(10):
        assert is_served(stage.connect())

    assert heard == []
    release.set()
    network.close()


def test_changes_from_many_threads_at_once_are_all_made(stage: Stage) -> None:
    network = stage.open()

    def change(number: int) -> None:
        for round_ in range(20):
            network.allow(
                Endpoint("tcp", f"n{number}-{round_}.test", stage.port), 0.001 if round_ % 2 else None
            )
            network.traffic(), network.violations()
            if round_ % 4 == 0:
                network.revoke(f"n{number}-{round_}.test")

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    stage.wait(lambda: len(stage.of("allow")) == 160 and len(stage.of("revoke")) == 120)
    assert network.grants.decide("n0-2.test", stage.port).allowed
    assert not network.grants.decide("n0-0.test", stage.port).allowed
    assert not network.grants.decide("n0-1.test", stage.port).allowed


def test_nobody_is_asked_about_a_synthetic_address_that_is_nobodys(stage: Stage) -> None:
    """Whoever said yes would have it dialled on the host."""
    asked = Asked()
    stage.open(ask=asked)

    assert is_reset(stage.connect_to("127.64.0.77"))
    stage.wait(lambda: stage.of("connect"))
    assert stage.reasons() == ["address"]
    assert asked.requests == []


def test_allowed_twice_for_different_times_the_longer_one_counts(stage: Stage) -> None:
    stage.serve(name=LATER)
    network = stage.open()
    endpoint = Endpoint("tcp", LATER, stage.port)
    network.allow(endpoint, 0.1)
    network.allow(endpoint, 30.0)
    client = stage.connect(LATER)
    stage.wait(lambda: stage.of("revoke"))

    assert is_served(client)
    network.revoke(LATER)
    assert is_reset(client)
    assert network._timers == {}
