"""Clients for `corral mcp`: the official one, and a process that is told lines which no client would send."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from support.keeping import find_by_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import Any

    from mcp import Client

CORRAL = str(Path(sys.executable).with_name("corral"))
_SECONDS = 60.0
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class McpHome:
    """Somebody's home with a secret, and a project in it."""

    def __init__(self, place: Path) -> None:
        self.home, self.project = place / "home", place / "home" / "project"
        self.project.mkdir(parents=True)
        self.secret = self.home / "secret.txt"
        self.secret.write_text("hunter2")
        self.state = self.home / "state"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.state),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
        }

    def configure(self, text: str) -> dict[str, str]:
        """The environment of somebody who has this in a file of their own."""
        file = self.home / "own.toml"
        file.write_text(text)
        return {**self.environment, "CORRAL_CONFIG": str(file)}

    def audit_records(self) -> list[dict[str, Any]]:
        files = sorted((self.state / "corral" / "audit").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


class RawServer:
    """`corral mcp serve` on pipes."""

    def __init__(self, home: McpHome, *words: str, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [CORRAL, "mcp", "serve", *words],
            cwd=home.project,
            env=environment or home.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.pid = self._process.pid
        self._pending = b""

    def __enter__(self) -> RawServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()

    def send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def ask(self, identity: int, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
        self.send(json.dumps(message).encode())

    def initialize(self) -> None:
        self.ask(0, "initialize", **HELLO)
        self.answer(0)
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def call(self, identity: int, name: str, **arguments: Any) -> dict[str, Any]:
        self.ask(identity, "tools/call", name=name, arguments=arguments)
        return self.answer(identity)

    def answer(self, identity: int | str | None) -> dict[str, Any]:
        """The next message with this id; what comes before it is skipped."""
        deadline = time.monotonic() + _SECONDS
        while True:
            line = self._line(deadline)
            message: dict[str, Any] = json.loads(line)
            if "method" not in message and message.get("id") == identity:
                return message

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "no answer in time"
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            assert piece, self._process.communicate()[1].decode()
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def close_pipes(self) -> None:
        """As a client that has gone, without a word."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait(_SECONDS)


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


class HttpServer:
    """`corral mcp serve --http 0`, and how to reach it."""

    def __init__(self, process: subprocess.Popen[str], url: str, token_file: Path) -> None:
        self._process = process
        self.url, self.token_file = url, token_file
        self.token = token_file.read_text()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def end(self, number: int) -> int:
        self._process.send_signal(number)
        return self._process.wait(_SECONDS)

    @asynccontextmanager
    async def client(self, path: str = "", **options: Any) -> AsyncIterator[Client]:
        """The official client, with the token."""
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        async with httpx2.AsyncClient(headers=self.headers, timeout=_SECONDS) as http:
            async with Client(streamable_http_client(self.url + path, http_client=http), **options) as client:
                yield client


@contextmanager
def http_server(home: McpHome, environment: dict[str, str]) -> Iterator[HttpServer]:
    with subprocess.Popen(
        [CORRAL, "mcp", "serve", "--http", "0"],
        cwd=home.project,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            url, file = (process.stdout.readline().split()[-1] for _ in range(2))
            yield HttpServer(process, url, Path(file))
        finally:
            process.kill()


@asynccontextmanager
async def stdio_client(home: McpHome, *words: str, **options: Any) -> AsyncIterator[Client]:
    """The official client, with a server of its own on stdio."""
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(
        command=CORRAL, args=["mcp", "serve", *words], cwd=str(home.project), env=home.environment
    )
    async with Client(server, **options) as client:
        yield client


async def say(client: Client, tool: str, /, **arguments: Any) -> str:
    """What a tool answers."""
    done = await client.call_tool(tool, arguments)
    return str(done.content[0].text)  # type: ignore[union-attr]


def wait_for_processes(mark: str, *, count: int) -> None:
    """Until so many processes of the host have a text among their arguments."""
    deadline = time.monotonic() + _SECONDS
    while len(find_by_argument(mark)) != count:
        assert time.monotonic() < deadline, (
            f"{len(find_by_argument(mark))} processes with {mark}, not {count}"
        )
        time.sleep(0.02)


async def wait_for_processes_soon(mark: str, *, count: int) -> None:
    """The same, for a test that runs a client meanwhile."""
    await asyncio.to_thread(wait_for_processes, mark, count=count)
