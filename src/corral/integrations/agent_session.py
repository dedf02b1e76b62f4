"""AgentSession: what the adapters of frameworks share. A session that is made at the first call, commands and
files in it, and words for the model.

An adapter's own file only translates: its framework's arguments and errors, and nothing of the sandbox.
"""

from __future__ import annotations

import errno
import os
import shlex
import tempfile
import threading

from corral.aio.call import call, call_short
from corral.aio.session import HeldSession
from corral.backends.registry import AUTO_NAME
from corral.integrations.command_check import CommandCheck
from corral.integrations.explained import explain_failure, explain_text, is_worth_telling
from corral.integrations.own_directories import ENDS_WITH_IT, leads_out
from corral.model.errors import CorralError, PolicyError, SessionClosed, SetupError
from corral.model.file_entry import FileKind
from corral.model.record import Record
from corral.model.result import Outcome
from corral.sandbox import Sandbox
from corral.untrusted_files.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self, TypeVar

    from corral.model.file_entry import FileEntry
    from corral.model.policy import Policy
    from corral.model.result import Result

    T = TypeVar("T")

#: Of a command that could not be started, as a shell has them: refused or no program, and not there.
NOT_RUN, NOT_FOUND = 126, 127


#: Models write for bash.
SHELL = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def join_streams(line: str) -> tuple[str, ...]:
    """A shell line whose output and errors come in the order in which they were printed, as on a terminal."""
    return (SHELL, "-c", f"exec 2>&1\n{line}")


class Completed(Record):
    """A command that has ended, or that could not be started for a reason of its own."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    explanation: str = ""  # for the model: what was refused, and what would permit it
    is_truncated: bool = False
    is_timed_out: bool = False
    result: Result | None = None  # None: it did not run

    @property
    def output_text(self) -> str:
        """Standard output; bytes that are not UTF-8 are replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_bytes(self) -> bytes:
        """Standard error with the explanation after it."""
        return _appended(self.stderr, self.explanation)

    @property
    def error_text(self) -> str:
        """The same as text."""
        return self.error_bytes.decode("utf-8", "replace")

    @property
    def whole_text(self) -> str:
        """Output, errors and explanation, for frameworks that have one text."""
        return _appended(self.stdout + self.stderr, self.explanation).decode("utf-8", "replace")


class AgentSession:
    """One sandbox for one agent, kept until `close`. Safe to use from several threads and event loops.

    Nothing is started before the first call. Who wants agents to share a sandbox gives them the same
    AgentSession; otherwise each has its own, and sees of the others what the workspace shows.
    """

    def __init__(self, sandbox: Sandbox | None = None, *, check: str | None = None) -> None:
        """`check` is how strictly the text of commands is checked; None: as the configuration says."""
        self.sandbox = sandbox if sandbox is not None else Sandbox()
        self._mode = check
        self._lock = threading.Lock()
        self._check: CommandCheck | None = None
        self._made: _Session | None = None
        self._is_closed = False
        self._own_workspace = ""

    @classmethod
    def in_own_workspace(cls, policy: Policy | str, *, backend: str = AUTO_NAME) -> Self:
        """A session in a new, empty directory, which `close` removes."""
        directory = tempfile.mkdtemp(prefix="corral-workspace-")
        try:
            session = cls(Sandbox(policy, backend=backend, workspace=directory))
        except BaseException:
            os.rmdir(directory)
            raise
        session._own_workspace = directory
        return session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def workspace(self) -> str:
        """The directory in which commands begin."""
        return self.sandbox.workspace

    @property
    def id(self) -> str:
        """The name of the session; empty before the first call."""
        return self._made.id if self._made is not None else ""

    @property
    def is_open(self) -> bool:
        """Whether it takes commands."""
        return not self._is_closed and (self._made is None or self._made.is_open)

    def close(self) -> None:
        """End the sandbox and everything in it; a second time there is nothing to do."""
        with self._lock:
            self._is_closed = True
            made = self._made
            own, self._own_workspace = self._own_workspace, ""
        if made is not None:
            made.close()
        if own:
            remove_tree(*os.path.split(own))

    def open(self) -> _Session:
        """The session, which the first call makes. Raises CorralError."""
        with self._lock:
            if self._is_closed:
                raise SessionClosed()
            if self._made is None:
                self._made = _Session(self.sandbox)
            return self._made

    def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str = b"",
        timeout: float | None = None,
        joins: bool = False,
    ) -> Completed:
        """Run a shell line, or a program with its arguments.

        With `joins` a shell line is read by bash, if there is one, and its errors come among its output.
        What is wrong with the command itself is told in the answer; a CorralError means that the sandbox
        could not do its work.
        """
        session = self.open()
        try:
            warnings = self._checked(command)
            argv = join_streams(str(command)) if joins else command
            result = session.run(argv, cwd=cwd, env=env, stdin=stdin, timeout=timeout)
        except CorralError as problem:
            return _refused(problem)
        if not self.is_open:  # it was ended with its sandbox, and its status says nothing
            raise SessionClosed() if self._is_closed else session.lost()
        result = explain_failure(self.sandbox, result)
        told = [*warnings, *([result.explain()] if is_worth_telling(result) else result.notes)]
        return Completed(
            result.exit_status,
            result.stdout_bytes,
            result.stderr_bytes,
            "\n".join(told),
            result.truncated,
            result.outcome is Outcome.TIMED_OUT,
            result,
        )

    def explain(self, text: str) -> str:
        """What there is to say of errors that came by another way than a command's; empty if nothing."""
        lines = [
            f"- {event.evidence.value}: {event.describe()}" for event in explain_text(self.sandbox, text)
        ]
        return "\n".join(["", "[corral] What the sandbox refused, as it seems:", *lines]) if lines else ""

    def _checked(self, command: str | Sequence[str]) -> list[str]:
        if self._check is None:
            self._check = CommandCheck(self.workspace, self._mode)
        if self._check.is_off:
            return []
        return self._check.apply(command if isinstance(command, str) else shlex.join(command))

    # Files are read and written by corral, outside, and never through a link that leads out of the sandbox.

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        """The contents of a file. Raises OSError as `open` does, and CorralError."""
        return self._file(lambda session: session.read_file(path, limit=limit))

    def write(self, path: str, data: bytes | str) -> None:
        """Give a file new contents, all or nothing; missing directories are made.

        `../x` is refused where the sandbox has a directory of its own: nobody would find that file.
        """
        if leads_out(self.sandbox, path):
            raise PermissionError(errno.EACCES, f"outside the workspace there is {ENDS_WITH_IT}", path)
        self._file(lambda session: session.write_file(path, data, parents=True))

    def list(self, path: str = ".") -> tuple[FileEntry, ...]:
        """The entries of a directory; links are told, not followed."""
        return self._file(lambda session: session.list_dir(path))

    def status(self, path: str) -> FileEntry:
        """What a path leads to, links followed."""
        return self._file(lambda session: session.file_status(path))

    def exists(self, path: str) -> bool:
        """Whether a path leads to something that the sandbox shows."""
        try:
            self.status(path)
        except OSError as problem:
            if problem.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                raise
            return False
        return True

    def resolve(self, path: str) -> str:
        """The path with all links followed, as commands see it; what is missing stays as it is written."""
        _check_path(path)
        done = self.run(("realpath", "-m", "--", os.path.join(self.workspace, path)))
        if done.exit_code != 0:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return os.fsdecode(done.stdout.removesuffix(b"\n"))

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, by a command in the sandbox."""
        if self.exists(path):
            if self.status(path).kind is not FileKind.DIRECTORY:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            return
        self._change(path, ("mkdir", "-p", "--", self._named(path)))

    def remove(self, path: str) -> None:
        """Remove a file, a link, or a directory with all in it, by a command in the sandbox.

        The workspace and what it lies in are refused (ValueError).
        """
        named = self._named(path)
        if self.workspace == named or self.workspace.startswith(f"{named.rstrip('/')}/"):
            raise ValueError(f"{path} is the workspace, or holds it")
        if self._change(path, ("rm", "-rf", "--", named), ("test", "-e", named, "-o", "-L", named)):
            return
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _change(self, path: str, command: Sequence[str], condition: Sequence[str] = ()) -> bool:
        """Run a command that changes one path. Raises the OSError that its failure stands for."""
        _check_path(path)
        if condition and self.run(condition).exit_code != 0:
            return False
        done = self.run(command)
        if done.exit_code == 0:
            return True
        text = done.stderr.decode("utf-8", "replace")
        number = next((number for number in _CODES if os.strerror(number) in text), errno.EPERM)
        raise OSError(number, done.explanation or os.strerror(number), path)

    def _named(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.workspace, path))

    def _file(self, work: Callable[[_Session], T]) -> T:
        session = self.open()
        try:
            return work(session)
        except PolicyError as refusal:  # frameworks know the errors of files
            raise PermissionError(errno.EACCES, f"{refusal.what}: {refusal.why}") from refusal


_CODES = (errno.ENOTDIR, errno.EEXIST, errno.EACCES, errno.EROFS, errno.ENOSPC, errno.ENOENT, errno.EBUSY)


class _Session(HeldSession):
    def file_status(self, path: str) -> FileEntry:
        """What a path leads to, links followed."""
        return self._file_access().status(self._inside(path))


async def running(work: Callable[[], T]) -> T:
    """Run a command from asyncio. A cancellation ends it with all that it started, and waits for that."""
    return await call(lambda _: work())


async def transferring(work: Callable[[], T]) -> T:
    """The same for a file, which comes to its end by itself."""
    return await call_short(work)


def _refused(problem: CorralError) -> Completed:
    """What is told of a command that could not be started, if that is its own fault."""
    is_program = isinstance(problem, SetupError) and problem.exit_status in {NOT_RUN, NOT_FOUND}
    if not is_program and not isinstance(problem, PolicyError):
        raise problem
    code = problem.exit_status if is_program else NOT_RUN
    return Completed(code, b"", f"corral: the command did not run: {problem.what}: {problem.why}\n".encode())


def _check_path(path: str) -> None:
    if "\0" in path:
        raise ValueError("embedded null byte")


def _appended(printed: bytes, explanation: str) -> bytes:
    if not explanation:
        return printed
    between = b"\n" if printed and not printed.endswith(b"\n") else b""
    return printed + between + f"[corral] {explanation}\n".encode("utf-8", "replace")
