"""Pydantic AI: a workspace whose commands and files are in a sandbox.

    from corral.integrations.pydantic_ai import CorralWorkspace

    async with CorralWorkspace(corral.Sandbox(workspace="project")) as workspace:
        agent = Agent(model, capabilities=[workspace])

`CorralWorkspace` is a capability: all runs of its agents share one sandbox, until it is closed. Who wants one
for each run makes a capability for each, or passes `workspace=CorralWorkspaceBackend(...)` to the run.
"""

from __future__ import annotations

import posixpath
from typing import Any

from corral.integrations.agent_session import AgentSession, running, transferring
from corral.integrations.framework import missing_framework
from corral.model.errors import CorralError
from corral.model.file_entry import FileKind

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.workspaces import (
        CommandResult,
        FileEntry,
        WorkspaceOutputLimitError,
        WorkspaceRef,
        WorkspaceTimeoutError,
        WorkspaceUnavailableError,
    )
except ImportError as problem:
    raise missing_framework("Pydantic AI", "pydantic-ai", problem) from problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Self, TypeVar

    from corral.integrations.agent_session import Completed
    from corral.sandbox import Sandbox

    T = TypeVar("T")

PROVIDER = "corral"
#: Of what is told about output that was cut.
_PREVIEW = 64 * 1024


class CorralWorkspaceBackend:
    """A `WorkspaceBackend` with commands and native files. `close` ends the sandbox; no run does."""

    def __init__(self, sandbox: Sandbox | None = None, *, session: AgentSession | None = None) -> None:
        """`session` is one that is there already, to be shared."""
        self.session = session if session is not None else AgentSession(sandbox)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the sandbox and everything in it."""
        await transferring(self.session.close)

    @property
    def ref(self) -> WorkspaceRef | None:
        """The session, once there is one; it cannot be reached from another process."""
        return WorkspaceRef(provider=PROVIDER, id=self.session.id) if self.session.id else None

    async def working_dir(self) -> str:
        """The workspace, which has the same path inside."""
        await _available(transferring(self.session.open))
        return self.session.workspace

    async def run(
        self,
        command: str | Sequence[str],
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command; standard error ends with what corral refused, if the command failed for that."""
        if isinstance(command, str) != shell:
            raise TypeError("a text is for a shell (`shell`), and a list of words is not")
        done = await _available(running(lambda: self.session.run(command, env=env, timeout=timeout)))
        if done.is_timed_out:
            raise WorkspaceTimeoutError(
                "the command timed out, and was ended with all that it started",
                stdout=done.output_text,
                stderr=done.error_text,
            )
        if done.is_truncated:
            raise _too_long(done)
        return CommandResult(exit_code=done.exit_code, stdout=done.output_text, stderr=done.error_text)

    async def read_bytes(self, path: str) -> bytes:
        """The contents of a file."""
        return await self._file(lambda: self.session.read(_absolute(path)))

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, all or nothing; a link is followed, and never out of the sandbox."""
        await self._file(lambda: self.session.write(_absolute(path), data))

    async def stat(self, path: str) -> FileEntry:
        """What a path leads to."""
        return await self._file(lambda: self._entry(_absolute(path)))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """The entries of a directory; a link counts as what it leads to."""
        return await self._file(lambda: self._entries(_absolute(path)))

    async def make_dir(self, path: str) -> None:
        """Make a directory, and those above it."""
        await self._file(lambda: self.session.make_directory(_absolute(path)))

    async def remove(self, path: str) -> None:
        """Remove a file or a tree, but never the workspace."""
        await self._file(lambda: self.session.remove(_absolute(path)))

    async def exists(self, path: str) -> bool:
        """Whether there is something at a path."""
        return await self._file(lambda: self.session.exists(_absolute(path)))

    async def realpath(self, path: str) -> str:
        """A path with its links followed, inside."""
        return await _available(running(lambda: self.session.resolve(_absolute(path))))

    async def _file(self, work: Callable[[], T]) -> T:
        return await _available(transferring(work))

    def _entries(self, path: str) -> list[FileEntry]:
        found = []
        for entry in self.session.list(path):
            place = posixpath.join(path, entry.name)
            try:
                found.append(self._entry(place))
            except OSError:  # a link that leads nowhere, or a file that is gone meanwhile
                found.append(FileEntry(name=entry.name, path=place, is_dir=False, size=None))
        return found

    def _entry(self, path: str) -> FileEntry:
        entry = self.session.status(path)
        is_directory = entry.kind is FileKind.DIRECTORY
        return FileEntry(
            name=entry.name, path=path, is_dir=is_directory, size=None if is_directory else entry.size
        )


class CorralWorkspace(AbstractCapability[Any]):
    """Gives the runs of an agent a workspace in one sandbox, which `close` ends."""

    id: str | None = "corral_workspace"

    def __init__(self, sandbox: Sandbox | None = None, *, session: AgentSession | None = None) -> None:
        self._backend = CorralWorkspaceBackend(sandbox, session=session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the sandbox and everything in it."""
        await self._backend.close()

    def get_workspace(self, ctx: object, *, ref: WorkspaceRef | None) -> CorralWorkspaceBackend | None:
        """The one backend. TRUST: a ref from a history never leads to another sandbox than this one."""
        return self._backend if ref is None or ref == self._backend.ref else None


async def _available(work: Awaitable[T]) -> T:
    try:
        return await work
    except CorralError as problem:
        raise WorkspaceUnavailableError(str(problem)) from problem


def _absolute(path: str) -> str:
    if not posixpath.isabs(path):
        raise ValueError(f"a path has to be absolute: {path!r}")
    return path


def _too_long(done: Completed) -> WorkspaceOutputLimitError:
    return WorkspaceOutputLimitError(
        "the command printed more than is kept; write it to a file, and read parts of that",
        limit=len(done.stdout) + len(done.stderr),
        stdout=done.output_text[:_PREVIEW],
        stderr=done.error_text[:_PREVIEW],
    )
