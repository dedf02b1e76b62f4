"""An agent does a small task through MCP, with the official client: over stdio and HTTP."""

from __future__ import annotations

import asyncio
import os

import pytest

from support.mcp_clients import say, stdio_client, wait_for_processes_soon

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp import Client

    from support.mcp_clients import HttpServer, McpHome

_PROGRAM = "def area(width, height):\n    return width + height\n"
_TEST = "from shapes import area\n\nassert area(3, 4) == 12, area(3, 4)\nprint('all well')\n"


async def _work(client: Client, home: McpHome) -> None:
    """Write a program, see its test fail, mend it, fail to read a secret, and be told why."""
    assert "wrote" in await say(client, "write_file", path="lib/shapes.py", content=_PROGRAM)
    await say(client, "write_file", path="lib/test_shapes.py", content=_TEST)
    await say(client, "bash", command="cd lib && export CHECKED=yes")
    failed = await say(client, "bash", command="python3 test_shapes.py")
    assert "AssertionError: 7" in failed
    assert "exit status 1" in failed

    # Of another size: Python takes a module for unchanged by its size and the second that it was written in.
    await say(
        client,
        "edit_file",
        path="lib/shapes.py",
        old_string="width + height",
        new_string="(width * height)",
    )
    assert await say(client, "bash", command='echo "$CHECKED"; python3 test_shapes.py') == "yes\nall well"
    assert await say(client, "python", code="import shapes\nprint(shapes.area(5, 6))") == "30"
    assert "shapes.py" in await say(client, "list_dir", path="lib")
    assert await say(client, "read_file", path="lib/shapes.py", offset=2, limit=1) == (
        "    return (width * height)\n[corral: lines 2 to 2 of 2 are shown]"
    )

    assert home.secret.read_text() == "hunter2"  # it is there, and this process may read it
    refused = await client.call_tool("bash", {"command": f"cat {home.secret}"})
    told = refused.content[0].text  # type: ignore[union-attr]
    assert refused.is_error
    assert "hunter2" not in told
    assert f"{home.secret} is not visible in the sandbox" in told
    assert "only they can permit it (--read " in told
    assert "hunter2" not in await say(client, "read_file", path=str(home.secret))
    assert f"$ cat {home.secret}" in await say(client, "explain_denial")
    assert "--read" in await say(client, "explain_denial", target=str(home.secret))
    assert "not allowed" in await say(client, "explain_denial", target="https://example.org/")
    assert f"workspace: {home.project}" in await say(client, "sandbox_status")


def test_an_agent_works_over_stdio(home: McpHome) -> None:
    """The program that it wrote is on the host afterwards; nothing of the server is."""

    async def work() -> None:
        async with stdio_client(home) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools == {
                *("bash", "python", "read_file", "write_file", "edit_file", "list_dir"),
                *("sandbox_status", "explain_denial"),
            }
            await _work(client, home)

    asyncio.run(work())

    assert (home.project / "lib" / "shapes.py").read_text() == _PROGRAM.replace(
        "width + height", "(width * height)"
    )


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_an_agent_works_over_http(shared_home: McpHome, served: HttpServer, mode: str) -> None:
    async def work() -> None:
        async with served.client(f"/{mode}", mode=mode) as client:
            await _work(client, shared_home)

    asyncio.run(work())

    assert (shared_home.project / "lib" / "shapes.py").read_text() == _PROGRAM.replace(
        "width + height", "(width * height)"
    )


def test_a_call_tells_of_its_progress_and_ends_with_all_that_it_started_when_cancelled(
    shared_home: McpHome, served: HttpServer
) -> None:
    """The command and what it put in the background are on the host until the client cancels the call."""
    mark = f"98765.{os.getpid()}"
    told: list[str | None] = []

    async def hear(_done: float, _total: float | None, message: str | None) -> None:
        told.append(message)

    async def work(mode: str) -> None:
        async with served.client(mode=mode) as client:
            line = f"setsid sleep {mark}1 & echo started; sleep {mark}2"
            call = asyncio.ensure_future(client.call_tool("bash", {"command": line}, progress_callback=hear))
            await wait_for_processes_soon(mark, count=2 + 1)  # the shell has the line among its arguments
            while not told:
                await asyncio.sleep(0.05)
            call.cancel()
            await asyncio.wait([call])
            await wait_for_processes_soon(mark, count=0)
            assert await say(client, "bash", command="echo still here") == "still here"

    for mode in ("legacy", "auto"):
        told.clear()
        asyncio.run(work(mode))

        assert "started" in str(told[0])
