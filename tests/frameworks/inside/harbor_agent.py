"""A trial of Harbor in a sandbox: its own classes from the task to the reward, with a scripted agent."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from agent_task import SECRET, AgentTask
from harbor.agents.base import BaseAgent
from harbor.models.task.config import EnvironmentConfig as TaskEnvironment
from harbor.models.task.config import NetworkMode, NetworkPolicy
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.models.trial.paths import TrialPaths
from harbor.trial.trial import Trial

from corral.integrations.harbor import CorralHarborEnvironment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ENVIRONMENT = "corral.integrations.harbor:CorralHarborEnvironment"
_CONFIG = '[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n[environment]\nworkdir = "/app"\n'
_TEST = """#!/bin/sh
cd /app && python3 check.py && python3 -c 'import program; assert program.twice(4) == 8' \
    && [ "$(cat given)" = given ] && echo 1 > /logs/verifier/reward.txt
"""


class ScriptedAgent(BaseAgent):
    """Asks for the commands of a file, and keeps what it is told."""

    def __init__(self, *arguments: Any, script: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._script = Path(script)

    @staticmethod
    def name() -> str:
        return "scripted"

    def version(self) -> str:
        return "1"

    async def setup(self, environment: Any) -> None:
        await environment.exec("true")

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        told = []
        for command in json.loads(self._script.read_text()):
            done = await environment.exec(command)
            told.append(f"{done.stdout}\n{done.stderr}")
        await environment.exec(
            "ln -s /etc /logs/agent/out; ln -s kept /logs/agent/in; echo x > /logs/agent/kept"
        )
        self._script.with_name("told").write_text(json.dumps(told))


def _write_task(place: Path) -> Path:
    (place / "environment").mkdir(parents=True)
    (place / "tests").mkdir()
    (place / "task.toml").write_text(_CONFIG)
    (place / "instruction.md").write_text("Write program.py.")
    (place / "environment/given").write_text("given")
    (place / "tests/test.sh").write_text(_TEST)
    return place


async def _run(task: Path, directory: Path, script: Path) -> Any:
    config = TrialConfig(
        task=TaskConfig(path=task),
        trials_dir=directory / "trials",
        agent=AgentConfig(import_path=f"{__name__}:ScriptedAgent", kwargs={"script": str(script)}),
        environment=EnvironmentConfig(import_path=_ENVIRONMENT),
    )
    return await (await Trial.create(config)).run()


async def test_a_scripted_agent_completes_a_task(tmp_path: Path) -> None:
    task = AgentTask(tmp_path)
    script = tmp_path / "script"
    script.write_text(json.dumps([*task.commands, "cp program.py /logs/artifacts/"]))
    result = await _run(_write_task(tmp_path / "task"), tmp_path, script)

    assert result.exception_info is None, result.exception_info
    assert result.verifier_result.rewards == {"reward": 1}
    artifacts = next(tmp_path.glob("trials/*/artifacts/logs/artifacts"))
    task.judge(json.loads((tmp_path / "told").read_text())[:3], artifacts)
    assert not Path("/app").exists() and not Path("/logs").exists()


async def test_a_wrong_solution_has_no_reward(tmp_path: Path) -> None:
    """A control: the tests of the task do run."""
    script = tmp_path / "script"
    script.write_text(json.dumps(["touch check.py", "echo 'def twice(x): return x' > program.py"]))
    result = await _run(_write_task(tmp_path / "task"), tmp_path, script)

    assert (result.verifier_result is None) or result.verifier_result.rewards != {"reward": 1}


def _made(directory: Path, config: TaskEnvironment | None = None, **settings: Any) -> CorralHarborEnvironment:
    (directory / "environment").mkdir(exist_ok=True)
    return CorralHarborEnvironment(
        environment_dir=directory / "environment",
        environment_name="task",
        session_id="task__env",
        trial_paths=TrialPaths(trial_dir=directory / "trial"),
        task_env_config=config or TaskEnvironment(),
        **settings,
    )


async def test_files_time_and_users(tmp_path: Path) -> None:
    task, environment = AgentTask(tmp_path), _made(tmp_path)
    await environment.start(force_build=False)
    await environment.upload_file(task.secret, "/tests/a/b")
    assert (await environment.exec("cat /tests/a/b")).stdout == SECRET
    await environment.exec("mkdir -p /logs/d/sub; ln -s sub /logs/d/link; echo 1 > /logs/d/sub/f")
    await environment.download_dir("/logs/d", tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["sub"]
    (tmp_path / "out/sub").rename(tmp_path / "aside")
    (tmp_path / "out/sub").symlink_to(task.secret.parent)  # as if a command had got it there
    await environment.exec("echo 2 > /logs/d/sub/key")
    await environment.download_dir("/logs/d", tmp_path / "out")
    assert task.secret.read_text() == SECRET
    assert (tmp_path / "out/sub/key").read_text() == "2\n"
    await environment.exec(f"ln -s {task.secret} /logs/leads-out")
    with pytest.raises(Exception, match="leads-out"):
        await environment.download_dir("/logs", tmp_path / "whole")

    with pytest.raises(RuntimeError, match="timed out"):
        await environment.exec("sleep 1000", timeout_sec=1)
    assert "sleep" not in (await environment.exec("ps -e -o args=")).stdout
    with pytest.raises(ValueError, match="another"):
        await environment.exec("true", user="somebody")
    workspace = Path(environment.session.workspace)
    assert workspace.exists()
    await environment.stop(delete=True)
    await environment.stop(delete=True)
    assert not workspace.exists()


def test_what_cannot_be_had_is_refused(tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    _made(tmp_path)  # a control
    none = NetworkPolicy(network_mode=NetworkMode.NO_NETWORK)
    _made(tmp_path, network_policy=none)
    with pytest.raises(ValueError, match="no network"):
        _made(tmp_path, network_policy=none, capabilities=["network:https:example.org"])
    mount = {"type": "bind", "source": "/etc", "target": "/srv"}
    with pytest.raises(ValueError, match="mounts nothing at /srv"):
        _made(tmp_path, mounts=[mount])
    with pytest.raises(ValueError, match="needs a container image"):
        _made(tmp_path, TaskEnvironment(docker_image="debian"))
    (tmp_path / "environment/Dockerfile").write_text("FROM debian\n")
    with pytest.raises(ValueError, match="needs a container image"):
        _made(tmp_path)
    _made(tmp_path, ignore_image=True)
    shutil.rmtree(tmp_path / "environment")
