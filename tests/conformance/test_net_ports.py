"""net.ports: connections leave only to the permitted ports of public addresses."""

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

pytestmark = pytest.mark.proves(Feature.NET_PORTS)


def test_another_port_of_a_permitted_host_is_not_reached(
    backend: Case, stage: Stage, tcp_listener: Listener
) -> None:
    with closing(Listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))) as other:
        assert not reaches(backend, stage, other, f"network:tcp:localhost:{tcp_listener.address[1]}")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_what_is_not_public_is_not_reached(backend: Case, stage: Stage, host: str) -> None:
    """`limited` is every public host, and this machine is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(Listener(family, socket.SOCK_STREAM, (host, 0))) as listener:
        port = listener.address[1]

        assert not reaches(backend, stage, listener, "network:limited", f"network:tcp:*:{port}")
