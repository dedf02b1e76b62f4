"""An agent of Pydantic AI in a sandbox: the task, and what must not go wrong."""

from __future__ import annotations

import contextlib

import pytest
from agent_task import SECRET, AgentTask
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.workspaces import (
    Workspace,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceUnavailableError,
)

import corral
from corral.integrations.pydantic_ai import CorralWorkspace, CorralWorkspaceBackend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[CorralWorkspaceBackend]:
    async with CorralWorkspaceBackend(corral.Sandbox(workspace=tmp_path)) as made:
        yield made


async def test_a_scripted_agent_completes_a_task(tmp_path: Path) -> None:
    task = AgentTask(tmp_path)
    told: list[str] = []

    def model(messages: list, _info: object) -> ModelResponse:
        told[:] = [
            str(part.content)
            for message in messages
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        if len(told) == len(task.commands):
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart("bash", {"command": task.commands[len(told)]})])

    async with CorralWorkspace(corral.Sandbox(workspace=task.workspace)) as workspace:
        agent = Agent(FunctionModel(model), capabilities=[workspace])

        @agent.tool
        async def bash(ctx: RunContext, command: str) -> str:
            done = await ctx.workspace.run(command, shell=True)
            return f"{done.stdout}{done.stderr}[exit status {done.exit_code}]"

        result = await agent.run("go on")

    assert result.output == "Done."
    task.judge(told)


async def test_no_path_leads_out_of_the_sandbox(backend: CorralWorkspaceBackend, tmp_path: Path) -> None:
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    secret.write_text(SECRET)
    (tmp_path / "link").symlink_to(secret)
    assert (tmp_path / "link").read_text() == SECRET  # a control
    workspace = Workspace(backend)

    for path in (f"../{secret.name}", "link", str(secret)):
        with pytest.raises(OSError):
            await workspace.read_bytes(path)
    with pytest.raises(ValueError):
        await workspace.read_bytes("a\0b")
    with contextlib.suppress(OSError):
        await workspace.write_bytes("link", b"planted")
    assert secret.read_text() == SECRET


async def test_a_reference_leads_to_this_sandbox_or_to_none(tmp_path: Path) -> None:
    async with CorralWorkspace(corral.Sandbox(workspace=tmp_path)) as workspace:
        backend = workspace.get_workspace(None, ref=None)
        assert backend is not None and backend.ref is None
        await backend.working_dir()

        assert workspace.get_workspace(None, ref=backend.ref) is backend
        for ref in (WorkspaceRef(provider="corral", id="another"), WorkspaceRef(provider="local", id="/")):
            assert workspace.get_workspace(None, ref=ref) is None


async def test_a_closed_sandbox_is_unavailable(backend: CorralWorkspaceBackend) -> None:
    await backend.run(["true"])
    await backend.close()
    await backend.close()

    with pytest.raises(WorkspaceUnavailableError):
        await backend.run(["true"])
    with pytest.raises(WorkspaceUnavailableError):
        await backend.read_bytes("/etc/passwd")


async def test_output_that_is_cut_is_an_error(backend: CorralWorkspaceBackend) -> None:
    with pytest.raises(WorkspaceOutputLimitError):
        await backend.run("yes | head -c 20000000", shell=True)
