"""mini-swe-agent: an environment whose commands run in a sandbox.

In a configuration file, or with `--environment-class`:

    environment:
      environment_class: corral.integrations.mini_swe_agent.CorralEnvironment
      cwd: project                     # the workspace; the working directory without it
      profile: moderate
      capabilities: ["network:https:files.example.org"]
"""

from __future__ import annotations

import os
import platform
from typing import Any

from corral.integrations.agent_session import AgentSession
from corral.integrations.framework import missing_framework
from corral.model.errors import CorralError
from corral.policy.compose import build_policy
from corral.policy.preset import DEFAULT_PRESET
from corral.sandbox import Sandbox

try:
    from minisweagent.exceptions import Submitted
    from pydantic import BaseModel, ConfigDict
except ImportError as problem:
    raise missing_framework("mini-swe-agent", "mini-swe-agent", problem) from problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

#: What a model prints first when it hands its work in.
_SUBMISSION = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_FAILED = -1


class CorralEnvironmentConfig(BaseModel):
    """What a configuration file may say."""

    model_config = ConfigDict(extra="forbid")

    cwd: str = ""
    env: dict[str, str] = {}
    timeout: int = 30
    profile: str = DEFAULT_PRESET
    capabilities: list[str] = []
    backend: str = "auto"


class CorralEnvironment:
    """One sandbox, made at the first command; `close` ends it, and so does the end of the program."""

    def __init__(self, *, session: AgentSession | None = None, **settings: Any) -> None:
        self.config = CorralEnvironmentConfig(**settings)
        if session is None:
            policy = build_policy(self.config.profile, self.config.capabilities)
            workspace = self.config.cwd or os.getcwd()
            session = AgentSession(Sandbox(policy, backend=self.config.backend, workspace=workspace))
        self.session = session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox and everything in it."""
        self.session.close()

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run a shell line. Raises Submitted where it hands in the work."""
        try:
            done = self.session.run(
                str(action.get("command", "")),
                cwd=cwd or None,
                env=self.config.env,
                timeout=timeout or self.config.timeout,
                joins=True,
            )
        except CorralError as problem:
            return {"output": "", "returncode": _FAILED, "exception_info": str(problem)}
        if done.is_timed_out:
            said = "the command timed out, and was ended with all that it started"
            return {"output": done.whole_text, "returncode": _FAILED, "exception_info": said}
        if done.exit_code == 0:
            _check_submission(done.output_text)
        return {"output": done.whole_text, "returncode": done.exit_code, "exception_info": ""}

    def get_template_vars(self, **others: Any) -> dict[str, Any]:
        """What prompts may name: the configuration and the system, and no variables of this program."""
        return {
            **self.config.model_dump(),
            **platform.uname()._asdict(),
            "cwd": self.session.workspace,
            **others,
        }

    def serialize(self) -> dict[str, Any]:
        """What a trajectory keeps."""
        name = f"{type(self).__module__}.{type(self).__name__}"
        config = {"environment": self.config.model_dump(mode="json"), "environment_type": name}
        return {"info": {"config": config}}


def _check_submission(output: str) -> None:
    first, *rest = output.lstrip().splitlines(keepends=True) or [""]
    if first.strip() == _SUBMISSION:
        submission = "".join(rest)
        extra = {"exit_status": "Submitted", "submission": submission}
        raise Submitted({"role": "exit", "content": submission, "extra": extra})
