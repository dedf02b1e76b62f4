"""Serve one client on stdin and stdout: a message a line.

The SDK's own transport drops a line that it cannot read, and its client waits for ever. This one answers it
with the error that JSON-RPC has for it, and bounds how long a line may be.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
import threading

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from corral.integrations.mcp_server.server import Clients, build_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.integrations.mcp_server.client_sandbox import ServerSettings

#: Longer lines are answered with an error and skipped.
MOST_LINE_BYTES = 32 * 1024 * 1024
_PIECE_BYTES = 1 << 18
#: What a pipe that is ready takes without waiting: PIPE_BUF, see pipe(7).
_READY_BYTES = 4096
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve_stdio(settings: ServerSettings) -> int:
    """Serve until stdin ends or a signal comes; returns the exit status."""
    return asyncio.run(_serve(settings))


async def _serve(settings: ServerSettings) -> int:
    server = build_server(Clients(settings))
    reader, writer = _claim_stdio()
    ended_by: list[int] = []
    loop = asyncio.get_running_loop()
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:

        def end(number: int) -> None:
            ended_by.append(number)
            tasks.cancel_scope.cancel()

        for number in _SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, end, number)
        lines = _Lines(reader, loop)
        tasks.start_soon(_read, lines, incoming, write_stream.clone())
        tasks.start_soon(_write, writer, outgoing, tasks.cancel_scope)
        await server.run(read_stream, write_stream, server.create_initialization_options())
        tasks.cancel_scope.cancel()
    return 128 + ended_by[0] if ended_by else 0


def _claim_stdio() -> tuple[int, int]:
    """Descriptors of our own, so that nothing else in this process reads the client or writes to it."""
    reader, writer = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return reader, writer


class _Lines:
    """Lines of a descriptor, read in a thread that may block for ever: it ends with the process."""

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor, self._loop = descriptor, loop
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(16)  # lines that wait to be taken: then the client has to wait
        threading.Thread(target=self._run, name="corral-mcp-stdin", daemon=True).start()

    async def next(self) -> bytes | None:
        """The next line; empty for one that is too long; None at the end."""
        line = await self._queue.get()
        self._room.release()
        return line

    def _run(self) -> None:
        pieces: list[bytes] = []
        size = 0
        while True:
            try:
                piece = os.read(self._descriptor, _PIECE_BYTES)
            except OSError:
                piece = b""
            if not piece:
                self._put(None)
                return
            *ends, rest = piece.split(b"\n")
            for end in ends:
                self._put(
                    b"" if size + len(end) > MOST_LINE_BYTES else b"".join((*pieces, end)).strip() or b" "
                )
                pieces, size = [], 0
            size += len(rest)
            if rest and size <= MOST_LINE_BYTES:
                pieces.append(rest)
            elif rest:
                pieces = []

    def _put(self, line: bytes | None) -> None:
        self._room.acquire()
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, line)
        except RuntimeError:
            return  # the loop is closed, and so is everything else soon


async def _read(lines: _Lines, incoming: Any, write_stream: Any) -> None:
    async with incoming, write_stream:
        while (line := await lines.next()) is not None:
            if line == b" ":
                continue
            message = read_message(line)
            if isinstance(message, types.JSONRPCError):
                await write_stream.send(SessionMessage(message))
            else:
                await incoming.send(SessionMessage(message))


def read_message(line: bytes) -> types.JSONRPCMessage:
    """The message that a line is; or the error to answer it with."""
    if not line:
        return _error(types.INVALID_REQUEST, f"the message has more than {MOST_LINE_BYTES} bytes")
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        pass
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return _error(types.PARSE_ERROR, "Parse error: the line is not JSON in UTF-8")
    identity = value.get("id") if isinstance(value, dict) else None
    is_identity = isinstance(identity, str | int) and not isinstance(identity, bool)
    return _error(
        types.INVALID_REQUEST, "Invalid request: no JSON-RPC 2.0 message", identity if is_identity else None
    )


def _error(code: int, message: str, identity: str | int | None = None) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=identity, error=types.ErrorData(code=code, message=message))


async def _write(writer: int, outgoing: Any, scope: anyio.CancelScope) -> None:
    """ORDER: a message is written whole before the next. A client that reads nothing holds up only itself."""
    ready = select.poll()
    ready.register(writer, select.POLLOUT)
    async with outgoing:
        async for session_message in outgoing:
            text = session_message.message.model_dump_json(by_alias=True, exclude_unset=True)
            data = memoryview(text.encode("utf-8", "replace") + b"\n")
            try:
                if len(data) <= _READY_BYTES and ready.poll(0):
                    os.write(writer, data)  # all of it, at once: a thread would take longer than the rest
                else:
                    await anyio.to_thread.run_sync(_write_all, writer, data, abandon_on_cancel=True)
            except OSError as problem:
                sys.stderr.write(f"corral: the client is gone: {problem.strerror}\n")
                scope.cancel()
                return


def _write_all(writer: int, data: memoryview) -> None:
    while data:
        data = data[os.write(writer, data) :]
