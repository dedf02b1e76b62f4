"""A server of the host that counts what passes, and scripts that talk to it as fast as they can."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing

from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from support.confinement import Case, Script, Stage

#: As much as an unconfined script sends or takes, and a confined one tries to.
ALL_BYTES = 24 << 20
_PIECE = bytes(65536)
#: With the proxy's help where there is one: nothing else leads out there.
_CONNECT = """
import base64, os, socket
proxy = os.environ.get("https_proxy", "")
if proxy:
    who, _, place = proxy.removeprefix("http://").rpartition("@")
    host, _, port = place.rstrip("/").rpartition(":")
    s = socket.create_connection((host, int(port)), 10)
    token = base64.b64encode(who.encode()).decode()
    s.sendall(f"CONNECT localhost:{PORT} HTTP/1.1\\r\\nHost: localhost:{PORT}\\r\\n"
              f"Proxy-Authorization: Basic {token}\\r\\n\\r\\n".encode())
    answer = b""
    while b"\\r\\n\\r\\n" not in answer:
        answer += s.recv(1)
else:
    s = socket.create_connection(("localhost", PORT), 10)
"""
_SEND = """
s.sendall(b"s")
left = ALL
try:
    while left > 0:
        left -= s.send(bytes(65536))
    s.shutdown(socket.SHUT_WR)
    s.recv(1)
except OSError:
    pass
"""
_TAKE = """
s.sendall(b"t")
s.settimeout(60)
try:
    while s.recv(1 << 20):
        pass
except OSError:
    pass
"""


class CountingServer:
    """On loopback. A client says in its first byte whether it sends or takes."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.passed = self._clients = 0
        self._busy = 0
        self._lock = threading.Condition()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def settled(self) -> int:
        """How much has passed when no client is left.

        Clients are taken in their order: when the last one, ourselves, is served, no other is waiting.
        """
        with socket.create_connection(("127.0.0.1", self.port), 30) as own:
            own.sendall(b"?")
            own.recv(1)
        with self._lock:
            assert self._lock.wait_for(lambda: self._busy == 0, 30)
            return self.passed

    @property
    def clients(self) -> int:
        """How many have said something."""
        self.settled()
        return self._clients

    def reset(self) -> None:
        self.settled()
        self.passed = self._clients = 0

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with self._lock:
                self._busy += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # Small buffers: what waits in them was not taken by the client.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        client.settimeout(30)
        try:
            with client:
                self._handshake(client)
        except OSError:
            pass
        finally:
            with self._lock:
                self._busy -= 1
                self._lock.notify_all()

    def _handshake(self, client: socket.socket) -> None:
        first = client.recv(1)
        if first == b"?":
            return
        self._clients += first != b""
        if first == b"s":
            while piece := client.recv(1 << 20):
                self.passed += len(piece)
            return
        left, end = ALL_BYTES, time.monotonic() + 30
        while left > 0 and time.monotonic() < end:
            sent = client.send(_PIECE)
            self.passed += sent
            left -= sent


def sending(server: CountingServer) -> Script:
    return python(_script(_CONNECT + _SEND, server))


def taking(server: CountingServer) -> Script:
    return python(_script(_CONNECT + _TAKE, server))


def carries_too_much(
    case: Case, stage: Stage, talking: Callable[[CountingServer], Script], *limits: str
) -> bool:
    """Whether a confined script carries far more than may pass, with all that lies in buffers on the way."""
    with closing(CountingServer()) as server:
        done = attempt(
            case,
            stage,
            talking(server),
            effect=lambda _: server.settled() > ALL_BYTES // 2,
            reset=server.reset,
            capabilities=(f"network:tcp:localhost:{server.port}", *limits),
        )
        if not server.clients:
            raise RuntimeError("the confined script never got to the server, which proves nothing")
        return done.worked


def _script(text: str, server: CountingServer) -> str:
    return f"PORT, ALL = {server.port}, {ALL_BYTES}\n{text}"
