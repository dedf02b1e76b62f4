"""A CodeExecutorAgent of AutoGen in a sandbox: the task, and what must not go wrong."""

from __future__ import annotations

import asyncio

import pytest
from agent_task import AgentTask
from autogen_agentchat.agents import CodeExecutorAgent
from autogen_agentchat.messages import TextMessage
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock

import corral
from corral.integrations.autogen import CorralCodeExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


async def test_a_scripted_agent_completes_a_task(tmp_path: Path) -> None:
    task = AgentTask(tmp_path)
    told = []
    async with CorralCodeExecutor(corral.Sandbox(workspace=task.workspace)) as executor:
        agent = CodeExecutorAgent("executor", code_executor=executor)
        for command in task.commands:
            message = TextMessage(content=f"```sh\n{command}\n```", source="coder")
            told.append((await agent.on_messages([message], CancellationToken())).chat_message.content)

    task.judge(told)


async def test_blocks_run_until_one_fails(tmp_path: Path) -> None:
    blocks = [
        CodeBlock("import sys; print(sys.stdin.read() + 'first'); x = 1", "python"),
        CodeBlock("echo second; exit 3", "sh"),
        CodeBlock("print('third')", "python"),
    ]
    async with CorralCodeExecutor(corral.Sandbox(workspace=tmp_path), timeout=1) as executor:
        done = await executor.execute_code_blocks(blocks, CancellationToken())
        assert (done.exit_code, done.output) == (3, "first\nsecond\n")
        done = await executor.execute_code_blocks([CodeBlock("x", "perl")], CancellationToken())
        assert done.exit_code == 1 and "write Python or shell" in done.output
        done = await executor.execute_code_blocks([CodeBlock("sleep 1000", "sh")], CancellationToken())
        assert done.exit_code == 124 and "[timed out]" in done.output
        await executor.execute_code_blocks([CodeBlock("touch /tmp/note", "sh")], CancellationToken())
        await executor.restart()
        done = await executor.execute_code_blocks([CodeBlock("ls /tmp", "sh")], CancellationToken())
        assert "note" not in done.output


async def test_a_cancelled_token_ends_the_block(tmp_path: Path) -> None:
    async with CorralCodeExecutor(corral.Sandbox(workspace=tmp_path)) as executor:
        token = CancellationToken()
        block = CodeBlock("touch begun; sleep 1000", "sh")
        work = asyncio.create_task(executor.execute_code_blocks([block], token))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        done = await executor.execute_code_blocks([CodeBlock("ps -e -o args=", "sh")], CancellationToken())
        assert "sleep" not in done.output
