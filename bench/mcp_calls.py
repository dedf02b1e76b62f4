"""Measure the MCP server: a bash call beside `session.run` of the same command, in turns, and fifty clients.

`python bench/mcp_calls.py` prints the tables, `--record` puts them into docs/mcp.md as well; `--quick` only
looks whether everything can be measured at all. Clients are the official ones, over real stdio and HTTP.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from document import measure_and_tell
from goals import Goal
from report import goal_lines, table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from corral.integrations.bash_tool import SHELL
from corral.sandbox import Sandbox
from support.keeping import children_of
from support.mcp_clients import HttpServer, McpHome, http_server, stdio_client

RUN, STDIO, HTTP, NOTHING = "session.run", "MCP, stdio", "MCP, HTTP", "MCP, stdio, a call that runs nothing"
_CLIENTS, _CALLS = 50, 5


class Found(NamedTuple):
    spent: dict[str, list[float]]  # milliseconds of each call
    processor: dict[str, float]  # milliseconds of a call, in our own process and the server's together
    failures: int
    crowd_seconds: float


def measure(*, quick: bool) -> Found:
    """All of it, with servers of our own in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as top:
        home = McpHome(Path(top))
        os.environ.update(home.environment)  # what a session checks depends on whose home it is in
        with http_server(home, home.environment) as server:
            spent, processor = asyncio.run(_in_turns(home, server, 10 if quick else 300))
            began = time.monotonic()
            failures = asyncio.run(_crowd(server, 5 if quick else _CLIENTS))
            return Found(spent, processor, failures, time.monotonic() - began)


def _processor_ms(pids: list[int]) -> float:
    """What these processes have used so far, all threads together; not what they started."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return 1000 * sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


async def _in_turns(
    home: McpHome, server: HttpServer, rounds: int
) -> tuple[dict[str, list[float]], dict[str, float]]:
    processor: dict[str, float] = {}
    spent: dict[str, list[float]] = {name: [] for name in (RUN, STDIO, HTTP, NOTHING)}
    async with stdio_client(home) as direct, server.client() as remote:
        pids = [os.getpid(), *children_of(os.getpid())]
        with Sandbox(workspace=home.project).session() as session:

            async def once(name: str) -> None:
                began = time.perf_counter()
                if name == RUN:
                    session.run((SHELL, "-c", "true"))
                elif name == NOTHING:
                    await direct.call_tool("explain_denial", {})
                else:
                    await (direct if name == STDIO else remote).call_tool("bash", {"command": "true"})
                spent[name].append(1000 * (time.perf_counter() - began))

            for number in range(rounds + 1):
                for name in spent:
                    await once(name)
                if not number:  # the first one makes the sandbox
                    for samples in spent.values():
                        samples.clear()
            for name, samples in spent.items():  # in blocks: the clock of it ticks a hundred times a second
                used, kept = _processor_ms(pids), len(samples)
                for _ in range(rounds):
                    await once(name)
                processor[name] = (_processor_ms(pids) - used) / rounds
                del samples[kept:]
    return spent, processor


async def _crowd(server: HttpServer, count: int) -> int:
    """How many calls of so many clients at once have failed."""
    ready = asyncio.Barrier(count)

    async def work(number: int) -> int:
        async with server.client(mode="legacy") as client:
            await ready.wait()
            failures = 0
            for call in range(_CALLS):
                done: Any = await client.call_tool("bash", {"command": f"echo {number} {call}"})
                failures += done.is_error or done.content[0].text != f"{number} {call}"
            return failures

    return sum(await asyncio.gather(*(work(number) for number in range(count))))


def _quick_ones(samples: list[float]) -> float:
    """The median of the quickest tenth: what it takes while the machine has nothing else to do."""
    quickest = sorted(samples)[: max(1, len(samples) // 10)]
    return statistics.median(quickest)


def judge(found: Found) -> list[Goal]:
    over = found.processor[STDIO] - found.processor[RUN]
    return [
        Goal("a bash call by MCP, client and server: <= 3 ms of processor over session.run", 3.0, over),
        Goal("fifty clients at once: calls that fail", 0.0, found.failures),
    ]


def render(found: Found, judged: list[Goal]) -> Iterator[str]:
    base = found.spent[RUN]
    cells = [
        (
            name,
            f"{statistics.median(samples):.2f}",
            f"{_quick_ones(samples):.2f}",
            f"{_quick_ones(samples) / _quick_ones(base):.2f}",
            f"{found.processor[name]:.2f}",
            f"{found.processor[name] - found.processor[RUN]:+.2f}",
        )
        for name, samples in found.spent.items()
    ]
    heads = ("`true` in a shell, ms", "Median", "Quickest tenth", "Ratio", "Processor", "Over session.run")
    yield from table(heads, cells, {1, 2, 3, 4, 5})
    yield ""
    yield f"{_CLIENTS} clients with {_CALLS} calls each took {found.crowd_seconds:.1f} s, sandboxes included."
    yield ""
    yield from goal_lines(judged)


def main() -> int:
    return measure_and_tell(str(__doc__), measure, judge, render, document="mcp.md", part="mcp")


if __name__ == "__main__":
    sys.exit(main())
