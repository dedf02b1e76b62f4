"""Frames: messages and descriptors over a socket, of any size that is permitted and no other."""

from __future__ import annotations

import os
import socket

import pytest

from corral.model.errors import PolicyError, SetupError, UnenforceableError
from corral.sessions.named.frames import BadFrame, decode_error, encode_error, receive, send
from support.descriptors import count_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, two:
        two.settimeout(20)
        yield one, two


@pytest.mark.parametrize("length", [0, 100, 32_700, 32_768, 1_000_000])
def test_a_message_of_any_size_comes_with_its_descriptors(
    pair: tuple[socket.socket, socket.socket], length: int
) -> None:
    ours, theirs = os.pipe()
    before = count_descriptors()

    send(pair[0], {"text": "x" * length, "strange": "\udcff"}, [theirs])
    received = receive(pair[1], 2_000_000)

    assert received is not None
    message, (given,) = received
    assert message == {"text": "x" * length, "strange": "\udcff"}
    os.write(given, b"through")
    assert os.read(ours, 20) == b"through"
    os.close(given)
    assert count_descriptors() <= before
    os.close(ours)
    os.close(theirs)


def test_what_is_too_large_or_not_ours_is_refused_and_leaves_no_descriptor(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    before = count_descriptors()

    send(pair[0], {"text": "x" * 100_000}, [null])
    with pytest.raises(BadFrame):
        receive(pair[1], 50_000)
    for packet in (b"x", b"j{", b"j[]", b"m", b"j" + b"[" * 30_000):
        socket.send_fds(pair[0], [packet], [null] if packet != b"m" else [])
        with pytest.raises(BadFrame):
            receive(pair[1], 50_000)
    socket.send_fds(pair[0], [b"j{}"], [null] * 9)  # more than anybody needs
    with pytest.raises(BadFrame):
        receive(pair[1], 50_000)

    assert count_descriptors() <= before
    os.close(null)


def test_the_end_is_not_a_message(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].close()

    assert receive(pair[1], 100) is None


@pytest.mark.parametrize(
    "error",
    [
        PolicyError("a-code", "what", why="why", fix="fix"),
        SetupError("exec", "what", why="why", fix="fix", exit_status=127),
        SetupError("lost", "what", why="why", fix="fix", ran=True),
        UnenforceableError("unenforceable", "what", fix="fix", reasons=("one", "two")),
    ],
)
def test_an_error_is_the_same_on_the_other_side(error: SetupError) -> None:
    again = decode_error(encode_error(error))

    assert type(again) is type(error)
    assert again.render() == error.render()
    assert (again.code, again.exit_status, again.ran) == (error.code, error.exit_status, error.ran)
