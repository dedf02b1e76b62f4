"""An agent of deepagents in a sandbox: the task, and what must not go wrong."""

from __future__ import annotations

import pytest
from agent_task import AgentTask
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
