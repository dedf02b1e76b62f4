"""`corral mcp wrap`: somebody else's server in a sandbox, with the official client on its stdio."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

from support.mcp_clients import CORRAL, say, wait_for_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.mcp_clients import McpHome

#: A server as others write them: a tool that reads any file, and one that writes any.
_SERVER = """
import asyncio
from mcp.server.mcpserver import MCPServer

server = MCPServer("others")

@server.tool()
def look(path: str) -> str:
    try:
        return open(path).read()
    except OSError as problem:
        return repr(problem)

@server.tool()
def change(path: str) -> str:
    try:
        open(path, "w").write("changed")
        return "done"
    except OSError as problem:
        return repr(problem)

server.run()
"""


def test_a_server_in_a_sandbox_does_its_work_and_nothing_else(home: McpHome, tmp_path: Path) -> None:
    """Unconfined it hands the secret out; wrapped, it has what its policy grants."""
    from mcp import Client, StdioServerParameters

    script, granted = tmp_path / "server.py", tmp_path / "granted.txt"
    script.write_text(_SERVER)
    granted.write_text("for the server")

    async def work(*words: str) -> list[str]:
        server = StdioServerParameters(
            command=words[0], args=[*words[1:]], cwd=str(home.project), env=home.environment
        )
        async with Client(server) as client:
            return [
                await say(client, "look", path=str(granted)),
                await say(client, "look", path=str(home.secret)),
                await say(client, "change", path=str(home.project / "made")),
            ]

    plain = (sys.executable, str(script))
    assert asyncio.run(work(*plain)) == ["for the server", "hunter2", "done"]  # the control
    (home.project / "made").unlink()
    grants = [f"--read={path}" for path in (script, granted, sys.prefix)]

    seen = asyncio.run(work(CORRAL, "mcp", "wrap", *grants, "--", *plain))

    assert seen[0] == "for the server"
    assert "hunter2" not in seen[1]
    assert "done" not in seen[2]
    assert not (home.project / "made").exists()


def test_lines_signals_statuses_and_refusals_pass(home: McpHome) -> None:
    """A line comes back before the next is sent; SIGTERM reaches the server, whose status is corral's."""
    mark = f"24680.{os.getpid()}"
    # In `wait`, since a signal just before a shell starts a command is handled only when that has ended.
    script = (
        f"trap 'exit 7' TERM; (trap '' TERM; exec sleep {mark}) &"
        ' while read -r line; do echo "got $line"; done; wait'
    )
    with subprocess.Popen(
        [CORRAL, "mcp", "wrap", "--allow", "allowed.example.org", "--", "/bin/sh", "-c", script],
        cwd=home.project,
        env=home.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"got {number}\n"
        process.send_signal(signal.SIGTERM)
        process.stdin.close()

        assert process.wait(60) == 7
    wait_for_processes(mark, count=0)

    refused = subprocess.run(
        [
            CORRAL,
            "mcp",
            "wrap",
            "--allow",
            "allowed.example.org",
            "--",
            "curl",
            "-s",
            "http://other.example.org",
        ],
        cwd=home.project,
        env=home.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode != 0
    assert refused.stdout == ""
    assert "other.example.org" in refused.stderr
    assert "--allow" in refused.stderr


def test_without_a_directory_of_its_own_nothing_of_it_is_left(home: McpHome, tmp_path: Path) -> None:
    """The server works in an empty directory, which it may write, and which is gone afterwards."""
    (home.project / "file").write_text("x")
    places = {"TMPDIR": str(tmp_path / "t")}
    (tmp_path / "t").mkdir()
    done = subprocess.run(
        [CORRAL, "mcp", "wrap", "--", "/bin/sh", "-c", "pwd; touch made; ls"],
        cwd=home.project,
        env={**home.environment, **places},
        capture_output=True,
        text=True,
        check=True,
    )
    named = subprocess.run(
        [CORRAL, "mcp", "wrap", "--cwd", ".", "--", "cat", "file"],
        cwd=home.project,
        env=home.environment,
        capture_output=True,
        text=True,
        check=True,
    )

    where, listed = done.stdout.splitlines()
    assert listed == "made"
    assert where.startswith(f"{tmp_path}/t/corral-mcp-")
    assert os.listdir(tmp_path / "t") == []
    assert named.stdout == "x"
