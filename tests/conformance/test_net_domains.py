"""net.domains: connections leave only to the permitted names."""

from __future__ import annotations

import socket

import pytest

from corral.model.feature import Feature
from support.bystanders import Listener
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.NET_DOMAINS)

_TCP = "import socket; s = socket.create_connection({address!r}, 5); s.sendall(b'hi'); s.close()"
_UDP = "import socket; socket.socket(2, 2).sendto(b'hi', {address!r})"


def test_another_host_is_not_reached_at_the_same_port(
    backend: Case, stage: Stage, tcp_listener: Listener
) -> None:
    """Permitted is the machine itself, by its name; what has another address is somebody else."""
    port = tcp_listener.address[1]
    other = Listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.2", port))
    done = attempt(
        backend,
        stage,
        python(_TCP.format(address=other.address)),
        effect=lambda _: other.take() != b"",
        capabilities=[f"network:tcp:localhost:{port}"],
    )
    other.close()

    assert not done.worked


def test_a_host_that_is_not_named_is_not_reached(backend: Case, stage: Stage, tcp_listener: Listener) -> None:
    port = tcp_listener.address[1]
    done = attempt(
        backend,
        stage,
        python(_TCP.format(address=tcp_listener.address)),
        effect=lambda _: tcp_listener.take() != b"",
        capabilities=[f"network:tcp:example.org:{port}"],
    )

    assert not done.worked


def test_no_datagram_leaves_to_a_permitted_host(backend: Case, stage: Stage, udp_listener: Listener) -> None:
    """A secret would leave by a question to a server of names, whoever it is put to."""
    port = udp_listener.address[1]
    done = attempt(
        backend,
        stage,
        python(_UDP.format(address=udp_listener.address)),
        effect=lambda _: udp_listener.take() != b"",
        capabilities=[f"network:tcp:localhost:{port}"],
    )

    assert not done.worked
