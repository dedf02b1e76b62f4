"""A process that is forked has neither the gateway nor its sockets, and can have its own."""

from __future__ import annotations

import os
import signal
import socket

from corral.model.policy import NetMode, NetPolicy
from corral.network.opening import open_sandbox_network
from corral.network.options import NetworkOptions
from support.network_stage import Stage, is_reset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

POLICY = NetPolicy(NetMode.LIMITED, frozenset({"https:example.test"}))


def _forked(work: Callable[[], bool]) -> int:
    """Do something in a child, and return its status. It is ended if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_can_have_a_border_of_its_own(stage: Stage) -> None:
    ours = stage.open()

    def work() -> bool:
        ours.close()  # which is not for the child to close, and must not wait either
        network = open_sandbox_network(POLICY, NetworkOptions(), addresses="127.64.0.0/10")
        network.attach([socket.create_server(("127.0.0.1", 0)).detach()])
        network.close()
        return True

    stage.serve()
    assert _forked(work) == 0
    assert stage.connect().getpeername()[1] == stage.port  # ours is as it was


def test_a_child_holds_no_socket_of_the_parents(stage: Stage) -> None:
    stage.serve()
    network = stage.open()
    ready, go = os.pipe(), os.pipe()
    with stage.connect() as client:
        client.sendall(b"hello")
        assert client.recv(5) == b"hello"
        child = os.fork()
        if child == 0:
            client.close()
            os.write(ready[1], b"r")
            os.read(go[0], 1)
            os._exit(0)
        try:
            os.read(ready[0], 1)
            network.close()
            client.settimeout(10)
            assert is_reset(client)
        finally:
            os.write(go[1], b"g")
            os.waitpid(child, 0)
            for end in (*ready, *go):
                os.close(end)
