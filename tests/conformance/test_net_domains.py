"""net.domains: connections leave only to the permitted names."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from corral.model.feature import Feature
from support.bystanders import Listener
from support.net_reach import reaches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.NET_DOMAINS)


def test_another_host_is_not_reached_at_the_same_port(
    backend: Case, stage: Stage, tcp_listener: Listener
) -> None:
    """Permitted is the machine itself, by its name; what has another address is somebody else."""
    port = tcp_listener.address[1]
    with closing(Listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.2", port))) as other:
        assert not reaches(backend, stage, other, f"network:tcp:localhost:{port}")


def test_a_host_that_is_not_named_is_not_reached(backend: Case, stage: Stage, tcp_listener: Listener) -> None:
    port = tcp_listener.address[1]

    assert not reaches(backend, stage, tcp_listener, f"network:tcp:example.org:{port}")


def test_no_datagram_leaves_to_a_permitted_host(backend: Case, stage: Stage, udp_listener: Listener) -> None:
    """A secret would leave by a question to a server of names, whoever it is put to."""
    port = udp_listener.address[1]

    assert not reaches(backend, stage, udp_listener, f"network:tcp:localhost:{port}")
