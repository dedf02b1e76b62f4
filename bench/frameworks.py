"""What an adapter's command costs over `session.run`, in turns, on the same session.

    .frameworks/pydantic-ai/bin/python bench/frameworks.py pydantic-ai [ROUNDS]

It runs in the environment of the framework (`make frameworks`). Both run the program `true`.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import corral
from corral.integrations.agent_session import AgentSession

TRUE = ["/bin/true"]
MOST_MILLISECONDS = 1.0

Command = Callable[[], Awaitable[Any]]


def pydantic_ai(session: AgentSession) -> Command:
    from corral.integrations.pydantic_ai import CorralWorkspaceBackend

    backend = CorralWorkspaceBackend(session=session)
    return lambda: backend.run(TRUE)


def deepagents(session: AgentSession) -> Command:
    from corral.integrations.deepagents import CorralSandbox

    backend = CorralSandbox(session=session)

    async def execute() -> Any:  # a shell line, as is the other one
        return backend.execute("true")

    return execute


def inspect(session: AgentSession) -> Command:
    from corral.integrations.inspect_ai import CorralSandboxConfig, CorralSandboxEnvironment

    environment = CorralSandboxEnvironment(CorralSandboxConfig())
    environment.session.close()
    environment.session = session
    return lambda: environment.exec(TRUE)


def openai_agents(session: AgentSession) -> Command:
    from agents.sandbox import Manifest
    from agents.sandbox.snapshot import NoopSnapshot

    from corral.integrations.openai_agents import CorralSandboxSession, CorralSandboxSessionState

    manifest = Manifest(root=session.workspace)
    state = CorralSandboxSessionState(manifest=manifest, snapshot=NoopSnapshot(id="none"))
    inner = CorralSandboxSession(state, "moderate", "auto")
    inner.session = session
    return lambda: inner.exec(*TRUE, shell=False)


ADAPTERS: dict[str, Callable[[AgentSession], Command]] = {
    "pydantic-ai": pydantic_ai,
    "deepagents": deepagents,
    "inspect": inspect,
    "openai-agents": openai_agents,
}
#: What is compared with an adapter that takes shell lines.
LINES = {"deepagents": ["/bin/bash", "-c", "exec 2>&1\ntrue"]}


class Measured(NamedTuple):
    """Milliseconds: the medians of both, and of their processor time, which is what is judged.

    On a busy machine a thread that is woken waits for a processor; processor time does not grow by that.
    """

    plain: float
    adapter: float
    plain_used: float
    adapter_used: float


async def measure(name: str, rounds: int) -> Measured:
    """Run both in each round, one after the other, so that what else the machine does falls on both."""
    argv = LINES.get(name, TRUE)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="corral-bench-"))
        session = stack.enter_context(AgentSession(corral.Sandbox(workspace=directory)))
        plain, command = session.open(), ADAPTERS[name](session)
        spent: list[tuple[float, ...]] = []
        for _ in range(rounds + 5):
            began, began_used = time.perf_counter(), time.process_time()
            plain.run(argv)
            between, between_used = time.perf_counter(), time.process_time()
            await command()
            ended, ended_used = time.perf_counter(), time.process_time()
            used = between_used - began_used, ended_used - between_used
            spent.append((between - began, ended - between, *used))
    kept = spent[5:]  # the first ones pay for what is kept afterwards
    return Measured(*(statistics.median(column) * 1000 for column in zip(*kept, strict=True)))


def main(name: str, rounds: int) -> int:
    """Print a row; the status is 1 where the goal is missed."""
    found = asyncio.run(measure(name, rounds))
    over = found.adapter_used - found.plain_used
    is_met = over <= MOST_MILLISECONDS
    cells = (f"{value:.2f}" for value in (*found, over))
    print(f"| {name} | {' | '.join(cells)} | {'met' if is_met else 'MISSED'} |")
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300))
