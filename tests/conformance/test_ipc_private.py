"""ipc.private: shared memory, queues and abstract sockets of the host are out of reach."""

from __future__ import annotations

import ctypes
import os

import pytest

from corral.host.real import RealHost
from corral.linux.landlock import scoped
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from support.confinement import attempt, confine, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.bystanders import Listener, SharedMemory
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.IPC_PRIVATE)

_CONNECT = """
import socket
s = socket.socket(socket.AF_UNIX); s.connect({address!r}); s.sendall(b'hi'); s.close()
"""
_SHARE = """
import ctypes
libc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p
at = libc.shmat(libc.shmget({key}, 4096, 0o600), None, 0)
ctypes.memmove(at, b'evil', 4)
"""
_QUEUE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
queue = libc.mq_open(b'/{name}', os.O_CREAT | os.O_RDWR, 0o600, None)
assert queue >= 0, ctypes.get_errno()
"""


def test_shared_memory_of_the_host_cannot_be_changed(
    backend: Case, stage: Stage, shared_memory: SharedMemory
) -> None:
    done = attempt(
        backend,
        stage,
        python(_SHARE.format(key=shared_memory.key)),
        effect=lambda _: shared_memory.content() == b"evil",
        reset=shared_memory.clear,
    )

    assert not done.worked


def test_no_message_queue_is_made_on_the_host(backend: Case, stage: Stage) -> None:
    name = f"corral-test-{os.urandom(8).hex()}"

    def is_there(_: bytes = b"") -> bool:
        """Whether there was one; it is not there afterwards."""
        return ctypes.CDLL(None).mq_unlink(b"/" + name.encode()) == 0

    done = attempt(backend, stage, python(_QUEUE.format(name=name)), effect=is_there)

    assert not done.worked


@pytest.mark.parametrize("network", ["network:none", "network:full"])
def test_an_abstract_socket_of_the_host_cannot_be_reached(
    backend: Case, stage: Stage, abstract_listener: Listener, network: str
) -> None:
    """With the host's network no namespace keeps them apart, and the promise is the same.

    There a kernel without Landlock's scopes cannot keep it, so nothing may run.
    """
    script = python(_CONNECT.format(address=abstract_listener.address))
    if network == "network:full" and not backend.is_leaky and not scoped(RealHost().landlock_abi()):
        with pytest.raises(UnenforceableError, match="abstract sockets") as refused:
            confine(backend, stage, script.argv, capabilities=[network])
        assert not refused.value.ran
        return

    done = attempt(
        backend,
        stage,
        script,
        effect=lambda _: abstract_listener.take() != b"",
        capabilities=[network],
    )

    assert not done.worked
