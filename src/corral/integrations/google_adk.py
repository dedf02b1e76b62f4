"""Google ADK: an environment whose commands and files are in a sandbox.

from corral.integrations.google_adk import CorralAgentEnvironment

toolset = EnvironmentToolset(environment=CorralAgentEnvironment(corral.Sandbox(workspace="project")))
agent = LlmAgent(name="coder", model=model, tools=[toolset])
"""

from __future__ import annotations

from pathlib import Path

from corral.integrations.agent_session import NOT_RUN, AgentSession, running, transferring
from corral.integrations.framework import missing_framework
from corral.model.errors import CorralError

try:
    from google.adk.environment import BaseEnvironment, ExecutionResult
except ImportError as problem:
    raise missing_framework("Google ADK", "google-adk", problem) from problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sandbox import Sandbox


class CorralAgentEnvironment(BaseEnvironment):
    """One sandbox, made by `initialize` or the first command; `close` ends it."""

    def __init__(self, sandbox: Sandbox | None = None, *, session: AgentSession | None = None) -> None:
        """`session` is one that is there already, to be shared."""
        self.session = session if session is not None else AgentSession(sandbox)

    async def initialize(self) -> None:
        """Make the sandbox. Raises CorralError, if this host cannot enforce the policy."""
        await transferring(self.session.open)
        self.is_initialized = True

    async def close(self) -> None:
        """End the sandbox and everything in it."""
        await transferring(self.session.close)
        self.is_initialized = False

    @property
    def working_dir(self) -> Path:
        """The workspace."""
        return Path(self.session.workspace)

    async def execute(self, command: str, *, timeout: float | None = None) -> ExecutionResult:
        """Run a shell line; standard error ends with what corral refused, if the command failed for that."""
        try:
            done = await running(lambda: self.session.run(command, timeout=timeout))
        except CorralError as problem:
            return ExecutionResult(exit_code=NOT_RUN, stderr=f"[corral] {problem}")
        return ExecutionResult(done.exit_code, done.output_text, done.error_text, done.is_timed_out)

    async def read_file(self, path: Path | str) -> bytes:
        """Read a file. Raises OSError as `open` does."""
        return await transferring(lambda: self.session.read(str(path)))

    async def write_file(self, path: Path | str, content: str | bytes) -> None:
        """Write a file, all or nothing; missing directories are made."""
        await transferring(lambda: self.session.write(str(path), content))
