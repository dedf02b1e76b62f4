"""net.none: no packet and no socket reaches beyond the sandbox."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from corral.model.feature import Feature
from support.bystanders import Listener
from support.net_reach import own_address, reaches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.NET_NONE)


def test_no_tcp_connection_reaches_the_host(backend: Case, stage: Stage, tcp_listener: Listener) -> None:
    assert not reaches(backend, stage, tcp_listener)


def test_no_datagram_reaches_the_host(backend: Case, stage: Stage, udp_listener: Listener) -> None:
    assert not reaches(backend, stage, udp_listener)


def test_no_address_of_this_machine_is_reached(backend: Case, stage: Stage) -> None:
    """Not only loopback is out of reach."""
    with closing(Listener(socket.AF_INET, socket.SOCK_STREAM, (own_address(), 0))) as listener:
        assert not reaches(backend, stage, listener)
