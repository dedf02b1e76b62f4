"""Serve clients over HTTP, on loopback, each with the token that the user has.

TRUST: whoever has the token can run commands under this server's policy. Any page in a browser can send a
request to loopback, and any user of the host can connect: so the names in Host and Origin are checked first,
then the token, before anything of the request is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import signal
import socket

import anyio
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from corral.integrations.mcp_server.server import (
    AGENT,
    GONE,
    IDLE_SECONDS,
    MOST_CLIENTS,
    Clients,
    build_server,
)
from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, MutableMapping
    from typing import Any

    from corral.integrations.mcp_server.client_sandbox import ServerSettings

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOOPBACK = "127.0.0.1"
#: A program of this size as an argument is answered, a larger message is not read.
MOST_BODY_BYTES = 32 * 1024 * 1024
_PATH = "/mcp"
_AGENT_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_MOST_AGENT = 64
_END_SECONDS = 2
ENDED_BY = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def listen(port: int) -> socket.socket:
    """A socket on loopback; port 0 takes a free one. Raises SetupError."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((LOOPBACK, port))
        made.listen(512)
    except OSError as problem:
        made.close()
        raise SetupError(
            "mcp-port",
            f"port {port} of {LOOPBACK} cannot be used",
            why=problem.strerror or str(problem),
            fix="choose another one; --http 0 takes a free one",
        ) from problem
    return made


def serve_http(settings: ServerSettings, listener: socket.socket, token: str) -> int:
    """Serve until one of `ENDED_BY` comes, which the caller may have blocked; returns the exit status."""
    return asyncio.run(_serve(settings, listener, token))


async def _serve(settings: ServerSettings, listener: socket.socket, token: str) -> int:
    clients = Clients(settings)
    port = listener.getsockname()[1]
    door = Door(clients, token, port)
    server = _Server(
        uvicorn.Config(
            door, log_level="warning", lifespan="off", ws="none", timeout_graceful_shutdown=_END_SECONDS
        )
    )
    ended_by: list[int] = []

    def end(number: int) -> None:
        ended_by.append(number)
        server.should_exit = True

    for number in ENDED_BY:
        if signal.getsignal(number) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDED_BY)
    async with door.manager.run():
        await server.serve(sockets=[listener])
    return 128 + ended_by[0] if ended_by else 0


class _Server(uvicorn.Server):
    """Its own handler would send the signal once more, and end the process before the sandboxes."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Door:
    """What every request passes: its names, its token, and then the SDK's own transport."""

    def __init__(self, clients: Clients, token: str, port: int) -> None:
        names = (LOOPBACK, "localhost")
        self._hosts = frozenset(f"{name}:{port}".encode() for name in names)
        self._origins = frozenset(f"http://{name}:{port}".encode() for name in names)
        self._token = f"Bearer {token}".encode()
        self._clients = clients
        self.manager = StreamableHTTPSessionManager(
            build_server(clients),
            security_settings=TransportSecuritySettings(
                allowed_hosts=[host.decode() for host in self._hosts],
                allowed_origins=[origin.decode() for origin in self._origins],
            ),
            session_idle_timeout=IDLE_SECONDS,
            max_sessions=MOST_CLIENTS,
            max_request_body_size=MOST_BODY_BYTES,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return  # there is nothing else
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        agent = _agent_of(scope["path"])
        if agent is None:
            await _refuse(send, 404, f"there is {_PATH}, and {_PATH}/NAME for each agent of yours")
            return
        gone = asyncio.Event()

        async def hear() -> MutableMapping[str, Any]:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        inner = {**scope, "path": _PATH, "raw_path": _PATH.encode(), AGENT: agent, GONE: gone}
        session = _one(scope, b"mcp-session-id")
        await self.manager.handle_request(inner, hear, send)
        if scope["method"] == "DELETE" and session:
            with anyio.CancelScope(shield=True):
                await self._clients.close(f"session {session.decode('latin-1')}")

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        if _one(scope, b"host") not in self._hosts:
            return 421, "this server answers by its own name on loopback only"
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if any(origin not in self._origins for origin in origins):
            return 403, "a page of another origin may not use this server"
        if not hmac.compare_digest(_one(scope, b"authorization"), self._token):
            return 401, "the token is missing or wrong"
        return None


def _one(scope: Scope, header: bytes) -> bytes:
    """A header that is there exactly once; else nothing."""
    found: list[bytes] = [value for name, value in scope["headers"] if name == header]
    return found[0] if len(found) == 1 else b""


def _agent_of(path: str) -> str | None:
    """The name at the end of the path; empty for none, None where there is nothing."""
    if path.rstrip("/") == _PATH:
        return ""
    head, slash, name = path.rpartition("/")
    is_name = 0 < len(name) <= _MOST_AGENT and _AGENT_LETTERS.issuperset(name)
    return name if slash and head == _PATH and is_name else None


async def _refuse(send: Send, status: int, text: str) -> None:
    body = f"corral: {text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def make_token() -> str:
    """What a client has to show."""
    return os.urandom(32).hex()
