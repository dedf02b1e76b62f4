"""OpenAI Agents SDK: a sandbox client whose sessions are sandboxes of corral.

    from corral.integrations.openai_agents import CorralSandboxClient

    run_config = RunConfig(sandbox=SandboxRunConfig(client=CorralSandboxClient()))
    result = await Runner.run(SandboxAgent(name="coder", model=model), "go on", run_config=run_config)

The root of a manifest is the workspace, a directory of the host; without one each session has a new one,
which `delete` removes. What a manifest asks for and no policy of corral's can mean is refused.
"""

from __future__ import annotations

import io
import os
import tempfile
import uuid
from pathlib import Path
from typing import Any, Literal

from corral.integrations.agent_session import AgentSession, running, transferring
from corral.integrations.framework import missing_framework
from corral.model.errors import CorralError
from corral.policy.preset import DEFAULT_PRESET
from corral.sandbox import Sandbox
from corral.untrusted_files.removal import remove_tree

try:
    from agents.sandbox.errors import (
        ExecTimeoutError,
        ExecTransportError,
        WorkspaceArchiveReadError,
        WorkspaceArchiveWriteError,
        WorkspaceReadNotFoundError,
    )
    from agents.sandbox.manifest import Manifest
    from agents.sandbox.session import SandboxSession, SandboxSessionState
    from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
    from agents.sandbox.session.manager import Instrumentation
    from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
    from agents.sandbox.snapshot import resolve_snapshot
    from agents.sandbox.types import ExecResult
except ImportError as problem:
    raise missing_framework("the OpenAI Agents SDK", "openai-agents", problem) from problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.integrations.agent_session import Completed
    from corral.model.policy import Policy

_PREFIX = "corral-workspace-"
_DEFAULT_ROOT = Manifest.model_fields["root"].default
#: Of a snapshot, which is in memory until it is kept.
_MOST_ARCHIVE = 1024**3
_ARCHIVE = "/tmp/.corral-archive"


class CorralSandboxSessionState(SandboxSessionState):
    """What a session needs to go on later: the workspace. The policy is the client's, never the state's."""

    type: Literal["corral"] = "corral"
    owns_workspace: bool = False


class CorralSandboxClientOptions(BaseSandboxClientOptions):
    """None: what a command may do is said by the client's policy."""

    type: Literal["corral"] = "corral"


class CorralSandboxSession(BaseSandboxSession):
    """One sandbox. Ended by `shutdown` with everything in it; the next start makes another one."""

    state: CorralSandboxSessionState

    def __init__(self, state: CorralSandboxSessionState, policy: Policy | str, backend: str) -> None:
        self.state = state
        self._policy, self._backend = policy, backend
        self.session: AgentSession | None = None

    async def _ensure_backend_started(self) -> None:
        _check_manifest(self.state.manifest)
        if self.session is not None and self.session.is_open:
            return
        await transferring(lambda: os.makedirs(self.state.manifest.root, 0o700, exist_ok=True))
        sandbox = Sandbox(self._policy, backend=self._backend, workspace=self.state.manifest.root)
        self.session = AgentSession(sandbox)
        await transferring(self.session.open)

    async def _shutdown_backend(self) -> None:
        if self.session is not None:
            await transferring(self.session.close)

    async def running(self) -> bool:
        """Whether it takes commands."""
        return self.session is not None and self.session.is_open

    def _opened(self) -> AgentSession:
        if self.session is None:
            raise ExecTransportError(command=(), message="the session was not started")
        return self.session

    def _prepare_exec_command(self, *command: str | Path, shell: bool | list[str], user: Any) -> list[str]:
        if user:
            raise ValueError("corral runs commands as the user who runs the agent: leave `user` out")
        if shell is True:  # a login shell has nothing to add: the variables are the policy's
            shell = ["sh", "-c"]
        prepared: list[str] = super()._prepare_exec_command(*command, shell=shell, user=None)
        return prepared

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        """Run a command; standard error ends with what corral refused, if the command failed for that."""
        words = tuple(map(str, command))
        variables = self.state.manifest.environment
        env = await variables.resolve() if variables.value else {}  # two turns of the loop for nothing
        session = self._opened()
        try:
            done = await running(lambda: session.run(words, env=env, timeout=timeout))
        except CorralError as problem:
            raise ExecTransportError(command=words, message=str(problem), cause=problem) from problem
        if done.is_timed_out:
            raise ExecTimeoutError(command=words, timeout_s=timeout, context=_partial(done))
        return ExecResult(stdout=done.stdout, stderr=done.error_bytes, exit_code=done.exit_code)

    async def read(self, path: Path, *, user: Any = None) -> io.IOBase:
        """Read a file of the workspace."""
        target = await self._path(path, user)
        session = self._opened()
        try:
            return io.BytesIO(await transferring(lambda: session.read(target)))
        except FileNotFoundError as problem:
            raise WorkspaceReadNotFoundError(path=Path(path), cause=problem) from problem
        except (OSError, ValueError, CorralError) as problem:
            raise WorkspaceArchiveReadError(path=Path(path), cause=problem) from problem

    async def write(self, path: Path, data: io.IOBase, *, user: Any = None) -> None:
        """Write a file of the workspace, all or nothing."""
        target = await self._path(path, user, for_write=True)
        session = self._opened()
        contents = data.read()
        try:
            await transferring(lambda: session.write(target, contents))
        except (OSError, ValueError, CorralError) as problem:
            raise WorkspaceArchiveWriteError(path=Path(path), cause=problem) from problem

    async def _path(self, path: Path, user: Any, *, for_write: bool = False) -> str:
        if user:
            raise ValueError("corral reads and writes files as the user who runs the agent: leave `user` out")
        return str(await self._validate_path_access(path, for_write=for_write))

    # Archives are made and unpacked by commands in the sandbox: no member of one leads out of it.

    async def persist_workspace(self) -> io.IOBase:
        """The workspace as a tar archive."""
        session, root = self._opened(), self.state.manifest.root
        skipped = [
            f"--exclude=./{path.as_posix()}" for path in sorted(self._persist_workspace_skip_relpaths())
        ]
        command = ["tar", "--anchored", "--no-wildcards", *skipped, "-C", root, "-cf", _ARCHIVE, "."]
        try:
            done = await running(lambda: session.run(command))
            data = await transferring(lambda: session.read(_ARCHIVE, limit=_MOST_ARCHIVE))
            await running(lambda: session.run(["rm", "-f", _ARCHIVE]))
        except (OSError, CorralError) as problem:
            raise WorkspaceArchiveReadError(path=Path(root), cause=problem) from problem
        if done.exit_code != 0:
            raise WorkspaceArchiveReadError(path=Path(root), context=_partial(done))
        return io.BytesIO(data)

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Unpack a tar archive in the workspace."""
        session, root = self._opened(), self.state.manifest.root
        archive = data.read(_MOST_ARCHIVE + 1)
        if len(archive) > _MOST_ARCHIVE:
            raise WorkspaceArchiveWriteError(path=Path(root), context={"reason": "it is too large"})
        command = ["tar", "--no-same-owner", "-C", root, "-xf", "-"]
        try:
            done = await running(lambda: session.run(command, stdin=archive))
        except CorralError as problem:
            raise WorkspaceArchiveWriteError(path=Path(root), cause=problem) from problem
        if done.exit_code != 0:
            raise WorkspaceArchiveWriteError(path=Path(root), context=_partial(done))


class CorralSandboxClient(BaseSandboxClient[Any]):
    """Makes sessions under one policy. `policy` is a Policy or the name of a profile."""

    backend_id = "corral"
    supports_default_options = True

    def __init__(self, policy: Policy | str = DEFAULT_PRESET, *, backend: str = "auto") -> None:
        self._policy, self._backend = policy, backend
        self._instrumentation = Instrumentation()

    async def create(
        self, *, snapshot: Any = None, manifest: Any = None, options: Any = None
    ) -> SandboxSession:
        """A new session in the manifest's root, or in a directory of its own."""
        manifest = manifest if manifest is not None else Manifest()
        _check_manifest(manifest)
        self._validate_manifest_for_create(manifest)
        owns_workspace = manifest.root == _DEFAULT_ROOT
        if owns_workspace:
            root = await transferring(lambda: tempfile.mkdtemp(prefix=_PREFIX))
            manifest = manifest.model_copy(update={"root": root}, deep=True)
        number = uuid.uuid4()
        state = CorralSandboxSessionState(
            session_id=number,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(number)),
            owns_workspace=owns_workspace,
        )
        return self._session(state)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """A session in the same workspace, under the policy of this client."""
        if not isinstance(state, CorralSandboxSessionState):
            raise TypeError("this state is of another client's session")
        state.assert_path_grants_rebound()
        return self._session(state)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """End the session; its workspace is removed if the client made it."""
        inner = session._inner
        if not isinstance(inner, CorralSandboxSession):
            raise TypeError("this session is of another client's")
        await inner._shutdown_backend()
        root = Path(inner.state.manifest.root)
        # TRUST: a state may have been kept where others write. It names nothing for removal but our own.
        is_own = str(root.parent) == tempfile.gettempdir() and root.name.startswith(_PREFIX)
        if inner.state.owns_workspace and is_own:
            await transferring(lambda: remove_tree(str(root.parent), root.name))
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """A state that was kept as JSON."""
        return self._deserialize_session_state_payload(payload, CorralSandboxSessionState)

    def _session(self, state: CorralSandboxSessionState) -> SandboxSession:
        inner = CorralSandboxSession(state, self._policy, self._backend)
        return self._wrap_session(inner, instrumentation=self._instrumentation)


def _check_manifest(manifest: Any) -> None:
    """Raise ValueError for what a manifest grants besides: only the client's policy grants anything."""
    refused = {
        "users or groups": manifest.users or manifest.groups,
        "extra_path_grants (grant the path in the policy)": manifest.extra_path_grants,
        "mounts (mount it outside, and grant the path in the policy)": list(manifest.mount_targets()),
    }
    for name, value in refused.items():
        if value:
            raise ValueError(f"corral cannot do what the manifest asks for: {name}")


def _partial(done: Completed) -> dict[str, object]:
    return {"stdout": done.output_text[-4096:], "stderr": done.error_text[-4096:]}
