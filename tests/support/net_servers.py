"""Real servers on loopback, in threads; each keeps what it received and leaves nothing running.

`settle()` returns when everything that was sent to a server before has been recorded: a test that asks what
did not arrive must not ask too soon. A mark of the server's own stands in the same queue behind all others.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

_MARK_SECONDS = 20
_IDLE_SECONDS = 15
_MOST = 65536


class Server:
    """A socket, the thread that serves it, and what has come in. A context manager."""

    kind = socket.SOCK_STREAM

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, self.kind)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((address, port))
        except OSError:
            self._socket.close()
            raise
        self.address = address
        self.port: int = self._socket.getsockname()[1]
        self._lock = threading.Lock()
        self._received: list[bytes] = []
        self._mark = os.urandom(16)
        self._marked = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name=f"test-{type(self).__name__}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def where(self) -> tuple[str, int]:
        """Address and port, to be dialled; for a server at every address, that of loopback."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.address, self.address), self.port

    @property
    def received(self) -> list[bytes]:
        """One entry for each connection that sent something, or for each packet."""
        with self._lock:
            return list(self._received)

    def has(self, secret: bytes | str) -> bool:
        """Whether this has come in, in some form that is not hidden: upper or lower case, in any bytes."""
        self.settle()
        wanted = secret.encode() if isinstance(secret, str) else secret
        return any(wanted.lower() in data.lower() for data in self.received)

    def forget(self) -> None:
        """As if nothing had been received."""
        self.settle()
        with self._lock:
            self._received.clear()

    def settle(self) -> None:
        """Wait until what was sent until now is recorded."""
        self._marked.clear()
        self._send_mark()
        if not self._marked.wait(_MARK_SECONDS):
            raise RuntimeError(f"{type(self).__name__} does not serve any more")

    def close(self) -> None:
        """End the thread, and with it every connection."""
        if not self._is_closed:
            self.settle()
            self._is_closed = True
            self._send_mark()
            self._thread.join(_MARK_SECONDS)
            self._socket.close()

    def _record(self, data: bytes) -> None:
        with self._lock:
            self._received.append(data)

    def _serve(self) -> None:
        raise NotImplementedError

    def _send_mark(self) -> None:
        raise NotImplementedError


class UdpSink(Server):
    """Keeps every packet; `answer` may say something to it."""

    kind = socket.SOCK_DGRAM

    def answer(self, packet: bytes) -> bytes | None:
        """What is sent back; nothing, here."""
        return None

    def _serve(self) -> None:
        while True:
            packet, sender = self._socket.recvfrom(_MOST)
            if packet == self._mark:
                self._marked.set()
                if self._is_closed:
                    return
                continue
            self._record(packet)
            reply = self.answer(packet)
            if reply is not None:
                with suppress(OSError):
                    self._socket.sendto(reply, sender)

    def _send_mark(self) -> None:
        with socket.socket(self._socket.family, self.kind) as sender:
            sender.sendto(self._mark, self.where)


class TcpSink(Server):
    """Keeps every byte of every connection, and answers `reply` to the first ones."""

    reply = b""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__(address, port)
        self._connections: list[tuple[threading.Thread, socket.socket]] = []
        self.prepare(self._socket)
        self._socket.listen(128)

    def prepare(self, listening: socket.socket) -> None:
        """Options of the listening socket."""

    def serve(self, connection: socket.socket) -> None:
        """One connection, in a thread of its own; it is closed afterwards."""
        heard = bytearray()
        try:
            while data := connection.recv(_MOST):
                if self.reply and not heard:
                    connection.sendall(self.reply)
                heard += data
        finally:
            if heard:
                self._record(bytes(heard))

    def settle(self) -> None:
        """All connections that were made are accepted, and those whose clients are gone have ended."""
        super().settle()
        with self._lock:
            connections = list(self._connections)
        for thread, connection in connections:
            thread.join(_IDLE_SECONDS)
            if thread.is_alive():  # a client that waits for more: what it sent is all it sends
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                thread.join(_IDLE_SECONDS)
        with self._lock:
            self._connections = [entry for entry in self._connections if entry[0].is_alive()]

    def _serve(self) -> None:
        while True:
            connection, peer = self._socket.accept()
            if peer[:2] == self._mark_name:
                connection.close()
                self._marked.set()
                if self._is_closed:
                    return
                continue
            thread = threading.Thread(target=self._serve_one, args=(connection,), daemon=True)
            with self._lock:
                self._connections.append((thread, connection))
            thread.start()

    def _serve_one(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, ssl.SSLError):
            connection.settimeout(_IDLE_SECONDS)
            self.serve(connection)

    _mark_name: tuple[str, int] = ("", 0)

    def _send_mark(self) -> None:
        """The mark is a connection, told by the address it comes from."""
        with socket.socket(self._socket.family, self.kind) as sender:
            sender.bind((self.where[0], 0))
            self._mark_name = sender.getsockname()[:2]
            sender.settimeout(_MARK_SECONDS)
            sender.connect(self.where)
            with suppress(OSError):
                sender.recv(1)  # until the other side has taken it


class TalkativeSink(TcpSink):
    """Says what an HTTP server would, so that a client goes on with what it has to say."""

    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class FastOpenSink(TcpSink):
    """Takes data in the packet that opens a connection, where the kernel does (TCP fast open)."""

    def prepare(self, listening: socket.socket) -> None:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
