"""A sandbox agent of the OpenAI Agents SDK with corral's client, and what must not go wrong."""

from __future__ import annotations

import json

from agent_task import AgentTask
from agents import ModelResponse, RunConfig, Runner, Usage, set_tracing_disabled
from agents.models.interface import Model
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
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
