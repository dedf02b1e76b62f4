"""A sandbox agent of the OpenAI Agents SDK with corral's client, and what must not go wrong."""

from __future__ import annotations

import contextlib
import io
import json
import os

import pytest
from agent_task import SECRET, AgentTask
from agents import ModelResponse, RunConfig, Runner, Usage, set_tracing_disabled
from agents.models.interface import Model
from agents.sandbox import LocalSnapshotSpec, Manifest, SandboxAgent, SandboxPathGrant, SandboxRunConfig, User
from agents.sandbox.entries import File
from agents.sandbox.errors import ExecTimeoutError, SandboxError
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from corral.integrations.openai_agents import CorralSandboxClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

set_tracing_disabled(True)


class ScriptedModel(Model):
    def __init__(self, commands: list[str]) -> None:
        self.commands = commands
        self.told: list[str] = []

    async def get_response(self, *arguments: Any, **options: Any) -> ModelResponse:
        self.told = [
            str(item["output"])
            for item in (options["input"] if "input" in options else arguments[1])
            if isinstance(item, dict) and item.get("type") == "function_call_output"
        ]
        number = len(self.told)
        if number < len(self.commands):
            call = ResponseFunctionToolCall(
                type="function_call",
                call_id=f"call_{number}",
                name="exec_command",
                arguments=json.dumps({"cmd": self.commands[number]}),
            )
            return ModelResponse(output=[call], usage=Usage(), response_id=None)
        text = ResponseOutputText(type="output_text", text="Done.", annotations=[])
        said = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def test_a_scripted_agent_completes_a_task(tmp_path: Path) -> None:
    task = AgentTask(tmp_path)
    model = ScriptedModel(task.commands)
    config = RunConfig(
        sandbox=SandboxRunConfig(client=CorralSandboxClient(), manifest=Manifest(root=str(task.workspace)))
    )

    result = await Runner.run(SandboxAgent(name="coder", model=model), "go on", run_config=config)

    assert result.final_output == "Done."
    task.judge(model.told)


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Any]:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "key").write_text(SECRET)
    client = CorralSandboxClient()
    made = await client.create(manifest=Manifest(root=str(tmp_path / "workspace")))
    async with made:
        yield made
    await client.delete(made)
    assert (tmp_path / "workspace").exists()  # it is not the client's


async def test_no_path_leads_out_of_the_sandbox(session: Any, tmp_path: Path) -> None:
    (tmp_path / "workspace/link").symlink_to(tmp_path / "key")
    assert (tmp_path / "workspace/link").read_text() == SECRET  # a control

    for path in ("../key", "link", str(tmp_path / "key"), "/etc/shadow"):
        with pytest.raises(SandboxError):
            await session.read(path)
        with contextlib.suppress(SandboxError):  # or it is written into a private area of the sandbox
            await session.write(path, io.BytesIO(b"planted"))
    with pytest.raises((SandboxError, ValueError)):
        await session.read("a\0b")
    with pytest.raises(ValueError):
        await session.read("note", user="root")
    with pytest.raises(ValueError):
        await session.exec("true", user="root")
    assert (tmp_path / "key").read_text() == SECRET


async def test_time_over_ends_the_command(session: Any) -> None:
    with pytest.raises(ExecTimeoutError):
        await session.exec("sleep 1000", timeout=0.5)
    assert b"sleep 1000" not in (await session.exec("ps -e -o args=")).stdout


async def test_what_a_manifest_cannot_grant_is_refused(tmp_path: Path) -> None:
    grants = Manifest(root=str(tmp_path), extra_path_grants=(SandboxPathGrant(path="/etc"),))
    for manifest in (grants, Manifest(root=str(tmp_path), users=[User(name="somebody")])):
        with pytest.raises(ValueError):
            await CorralSandboxClient().create(manifest=manifest)


async def test_a_workspace_is_kept_in_a_snapshot(tmp_path: Path) -> None:
    client = CorralSandboxClient()
    manifest = Manifest(entries={"given.txt": File(content=b"given")})
    spec = LocalSnapshotSpec(base_path=tmp_path / "snapshots")
    first = await client.create(manifest=manifest, snapshot=spec)
    async with first:
        assert (await first.exec("cat given.txt; echo more > made.txt")).stdout == b"given"
    payload = client.serialize_session_state(first.state)
    root = first.state.manifest.root
    await client.delete(first)
    assert not os.path.exists(root)

    second = await client.resume(client.deserialize_session_state(payload))
    async with second:
        assert (await second.read("made.txt")).read() == b"more\n"
    await client.delete(second)
    assert not os.path.exists(root)


async def test_a_state_from_elsewhere_has_nothing_removed(tmp_path: Path) -> None:
    client = CorralSandboxClient()
    made = await client.create(manifest=Manifest(root=str(tmp_path)))
    made.state.owns_workspace = True
    await client.delete(made)

    assert tmp_path.exists()
