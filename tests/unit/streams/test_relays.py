"""Relays: output is passed on as fast as it is read, and a reader that stops never stops corral."""

from __future__ import annotations

import fcntl
import os

import pytest

from corral.model.errors import SetupError
from corral.streams.sinks import Relay, deliver


@pytest.fixture
def pipe():
    ours, theirs = os.pipe()
    yield ours, theirs
    for end in (ours, theirs):
        try:
            os.close(end)
        except OSError:  # the test has closed it
            continue


def test_what_the_reader_does_not_take_waits(pipe) -> None:
    ours, theirs = pipe
    content = os.urandom(200_000)
    relay = Relay(theirs)
    relay.take(content[:100_000])
    relay.take(content[100_000:])
    assert relay.pending

    seen = b""
    while relay.pending:
        seen += os.read(ours, 50_000)
        relay.push()
    os.close(theirs)
    while piece := os.read(ours, 50_000):
        seen += piece

    assert seen == content


def test_a_pipe_with_little_room_is_not_waited_for(pipe) -> None:
    """One page is free, and there is more to write; two relays may share the pipe."""
    _, theirs = pipe
    capacity = fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ)
    os.write(theirs, b"x" * (capacity - 4096))
    first, second = Relay(theirs), Relay(theirs)
    first.take(b"1" * 5000)
    second.take(b"2" * 5000)

    assert (len(first.pending), len(second.pending)) == (904, 5000)


def test_the_descriptor_stays_as_the_caller_made_it(pipe) -> None:
    _, theirs = pipe
    relay = Relay(theirs)
    relay.take(b"x" * 200_000)

    assert os.get_blocking(theirs)


def test_a_descriptor_that_somebody_made_non_blocking_is_no_error(pipe) -> None:
    ours, theirs = pipe
    os.set_blocking(theirs, False)
    relay = Relay(theirs)
    relay.take(b"x" * 100_000)

    assert (relay.is_wanted, bool(relay.pending)) == (True, True)
    assert os.read(ours, 10) == b"x" * 10


def test_a_reader_that_is_gone_wants_no_more(pipe) -> None:
    ours, theirs = pipe
    os.close(ours)
    relay = Relay(theirs)
    relay.take(b"x")

    assert (relay.is_wanted, bool(relay.pending)) == (False, False)


def test_delivery_ends_when_it_is_enough(pipe) -> None:
    _, theirs = pipe
    relay = Relay(theirs)
    relay.take(b"x" * 100_000)
    asked = []

    def is_enough(idle_seconds: float) -> bool:
        asked.append(idle_seconds)
        return len(asked) == 2

    deliver((relay,), is_enough)

    assert relay.pending
    assert 0 < asked[0] < asked[1]


def test_delivery_of_nothing_waits_for_nobody(pipe) -> None:
    deliver((Relay(pipe[1]),), lambda _: False)


def test_what_could_not_be_written_is_told_at_the_end() -> None:
    with open("/dev/full", "wb") as full:
        relay = Relay(full.fileno())
        relay.take(b"x")

        assert not relay.is_wanted
        with pytest.raises(SetupError, match="No space left on device") as caught:
            deliver((relay,), lambda _: True)
    assert caught.value.ran


def test_a_terminal_that_was_hung_up_is_a_reader_that_is_gone() -> None:
    screen, terminal = os.openpty()
    relay = Relay(terminal)
    os.close(screen)
    relay.take(b"x")
    deliver((relay,), lambda _: True)
    relay.close()
    os.close(terminal)

    assert not relay.is_wanted
