"""A web server that keeps every request: HTTP/1.1, and over TLS also HTTP/2, whichever the client prefers."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha1
from typing import NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

from support.net_servers import TcpSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

    #: Host and target of a request -> what is there; None: nothing is.
    Content = Callable[[str, str], bytes | None]

_MOST = 65536


class Request(NamedTuple):
    """What a client asked."""

    version: str
    method: str
    target: str
    host: str
    body: bytes = b""
    server_name: str = ""  # the SNI that the connection came with; empty without TLS


def greeting(host: str, target: str) -> bytes:
    """What is there unless a test says otherwise."""
    return f"this is {host} at {target}\n".encode()


class WebServer(TcpSink):
    """Serves `content`. `requests` is what was asked; `server_names` every SNI, also of failed handshakes."""

    def __init__(
        self,
        content: Content = greeting,
        tls: ssl.SSLContext | None = None,
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._content = content
        self._tls = tls
        self._requests: list[Request] = []
        self._server_names: list[str] = []
        if tls is not None:
            tls.sni_callback = self._keep_name
        super().__init__(address, port)

    @property
    def requests(self) -> list[Request]:
        with self._lock:
            return list(self._requests)

    @property
    def server_names(self) -> list[str]:
        with self._lock:
            return list(self._server_names)

    def forget(self) -> None:
        super().forget()
        with self._lock:
            self._requests.clear()
            self._server_names.clear()

    def serve(self, connection: socket.socket) -> None:
        if self._tls is None:
            _Http1(connection, self._answer, self._record).serve()
            return
        with self._tls.wrap_socket(connection, server_side=True) as secured:
            name = getattr(secured, "asked_name", "")
            speak = _Http2 if secured.selected_alpn_protocol() == "h2" else _Http1
            speak(
                secured, lambda request: self._answer(request._replace(server_name=name)), self._record
            ).serve()

    def _keep_name(self, connection: ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        connection.asked_name = name or ""
        self._record((name or "").encode())
        with self._lock:
            self._server_names.append(name or "")

    def _answer(self, request: Request) -> bytes | None:
        with self._lock:
            self._requests.append(request)
        return self._content(request.host, request.target)


class _Http1:
    """One connection with HTTP/1.1: request after request, as long as the client likes."""

    def __init__(
        self,
        connection: socket.socket,
        answer: Callable[[Request], bytes | None],
        record: Callable[[bytes], None],
    ) -> None:
        self._connection, self._answer, self._record = connection, answer, record
        self._buffer = b""

    def serve(self) -> None:
        while head := self._read_head():
            line, *fields = head.decode("latin-1").split("\r\n")
            method, target, version = line.split(" ")
            named = {
                key.lower(): value.strip() for key, _, value in (field.partition(":") for field in fields)
            }
            body = self._read_body(named)
            self._record(head + b"\r\n\r\n" + body)
            content = self._answer(Request(version, method, target, named.get("host", ""), body))
            if named.get("upgrade", "").lower() == "websocket":
                self._echo_frame(named["sec-websocket-key"])
                return
            status = "404 Not Found" if content is None else "200 OK"
            content = content or b""
            kind, size = kind_of(target), len(content)
            answer = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n"
            self._connection.sendall(answer.encode() + (b"" if method == "HEAD" else content))
            if named.get("connection", "").lower() == "close":
                return

    def _echo_frame(self, key: str) -> None:
        """One short message of a WebSocket (RFC 6455), back to where it came from."""
        guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        proof = b64encode(sha1((key + guid).encode(), usedforsecurity=False).digest()).decode()
        agreed = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {proof}\r\n\r\n"
        self._connection.sendall(f"HTTP/1.1 101 Switching Protocols\r\n{agreed}".encode())
        head = self._read(6)
        masked = self._read(head[1] & 0x7F)
        text = bytes(byte ^ head[2 + at % 4] for at, byte in enumerate(masked))
        self._connection.sendall(bytes((head[0], len(text))) + text)
        self._more()

    def _read_head(self) -> bytes:
        while b"\r\n\r\n" not in self._buffer:
            if not self._more():
                if self._buffer:
                    self._record(self._buffer)
                return b""
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        return head

    def _read_body(self, named: dict[str, str]) -> bytes:
        if named.get("transfer-encoding", "").lower() == "chunked":
            body = b""
            while size := int(self._read_line().split(b";")[0], 16):
                body += self._read(size)
                self._read_line()
            while self._read_line():
                pass
            return body
        return self._read(int(named.get("content-length", "0")))

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size and self._more():
            pass
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _read_line(self) -> bytes:
        while b"\r\n" not in self._buffer and self._more():
            pass
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _more(self) -> bool:
        data = self._connection.recv(_MOST)
        self._buffer += data
        return bool(data)


class _Http2:
    """One connection with HTTP/2, which carries many requests, each with an authority of its own."""

    def __init__(
        self,
        connection: socket.socket,
        answer: Callable[[Request], bytes | None],
        record: Callable[[bytes], None],
    ) -> None:
        self._connection, self._answer, self._record = connection, answer, record
        self._state = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._open: dict[int, Request] = {}

    def serve(self) -> None:
        self._state.initiate_connection()
        self._connection.sendall(self._state.data_to_send())
        while data := self._connection.recv(_MOST):
            for event in self._state.receive_data(data):
                self._take(event)
            self._connection.sendall(self._state.data_to_send())

    def _take(self, event: object) -> None:
        if isinstance(event, RequestReceived):
            named = dict(event.headers)
            self._record(repr(event.headers).encode())
            request = Request("HTTP/2", named[":method"], named[":path"], named.get(":authority", ""))
            self._open[event.stream_id] = request
        elif isinstance(event, DataReceived):
            self._record(event.data)
            request = self._open[event.stream_id]
            self._open[event.stream_id] = request._replace(body=request.body + event.data)
            self._state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self._reply(event.stream_id, self._open.pop(event.stream_id))

    def _reply(self, stream: int, request: Request) -> None:
        content = self._answer(request)
        headers = [
            (":status", "404" if content is None else "200"),
            ("content-type", kind_of(request.target)),
            ("content-length", str(len(content or b""))),
        ]
        self._state.send_headers(stream, headers)
        self._state.send_data(stream, content or b"", end_stream=True)  # short: within the first window


def kind_of(target: str) -> str:
    """A content type, by the end of the name: pip and npm look at it."""
    if target.endswith((".whl", ".tgz")) or "/objects/" in target:
        return "application/octet-stream"
    return (
        "text/html" if "/simple" in target else "application/json" if "/registry" in target else "text/plain"
    )
