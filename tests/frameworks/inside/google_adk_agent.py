"""An agent of Google ADK in a sandbox: the task, and what must not go wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from agent_task import SECRET, AgentTask
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.environment import EnvironmentToolset
from google.genai import types

import corral
from corral.integrations.google_adk import CorralAgentEnvironment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any


class ScriptedLlm(BaseLlm):
    commands: list[str]

    async def generate_content_async(self, request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:
        parts = [part for content in request.contents for part in content.parts]
        number = sum(1 for part in parts if part.function_response)
        part = types.Part(text="Done.")
        if number < len(self.commands):
            call = types.FunctionCall(name="Execute", args={"command": self.commands[number]})
            part = types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def test_a_scripted_agent_completes_a_task(tmp_path: Path) -> None:
    task = AgentTask(tmp_path)
    toolset = EnvironmentToolset(environment=CorralAgentEnvironment(corral.Sandbox(workspace=task.workspace)))
    agent = LlmAgent(
        name="coder", model=ScriptedLlm(model="scripted", commands=task.commands), tools=[toolset]
    )
    runner = InMemoryRunner(agent=agent, app_name="tests")
    session = await runner.session_service.create_session(app_name="tests", user_id="somebody")
    told, last = [], ""
    message = types.Content(role="user", parts=[types.Part(text="go on")])
    async for event in runner.run_async(user_id="somebody", session_id=session.id, new_message=message):
        for part in event.content.parts if event.content else ():
            if part.function_response:
                told.append("\n".join(map(str, part.function_response.response.values())))
            last = part.text or last
    await toolset.close()

    assert last == "Done."
    task.judge(told)


async def test_files_and_time(tmp_path: Path) -> None:
    task = AgentTask(tmp_path)
    environment = CorralAgentEnvironment(corral.Sandbox(workspace=task.workspace))
    await environment.initialize()
    await environment.write_file(Path("a/b"), "text")
    assert await environment.read_file(task.workspace / "a/b") == b"text"
    (task.workspace / "link").symlink_to(task.secret)
    assert (task.workspace / "link").read_text() == SECRET  # a control
    for path in ("link", str(task.secret), "../elsewhere/key"):
        with pytest.raises(OSError):
            await environment.read_file(Path(path))

    assert (await environment.execute("sleep 1000", timeout=0.5)).timed_out
    work = asyncio.create_task(environment.execute("touch begun; sleep 2000"))
    while not (task.workspace / "begun").exists():
        await asyncio.sleep(0.01)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert "sleep" not in (await environment.execute("ps -e -o args=")).stdout
    await environment.close()
    await environment.close()
    assert "accepts no more commands" in (await environment.execute("true")).stderr
