"""deepagents (LangChain): a sandbox backend.

    from corral.integrations.deepagents import CorralSandbox

    with CorralSandbox(corral.Sandbox(workspace="project")) as backend:
        agent = create_deep_agent(model=model, backend=backend)

Commands, and the file tools that deepagents makes of commands, run in the sandbox; files that are up- or
downloaded are read and written by corral.
"""

from __future__ import annotations

import errno

from corral.integrations.agent_session import NOT_RUN, AgentSession, running, transferring
from corral.integrations.framework import missing_framework
from corral.model.errors import CorralError

try:
    from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
    from deepagents.backends.sandbox import BaseSandbox
except ImportError as problem:
    raise missing_framework("deepagents", "deepagents", problem) from problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from corral.sandbox import Sandbox

#: The errors that deepagents has names for.
_NAMES = {
    errno.ENOENT: "file_not_found",
    errno.ENOTDIR: "file_not_found",
    errno.EISDIR: "is_directory",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
}


class CorralSandbox(BaseSandbox):
    """A backend for one agent, or for several that are to share a sandbox; `close` ends it."""

    def __init__(self, sandbox: Sandbox | None = None, *, session: AgentSession | None = None) -> None:
        """`session` is one that is there already, to be shared."""
        self.session = session if session is not None else AgentSession(sandbox)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox and everything in it."""
        self.session.close()

    @property
    def id(self) -> str:
        """The session, which the first call makes."""
        return self.session.open().id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a shell line. All that happens is told in the output, which ends with what corral refused."""
        try:
            done = self.session.run(command, timeout=timeout or None, joins=True)
        except CorralError as problem:
            return ExecuteResponse(output=f"[corral] {problem}", exit_code=NOT_RUN)
        return ExecuteResponse(output=done.whole_text, exit_code=done.exit_code, truncated=done.is_truncated)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """The same for asyncio; a cancellation ends the command and all that it has started."""
        return await running(lambda: self.execute(command, timeout=timeout))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files; each answer has the error of its file, if any."""
        return [FileUploadResponse(path=path, error=self._write(path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files; each answer has the contents, or the error."""
        return [self._read(path) for path in paths]

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """See `upload_files`."""
        return await transferring(lambda: self.upload_files(files))

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """See `download_files`."""
        return await transferring(lambda: self.download_files(paths))

    def _write(self, path: str, data: bytes) -> str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            self.session.write(path, data)
        except (OSError, ValueError, CorralError) as problem:
            return _name(problem)
        return None

    def _read(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            return FileDownloadResponse(path=path, content=self.session.read(path))
        except (OSError, ValueError, CorralError) as problem:
            return FileDownloadResponse(path=path, error=_name(problem))


def _name(problem: Exception) -> str:
    if isinstance(problem, OSError):
        return _NAMES.get(problem.errno or 0, str(problem))
    return "invalid_path" if isinstance(problem, ValueError) else str(problem)
