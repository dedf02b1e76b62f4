"""mini-swe-agent in a sandbox: the task, and what must not go wrong."""

from __future__ import annotations

import os

import pytest
from agent_task import AgentTask
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments import get_environment
from minisweagent.models.test_models import DeterministicModel, make_output

from corral.integrations.mini_swe_agent import CorralEnvironment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_CLASS = "corral.integrations.mini_swe_agent.CorralEnvironment"


def test_a_scripted_agent_completes_a_task(tmp_path: Path) -> None:
    task = AgentTask(tmp_path)
    done = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo Done."
    outputs = [make_output("a step", [{"command": command}]) for command in [*task.commands, done]]
    environment = get_environment({"environment_class": _CLASS, "cwd": str(task.workspace)})
    agent = DefaultAgent(
        DeterministicModel(outputs=outputs),
        environment,
        system_template="You are in {{cwd}}.",
        instance_template="{{task}}",
        cost_limit=0.0,
    )
    result = agent.run("go on")
    environment.close()

    assert (result["exit_status"], result["submission"]) == ("Submitted", "Done.\n")
    told = [message["content"] for message in agent.messages[2:] if message["role"] == "user"]
    task.judge(told[: len(task.commands)])
    assert agent.messages[0]["content"] == f"You are in {task.workspace}."


def test_variables_of_the_program_are_in_no_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "a key that nobody is to see")
    with CorralEnvironment(cwd=str(tmp_path), env={"GIVEN": "1"}) as environment:
        assert "API_KEY" not in environment.get_template_vars()
        assert "API_KEY" in os.environ  # a control
        told = environment.execute({"command": "env"})["output"]
    assert "API_KEY" not in told and "GIVEN=1" in told


def test_what_goes_wrong_is_told(tmp_path: Path) -> None:
    environment = CorralEnvironment(cwd=str(tmp_path), timeout=1)
    assert "timed out" in environment.execute({"command": "sleep 1000"})["exception_info"]
    assert environment.execute({"command": "a\0b"})["returncode"] == 126
    environment.close()
    environment.close()
    assert "accepts no more commands" in environment.execute({"command": "true"})["exception_info"]
    with pytest.raises(ValueError):
        CorralEnvironment(cwd=str(tmp_path), profil="strict")
