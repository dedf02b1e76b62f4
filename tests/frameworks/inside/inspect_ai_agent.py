"""A task of Inspect AI in the provider `corral`, and what must not go wrong."""

from __future__ import annotations

import os

import pytest
from agent_task import SECRET, AgentTask
from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageTool, ModelOutput, get_model
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import (
    SandboxEnvironmentSpec,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandbox,
)

import corral
from corral.integrations.inspect_ai import CorralSandboxConfig, CorralSandboxEnvironment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


@scorer(metrics=[accuracy()])
def has_program() -> Any:
    async def score(_state: object, _target: object) -> Score:
        text = await sandbox().read_file("program.py")
        return Score(value=float("twice" in text))

    return score


class _Characters:
    """Counts characters instead of tokens: the table of tokens would be fetched from the network."""

    def encode(self, text: str, **_: Any) -> list[str]:
        return list(text)


@pytest.fixture(autouse=True)
def _without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("get_encoding", "encoding_for_model"):
        monkeypatch.setattr(f"tiktoken.{name}", lambda *_: _Characters())


@pytest.mark.parametrize(
    "spec",
    ["corral", ("corral", "moderate"), SandboxEnvironmentSpec("corral", CorralSandboxConfig())],
    ids=["name", "profile", "configuration"],
)
async def test_a_scripted_agent_completes_a_task(tmp_path: Path, spec: Any) -> None:
    task = AgentTask(tmp_path)
    outputs = [
        ModelOutput.for_tool_call("mockllm/model", "bash", {"command": command}) for command in task.commands
    ]
    outputs.append(ModelOutput.from_content("mockllm/model", "Done."))
    (log,) = await eval_async(
        Task(
            dataset=[Sample("go on", files={"given.txt": "given"})],
            solver=[use_tools(bash(timeout=60)), generate()],
            scorer=has_program(),
            sandbox=spec,
        ),
        model=get_model("mockllm/model", custom_outputs=outputs),
        log_dir=str(tmp_path / "logs"),
    )

    assert log.status == "success", log.error
    (sample,) = log.samples
    assert next(iter(sample.scores.values())).value == 1.0
    assert sample.output.completion == "Done."
    (task.workspace / "program.py").touch()  # the sample's own workspace is gone with it
    task.judge([each.text for each in sample.messages if isinstance(each, ChatMessageTool)])


async def _environment(config: Any = None) -> CorralSandboxEnvironment:
    made = await CorralSandboxEnvironment.sample_init("task", config, {})
    return made["default"].as_type(CorralSandboxEnvironment)


async def test_no_path_leads_out_of_the_sandbox(tmp_path: Path) -> None:
    task = AgentTask(tmp_path)
    environment = await _environment()
    workspace = environment.session.workspace
    try:
        await environment.exec(["ln", "-s", str(task.secret), "link"])
        with open(f"{workspace}/link", encoding="utf-8") as file:
            assert file.read() == SECRET  # a control
        for path in (str(task.secret), f"{workspace}/..{task.secret}", "link"):
            with pytest.raises(OSError):
                await environment.read_file(path)
        with pytest.raises(ValueError):
            await environment.read_file("a\0b")
        with pytest.raises((SandboxUnavailableError, PermissionError)):
            await environment.exec(["true"], cwd=str(task.secret.parent))
    finally:
        await CorralSandboxEnvironment.sample_cleanup("task", None, {"default": environment}, False)
        await CorralSandboxEnvironment.sample_cleanup("task", None, {"default": environment}, True)
    assert not os.path.exists(workspace)
    with pytest.raises(SandboxUnavailableError):
        await environment.exec(["true"])


async def test_samples_share_nothing() -> None:
    first, second = await _environment(), await _environment()
    try:
        await first.write_file("note", "mine")
        await first.write_file("/tmp/note", "mine")
        for path in ("note", "/tmp/note", f"{first.session.workspace}/note"):
            with pytest.raises(FileNotFoundError):
                await second.read_file(path)
    finally:
        for each in (first, second):
            await CorralSandboxEnvironment.sample_cleanup("task", None, {"default": each}, False)


async def test_a_configuration_says_what_is_permitted(tmp_path: Path) -> None:
    with pytest.raises(corral.PolicyError):
        await _environment("no-such-profile")
    with pytest.raises(ValueError):
        await _environment(str(tmp_path))
    with pytest.raises(ValueError):
        CorralSandboxConfig(profil="strict")
    environment = await _environment(CorralSandboxConfig(capabilities=("time:limit:1s",)))
    try:
        with pytest.raises(TimeoutError):
            await environment.exec(["sleep", "1000"])
        with pytest.raises(SandboxUserUnsupportedError):
            await environment.exec(["id"], user="somebody")
    finally:
        await CorralSandboxEnvironment.sample_cleanup("task", None, {"default": environment}, False)
