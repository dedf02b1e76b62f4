"""An agent of deepagents in a sandbox: the task, and what must not go wrong."""

from __future__ import annotations

import asyncio

import pytest
from agent_task import SECRET, AgentTask
from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage

import corral
from corral.integrations.deepagents import CorralSandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


class ScriptedChat(GenericFakeChatModel):
    def bind_tools(self, *_: Any, **__: Any) -> ScriptedChat:
        return self


def _says(commands: list[str]) -> list[AIMessage]:
    calls = [
        AIMessage("", tool_calls=[{"name": "execute", "args": {"command": command}, "id": f"call_{number}"}])
        for number, command in enumerate(commands)
    ]
    return [*calls, AIMessage("Done.")]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_scripted_agent_completes_a_task(tmp_path: Path, is_async: bool) -> None:
    task = AgentTask(tmp_path)
    with CorralSandbox(corral.Sandbox(workspace=task.workspace)) as backend:
        agent = create_deep_agent(model=ScriptedChat(messages=iter(_says(task.commands))), backend=backend)
        question = {"messages": [{"role": "user", "content": "go on"}]}
        state = await agent.ainvoke(question) if is_async else agent.invoke(question)

    assert state["messages"][-1].content == "Done."
    task.judge([str(each.content) for each in state["messages"] if isinstance(each, ToolMessage)])


def test_no_path_leads_out_of_the_sandbox(tmp_path: Path) -> None:
    task = AgentTask(tmp_path)
    (task.workspace / "link").symlink_to(task.secret)
    assert (task.workspace / "link").read_text() == SECRET  # a control
    paths = [str(task.secret), f"{task.workspace}/../elsewhere/key", f"{task.workspace}/link", "a\0b", "key"]
    with CorralSandbox(corral.Sandbox(workspace=task.workspace)) as backend:
        answers = [*backend.download_files(paths), *(backend.read(path) for path in paths)]
        backend.upload_files([(path, b"planted") for path in paths])

    assert [each.error for each in answers if not each.error] == []
    assert SECRET not in str(answers)
    assert task.secret.read_text() == SECRET


async def test_a_cancelled_command_is_ended(tmp_path: Path) -> None:
    with CorralSandbox(corral.Sandbox(workspace=tmp_path)) as backend:
        task = asyncio.create_task(backend.aexecute("touch begun; sleep 1000; touch late"))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert "sleep 1000" not in backend.execute("ps -e -o args=").output
        assert backend.execute("sleep 1000", timeout=1).exit_code == 124


def test_a_closed_sandbox_says_so(tmp_path: Path) -> None:
    backend = CorralSandbox(corral.Sandbox(workspace=tmp_path))
    backend.close()
    backend.close()

    assert "accepts no more commands" in backend.execute("true").output
    assert "accepts no more commands" in str(backend.download_files(["/etc/passwd"])[0].error)
