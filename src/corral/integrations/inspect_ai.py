"""Inspect AI: the sandbox provider `corral`. Each sample has a sandbox and an empty workspace of its own.

    Task(dataset, solver=..., sandbox="corral")                  # or: inspect eval task.py --sandbox corral
    Task(dataset, solver=..., sandbox=("corral", "strict"))      # another profile
    Task(dataset, solver=..., sandbox=SandboxEnvironmentSpec("corral", CorralSandboxConfig(...)))

Inspect finds it by the entry point of its group `inspect_ai`.
"""

from __future__ import annotations

import errno
import os
import pwd
from typing import Any

from corral.integrations.agent_session import NOT_RUN, AgentSession, running, transferring
from corral.integrations.framework import missing_framework
from corral.model.errors import CorralError
from corral.policy.compose import build_policy
from corral.policy.preset import DEFAULT_PRESET

try:
    from inspect_ai.util import (
        ExecResult,
        OutputLimitExceededError,
        SandboxEnvironment,
        SandboxEnvironmentLimits,
        SandboxUnavailableError,
        SandboxUserUnsupportedError,
        sandboxenv,
    )
    from pydantic import BaseModel, ConfigDict
except ImportError as problem:
    raise missing_framework("Inspect AI", "inspect", problem) from problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.integrations.agent_session import Completed


class CorralSandboxConfig(BaseModel):
    """What the commands of a sample may do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: str = DEFAULT_PRESET
    capabilities: tuple[str, ...] = ()  # added to the profile: "network:https:files.example.org"
    backend: str = "auto"


@sandboxenv(name="corral")
class CorralSandboxEnvironment(SandboxEnvironment):
    """The sandbox of one sample."""

    def __init__(self, config: CorralSandboxConfig) -> None:
        super().__init__()
        policy = build_policy(config.profile, config.capabilities)
        self.session = AgentSession.in_own_workspace(policy, backend=config.backend)

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> CorralSandboxConfig:
        """The configuration, from the log of an evaluation."""
        return CorralSandboxConfig(**config)

    @classmethod
    async def sample_init(
        cls, task_name: str, config: object, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Make the sandbox of a sample. What cannot be enforced here is an error before anything runs."""
        environment = await transferring(lambda: cls(_configuration(config)))
        try:
            await transferring(environment.session.open)
        except BaseException:
            await transferring(environment.session.close)
            raise
        return {"default": environment}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: object,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """End the sandbox of a sample and all that runs in it, and remove its workspace."""
        for environment in environments.values():
            await transferring(environment.as_type(cls).session.close)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,  # noqa: A002 - the interface's own names
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command; standard error ends with what corral refused, if the command failed for that."""
        if user is not None and not _is_caller(user):
            raise SandboxUserUnsupportedError(
                f"corral runs commands as the user who runs Inspect, not {user!r}"
            )
        try:
            done = await running(
                lambda: self.session.run(cmd, cwd=cwd, env=env, stdin=input or b"", timeout=timeout)
            )
        except CorralError as problem:
            raise SandboxUnavailableError(str(problem)) from problem
        _check(done)
        return ExecResult(done.exit_code == 0, done.exit_code, done.output_text, done.error_text)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file, all or nothing; missing directories are made."""
        await transferring(lambda: self.session.write(file, contents))

    async def read_file(self, file: str, text: bool = True) -> Any:
        """Read a file; line ends are as they are."""
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            data = await transferring(lambda: self.session.read(file, limit=limit))
        except OSError as problem:
            if problem.errno != errno.EFBIG:
                raise
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None) from None
        return data.decode() if text else data


def _configuration(config: object) -> CorralSandboxConfig:
    if isinstance(config, CorralSandboxConfig):
        return config
    if config is None:
        return CorralSandboxConfig()
    if os.path.exists(str(config)):
        raise ValueError(f"{config} is a file: give the name of a profile, or a CorralSandboxConfig")
    return CorralSandboxConfig(profile=os.path.basename(str(config)))  # Inspect makes a path of it


def _is_caller(user: str) -> bool:
    try:
        number = int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
    except KeyError:
        return False
    return number == os.geteuid()


def _check(done: Completed) -> None:
    if done.is_timed_out:
        raise TimeoutError("the command timed out, and was ended with all that it started")
    if done.result is None and done.exit_code == NOT_RUN:
        raise PermissionError(done.error_text)
    if (
        done.is_truncated
        or max(len(done.stdout), len(done.stderr)) > SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
    ):
        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, done.output_text)
