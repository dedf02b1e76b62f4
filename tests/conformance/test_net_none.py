"""net.none: no packet and no socket reaches beyond the sandbox."""

from __future__ import annotations

import socket

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.bystanders import Listener
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.NET_NONE)


_TCP = "import socket; s = socket.create_connection({address!r}, 5); s.sendall(b'hi'); s.close()"
_UDP = "import socket; socket.socket(2, 2).sendto(b'hi', {address!r})"


def test_no_tcp_connection_reaches_the_host(backend: Case, stage: Stage, tcp_listener: Listener) -> None:
    done = attempt(
        backend,
        stage,
        python(_TCP.format(address=tcp_listener.address)),
        effect=lambda _: tcp_listener.take() != b"",
    )

    assert not done.worked


def test_no_datagram_reaches_the_host(backend: Case, stage: Stage, udp_listener: Listener) -> None:
    done = attempt(
        backend,
        stage,
        python(_UDP.format(address=udp_listener.address)),
        effect=lambda _: udp_listener.take() != b"",
    )

    assert not done.worked


def test_no_address_of_this_machine_is_reached(backend: Case, stage: Stage) -> None:
    """Not only loopback is out of reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.bind((_own_address(), 0))
        listening.listen()
        listening.setblocking(False)

        done = attempt(
            backend,
            stage,
            python(_TCP.format(address=listening.getsockname())),
            effect=lambda _: _accepted(listening),
        )

    assert not done.worked


def _accepted(listening: socket.socket) -> bool:
    try:
        listening.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _own_address() -> str:
    """An address of this machine other than loopback; no packet is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as finder:
        try:
            finder.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"
        return str(finder.getsockname()[0])
