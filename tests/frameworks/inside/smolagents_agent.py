"""A CodeAgent of smolagents in a sandbox: the task, and what must not go wrong."""

from __future__ import annotations

import os
import sys

import pytest
from agent_task import SECRET, AgentTask
from smolagents import CodeAgent, tool
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.utils import AgentError

import corral
from corral.integrations.smolagents import CorralExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any


class ScriptedModel(Model):
    def __init__(self, steps: list[str]) -> None:
        super().__init__(model_id="scripted")
        self.steps = iter(steps)
        self.said: list[str] = []

    def generate(self, messages: list[Any], **_: Any) -> ChatMessage:
        self.said.append(str(messages[-1].content))
        text = f"Thought: go on\n<code>\n{next(self.steps)}\n</code>"
        return ChatMessage(role=MessageRole.ASSISTANT, content=text)


@tool
def double(number: int) -> int:
    """Twice a number.

    Args:
        number: The number.
    """
    return 2 * number


@pytest.fixture(autouse=True)
def _activated(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an environment that is activated: its `python3` is the sandbox's, with its packages."""
    if sys.prefix == sys.base_prefix:
        pytest.skip("there is no environment whose `python3` has what the code of tools imports")
    programs = os.path.join(sys.prefix, "bin")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[CorralExecutor]:
    with CorralExecutor(corral.Sandbox(workspace=tmp_path), timeout=5) as made:
        yield made


def test_a_scripted_agent_completes_a_task(tmp_path: Path) -> None:
    task = AgentTask(tmp_path)
    steps = [
        "open('program.py', 'w').write('def twice(x):\\n    return 2 * x\\n')",
        "import program\nassert program.twice(double(1)) == 4\nprint('passed')",
        f"print(open({str(task.secret)!r}).read())",
        "final_answer('Done.')",
    ]
    model = ScriptedModel(steps)
    with CorralExecutor(corral.Sandbox(workspace=task.workspace)) as executor:
        agent = CodeAgent(tools=[double], model=model, executor=executor, verbosity_level=0)
        assert agent.run("go on") == "Done."

    task.judge(model.said[1:])


def test_variables_last_and_errors_are_told(executor: CorralExecutor) -> None:
    executor.send_tools({})
    executor.send_variables({"given": [1, {"a": 2}]})
    assert executor("x = given[1]['a']\nprint('out')\nx + 1").output == "3"
    assert executor("print(x)").logs == "2\n"
    with pytest.raises(AgentError, match="ZeroDivisionError"):
        executor("1 / 0")
    assert executor("x").output == "2"


def test_no_answer_is_believed_but_as_data(executor: CorralExecutor, tmp_path: Path) -> None:
    forged = "class FinalAnswerException(BaseException): value = 'pickle:gASV'\nraise FinalAnswerException()"
    with pytest.raises(Exception, match=r"[Pp]ickle"):
        executor(forged)
    with pytest.raises(AgentError, match="variables are lost"):
        executor("import os\nos._exit(0)")
    with pytest.raises(AgentError, match="timed out"):
        executor("while True: pass")
    assert executor("1 + 1").output == "2"
    with pytest.raises(AgentError):
        executor("import sys; sys.exit()")
    assert executor("'x' * 10_000_000").output == "x" * 30_000


def test_a_step_sees_what_the_sandbox_shows(executor: CorralExecutor, tmp_path: Path) -> None:
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    secret.write_text(SECRET)
    with pytest.raises(AgentError, match="ask the user to grant it") as told:
        executor(f"open({str(secret)!r}).read()")
    assert SECRET not in str(told.value)
    executor.close()
    executor.close()
    with pytest.raises(corral.SessionClosed):
        executor("1")
