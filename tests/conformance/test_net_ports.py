"""net.ports: connections leave only to the permitted ports of public addresses."""

from __future__ import annotations

import socket

import pytest

from corral.model.feature import Feature
from support.bystanders import Listener
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.NET_PORTS)

_TCP = "import socket; s = socket.create_connection({address!r}, 5); s.sendall(b'hi'); s.close()"


def test_another_port_of_a_permitted_host_is_not_reached(
    backend: Case, stage: Stage, tcp_listener: Listener
) -> None:
    other = Listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
    done = attempt(
        backend,
        stage,
        python(_TCP.format(address=other.address)),
        effect=lambda _: other.take() != b"",
        capabilities=[f"network:tcp:localhost:{tcp_listener.address[1]}"],
    )
    other.close()

    assert not done.worked


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_what_is_not_public_is_not_reached(backend: Case, stage: Stage, host: str) -> None:
    """`limited` is every public host, and this machine is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = Listener(family, socket.SOCK_STREAM, (host, 0))
    done = attempt(
        backend,
        stage,
        python(_TCP.format(address=(host, listener.address[1]))),
        effect=lambda _: listener.take() != b"",
        capabilities=["network:limited", f"network:tcp:*:{listener.address[1]}"],
    )
    listener.close()

    assert not done.worked
