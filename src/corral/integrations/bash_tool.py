"""BashTool: a shell tool for people who write their own agent.

    with corral.BashTool() as tool:
        tools = [tool.anthropic_schema()]
        ...
        answer = tool.execute(block["input"])      # answer.text is for the model

Whatever a model asks for, `execute` answers in words; it raises for nothing that a model has done.
"""

from __future__ import annotations

import asyncio
import os
import threading
from functools import cached_property

from corral.aio.sandbox import Sandbox as AsyncSandbox
from corral.backends.registry import UNCONFINED
from corral.integrations.bash_call import (
    BadArguments,
    BashOutput,
    anthropic_schema,
    cut_middle,
    describe,
    gemini_schema,
    openai_schema,
    read_arguments,
)
from corral.integrations.command_check import CommandCheck
from corral.model.errors import CorralError
from corral.sandbox import Sandbox
from corral.sessions.stateful import remember

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from corral.aio.session import Session as AsyncSession
    from corral.integrations.bash_call import BashCall
    from corral.model.result import Result
    from corral.sessions.background import Background
    from corral.sessions.session import Session
    from corral.shell_check.verdict import CheckResult

_MOST_JOBS = 64
#: Inside, in a private area that all commands of the session share.
_STATE = "/tmp/.corral-bash-tool"
#: Models write for bash. A state file is the shell's own, so one of them runs all commands.
SHELL = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


class _Tool:
    """What both tools have in common: the words, the limits, the jobs, and who may leave the sandbox."""

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        *,
        default_timeout: float = 120.0,
        most_timeout: float = 600.0,
        output_characters: int = 30_000,
        ask_unconfined: Callable[[str], bool] | None = None,
        check: str | None = None,
        ask_check: Callable[[CheckResult], bool] | None = None,
    ) -> None:
        """`ask_unconfined` is asked before a command runs without a sandbox; without it none does.

        `check` is how strictly the text of commands is checked (`off`, `warn`, `ask`, `enforce`); None: as
        the configuration of the workspace says. `ask_check` is asked where the mode is `ask`.
        """
        self.sandbox = sandbox if sandbox is not None else Sandbox()
        self.unconfined: list[str] = []  # the commands that were permitted to run without a sandbox
        self._default, self._most = default_timeout, most_timeout
        self._characters = output_characters
        self._ask = ask_unconfined
        self._jobs: dict[str, Background] = {}
        self._check = CommandCheck(self.sandbox.workspace, check, ask_check)

    anthropic_schema = staticmethod(anthropic_schema)
    openai_schema = staticmethod(openai_schema)
    gemini_schema = staticmethod(gemini_schema)

    def _may_leave(self, call: BashCall) -> bool:
        """TRUST: a model asks for it; only the caller's own function permits it, for this one command."""
        if not call.without_sandbox or self._ask is None or self._ask(call.command) is not True:
            return False
        self.unconfined.append(call.command)
        return True

    def _run_unconfined(self, call: BashCall) -> BashOutput:
        free = Sandbox(self.sandbox.policy, backend=UNCONFINED, workspace=self.sandbox.workspace)
        result = free.run((SHELL, "-c", _joined(call.command)), timeout=call.timeout_seconds)
        return describe(result, self._characters)

    def _told(self, call: BashCall, result: Result, warnings: list[str]) -> BashOutput:
        told = describe(result, self._characters)
        if warnings:
            told = told.replace(text="\n".join([told.text, *(f"[corral: {line}]" for line in warnings)]))
        if call.without_sandbox:
            return told.replace(text=f"{told.text}\n[ran in the sandbox: leaving it was not permitted]")
        return told

    def _start(self, session: Session, call: BashCall) -> BashOutput:
        """Start a job where the last command ended; it changes nothing for the next one."""
        if sum(process.is_running for process in self._jobs.values()) >= _MOST_JOBS:
            raise BadArguments(f"{_MOST_JOBS} jobs run already: end one first")
        state = f"{_STATE}-{os.urandom(4).hex()}"
        session.run(("/bin/sh", "-c", 'cp "$1" "$2" 2>/dev/null', "sh", _STATE, state))
        process = session.start(stateful_shell(call.command, state))
        self._jobs[process.id] = process
        return BashOutput(f"[runs in the background as {process.id}]", job=process.id)

    def _progress(self, job: str) -> BashOutput:
        process = self._jobs.get(str(job))  # a model's word, which may be anything
        if process is None:
            return self._unknown(job)
        is_over = not process.is_running
        text = cut_middle(
            (process.read() + process.read("stderr")).decode("utf-8", "replace"), self._characters
        )
        state = f"[{job} has ended: {process.wait().describe()}]" if is_over else f"[{job} is running]"
        status = process.wait().exit_status if is_over else None
        return BashOutput("\n".join(filter(None, (text.rstrip("\n"), state))), exit_status=status, job=job)

    def _end(self, job: str) -> BashOutput:
        process = self._jobs.get(str(job))
        if process is None:
            return self._unknown(job)
        process.kill()
        return BashOutput(f"[{job} was ended]", job=job)

    def _unknown(self, job: object) -> BashOutput:
        known = ", ".join(self._jobs) or "none"
        return BashOutput(f"[there is no job {str(job)[:40]!r}; there are: {known}]", is_error=True)


class BashTool(_Tool):
    """A shell in a kept sandbox: made at the first call, ended by `close`."""

    _session: Session | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox and everything in it."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def execute(self, arguments: object) -> BashOutput:
        """Run what a model asks for, and return a text for the model."""
        try:
            call = read_arguments(arguments, self._default, self._most)
            warnings = self._check.apply(call.command)
            if self._may_leave(call):
                return self._run_unconfined(call)
            with self._lock:  # a state goes from one command to the next
                if self._session is None:
                    self._session = self.sandbox.session()
                if call.in_background:
                    return self._start(self._session, call)
                result = self._session.run(stateful_shell(call.command, _STATE), timeout=call.timeout_seconds)
            return self._told(call, result, warnings)
        except (BadArguments, CorralError) as problem:
            return _refused(problem)

    def read_output(self, job: str) -> BashOutput:
        """What a job in the background has printed since the last call, and whether it has ended."""
        return self._progress(job)

    def kill(self, job: str) -> BashOutput:
        """End a job in the background, and everything that it has started."""
        return self._end(job)

    @cached_property
    def _lock(self) -> threading.Lock:
        return threading.Lock()


class AsyncBashTool(_Tool):
    """`BashTool` for asyncio. Cancelling a call ends its command."""

    _session: AsyncSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the sandbox and everything in it."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def execute(self, arguments: object) -> BashOutput:
        """See `BashTool.execute`."""
        try:
            call = read_arguments(arguments, self._default, self._most)
            warnings = self._check.apply(call.command)
            if self._may_leave(call):
                return await asyncio.to_thread(self._run_unconfined, call)
            async with self._lock:
                if self._session is None:
                    self._session = await AsyncSandbox(self.sandbox).session()
                if call.in_background:
                    return await asyncio.to_thread(self._start, self._session.blocking, call)
                argv = stateful_shell(call.command, _STATE)
                result = await self._session.run(argv, timeout=call.timeout_seconds)
            return self._told(call, result, warnings)
        except (BadArguments, CorralError) as problem:
            return _refused(problem)

    async def read_output(self, job: str) -> BashOutput:
        """See `BashTool.read_output`."""
        return await asyncio.to_thread(self._progress, job)

    async def kill(self, job: str) -> BashOutput:
        """See `BashTool.kill`."""
        return await asyncio.to_thread(self._end, job)

    @cached_property
    def _lock(self) -> asyncio.Lock:
        return asyncio.Lock()


def stateful_shell(command: str, state: str, *, joined: bool = True) -> tuple[str, ...]:
    """The command of a shell that begins where the last one with this state has ended."""
    _, *rest = remember((), _joined(command) if joined else command, state)
    return (SHELL, *rest)


def _joined(command: str) -> str:
    """Output and errors in the order in which they were printed, as on a terminal."""
    return f"exec 2>&1\n{command}"


def _refused(problem: Exception) -> BashOutput:
    if isinstance(problem, CorralError):
        return BashOutput(f"[not run: {problem.what}: {problem.why}]", is_error=True)
    return BashOutput(f"[not run: {problem}]", is_error=True)
