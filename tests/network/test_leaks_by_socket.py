"""A secret cannot leave by a Unix socket of the host where a network is granted, nor by other families."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import suppress

import pytest

from support.confinement import PYTHON
from support.net_leaks import leak
from support.net_runs import on_every_backend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.net_runs import Place

_SEND = """
def send(kind, where):
    with socket.socket(socket.AF_UNIX, kind) as sender:
        sender.settimeout(3)
        sender.connect(where)
        return sender.send(SECRET.encode())
def send_unconnected(where):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        return sender.sendto(SECRET.encode(), where)
"""


class _Receiver:
    """A Unix socket of the host."""

    def __init__(self, kind: int, where: object) -> None:
        self._socket = socket.socket(socket.AF_UNIX, kind)
        self._socket.bind(where)
        self._socket.setblocking(False)
        self._has_connections = kind != socket.SOCK_DGRAM
        if self._has_connections:
            self._socket.listen(8)
        self.received: list[bytes] = []

    def has(self, secret: str) -> bool:
        with suppress(BlockingIOError):
            while True:
                self.received.append(self._take())
        return any(secret.encode() in data for data in self.received)

    def _take(self) -> bytes:
        """What has arrived is there as soon as the sender is gone."""
        if not self._has_connections:
            return self._socket.recv(4096)
        with self._socket.accept()[0] as peer:
            peer.settimeout(5)
            return peer.recv(4096)

    def forget(self) -> None:
        self.received.clear()

    def close(self) -> None:
        self._socket.close()


def _try(place: Place, kind: int, where: str, action: str) -> None:
    receiver = _Receiver(kind, where)
    try:
        leak(place, f"{_SEND}\nattempt(lambda: {action})", receiver, where=where)
    finally:
        receiver.close()


@on_every_backend
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_SEQPACKET], ids=["stream", "packets"])
def test_by_a_socket_with_a_path(place: Place, kind: int, tmp_path: Path) -> None:
    """In a directory that is not granted; docs/limits.md says why not in one that is."""
    _try(place, kind, _socket_path(tmp_path), f"send({int(kind)}, where)")


@on_every_backend
@pytest.mark.parametrize("action", ["send(socket.SOCK_DGRAM, where)", "send_unconnected(where)"])
def test_by_a_datagram_to_a_path(place: Place, action: str, tmp_path: Path) -> None:
    _try(place, socket.SOCK_DGRAM, _socket_path(tmp_path), action)


@on_every_backend
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["stream", "datagram"])
def test_by_a_socket_without_a_path(place: Place, kind: int) -> None:
    """Abstract: it is in no directory, so no rule about files is about it."""
    _try(place, kind, f"\0corral-test-{os.urandom(8).hex()}", f"send({int(kind)}, where)")


def _socket_path(folder: Path) -> str:
    path = str(folder / "s")
    if len(path) > 100:
        pytest.skip(f"the path of a socket is too long here: {len(path)} bytes")
    return path


#: Family and kind: packets to the wire, raw packets, virtual machines, the kernel's ciphers.
_FAMILIES = {"packet": (17, 3), "raw": (2, 3), "vsock": (40, 1), "ciphers": (38, 5)}
_MAKE = f"""
import json, socket
def make(family, kind):
    try:
        socket.socket(family, kind, 1 if kind == 3 else 0).close()
    except OSError:
        return False
    return True
print(json.dumps([name for name, wanted in {_FAMILIES!r}.items() if make(*wanted)]))
"""


@on_every_backend
def test_by_a_family_that_asks_no_name_server(place: Place) -> None:
    """There is no such socket, though a network is granted: so nothing can be sent by it."""
    script = (PYTHON, "-I", "-S", "-c", _MAKE)
    control = subprocess.run(script, capture_output=True, timeout=20, check=True)
    if not json.loads(control.stdout):
        pytest.skip("whoever runs the tests can make no such socket either")

    result = place.run(script)

    assert json.loads(result.check().stdout) == []
