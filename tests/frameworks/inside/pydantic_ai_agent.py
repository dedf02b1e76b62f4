"""An agent of Pydantic AI in a sandbox: the task, and what must not go wrong."""

from __future__ import annotations

import pytest
from agent_task import AgentTask
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

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
