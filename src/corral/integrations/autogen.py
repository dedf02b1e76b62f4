"""AutoGen: a code executor whose blocks run in a sandbox.

from corral.integrations.autogen import CorralCodeExecutor

async with CorralCodeExecutor(corral.Sandbox(workspace="project")) as executor:
    agent = CodeExecutorAgent("executor", code_executor=executor)
"""

from __future__ import annotations

import asyncio

from corral.integrations.agent_session import AgentSession, running, transferring
from corral.integrations.framework import missing_framework
from corral.sandbox import Sandbox

try:
    from autogen_core.code_executor import CodeExecutor, CodeResult
except ImportError as problem:
    raise missing_framework("AutoGen", "autogen", problem) from problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SHELLS = frozenset({"bash", "shell", "sh"})
_PYTHON = frozenset({"python", "py", "python3"})


class CorralCodeExecutor(CodeExecutor):
    """Runs blocks of Python and of shell in one sandbox: `start` makes it, `stop` ends it."""

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        *,
        session: AgentSession | None = None,
        timeout: float | None = 60,
    ) -> None:
        """`session` is one that is there already, to be shared; `timeout` is for each block, in seconds."""
        self.session = session if session is not None else AgentSession(sandbox)
        self._timeout = timeout

    async def start(self) -> None:
        """Make the sandbox. Raises CorralError, if this host cannot enforce the policy."""
        await transferring(self.session.open)

    async def stop(self) -> None:
        """End the sandbox and everything in it."""
        await transferring(self.session.close)

    async def restart(self) -> None:
        """End everything, and begin with another sandbox."""
        await self.stop()
        self.session = AgentSession(self.session.sandbox)
        await self.start()

    async def execute_code_blocks(self, code_blocks: list[Any], cancellation_token: Any) -> CodeResult:
        """Run blocks until one fails; the output ends with what corral refused, if one failed for that.

        A token that is cancelled ends the block with everything that it has started.
        """
        output = ""
        code = 0
        for block in code_blocks:
            work = asyncio.ensure_future(self._run(block.code, block.language.strip().lower()))
            cancellation_token.link_future(work)
            code, text = await work
            output += text
            if code != 0:
                break
        return CodeResult(exit_code=code, output=output)

    async def _run(self, code: str, language: str) -> tuple[int, str]:
        if language in _SHELLS:
            done = await running(lambda: self.session.run(code, timeout=self._timeout, joins=True))
        elif language in _PYTHON:  # the program is what it reads first
            line = "exec python3 -"
            done = await running(
                lambda: self.session.run(line, stdin=code, timeout=self._timeout, joins=True)
            )
        else:
            return 1, f"there is no way to run {language!r} here: write Python or shell\n"
        return done.exit_code, done.whole_text + ("[timed out]\n" if done.is_timed_out else "")
