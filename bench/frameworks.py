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
    """Milliseconds: the medians of both, and of the difference in each round."""

    plain: float
    adapter: float
    over: float


async def measure(name: str, rounds: int) -> Measured:
    """Run both in each round, one after the other, so that what else the machine does falls on both."""
    argv = LINES.get(name, TRUE)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="corral-bench-"))
        session = stack.enter_context(AgentSession(corral.Sandbox(workspace=directory)))
        plain, command = session.open(), ADAPTERS[name](session)
        spent: list[tuple[float, float]] = []
        for _ in range(rounds + 5):
            began = time.perf_counter()
            plain.run(argv)
            between = time.perf_counter()
            await command()
            spent.append((between - began, time.perf_counter() - between))
    kept = spent[5:]  # the first ones pay for what is kept afterwards
    columns = ([a for a, _ in kept], [b for _, b in kept], [b - a for a, b in kept])
    return Measured(*(statistics.median(column) * 1000 for column in columns))


def main(name: str, rounds: int) -> int:
    """Print a row; the status is 1 where the goal is missed."""
    found = asyncio.run(measure(name, rounds))
    is_met = found.over <= MOST_MILLISECONDS
    ratio = found.adapter / found.plain
    verdict = "met" if is_met else "MISSED"
    print(
        f"| {name} | {found.plain:.2f} | {found.adapter:.2f} | {ratio:.2f} | {found.over:.2f} | {verdict} |"
    )
    return int(not is_met)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 300))
