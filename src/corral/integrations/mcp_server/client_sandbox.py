"""ClientSandbox: what one client of the MCP server has: a kept sandbox, and the tools that work in it."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque

from corral.aio.call import call, call_short
from corral.aio.sandbox import Sandbox as AsyncSandbox
from corral.aio.session import HeldSession
from corral.backends.registry import UNCONFINED
from corral.integrations.bash_call import BadArguments
from corral.integrations.bash_tool import SHELL
from corral.integrations.mcp_server.denials import describe_hidden_in, describe_target
from corral.integrations.mcp_server.output import BoundedOutput, cut_lines, describe
from corral.integrations.mcp_server.shell_state import stateful_command
from corral.integrations.mcp_server.status import describe_sandbox
from corral.integrations.own_directories import ENDS_WITH_IT, is_own, leads_out
from corral.model.errors import CorralError
from corral.model.printable import printable
from corral.model.record import Record
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from corral.audit.recorder import Recorder
    from corral.model.result import Result

    T = TypeVar("T")

_LOST = "the sandbox has ended; the next call has a new one, without what lay in its private directories"
_MOST_REFUSALS = 20
_MOST_ENTRIES = 2000
_MOST_FILE_BYTES = 16 * 1024 * 1024


class ServerSettings(Record):
    """What holds for every client of a server."""

    sandbox: Sandbox
    agent: str = ""  # who the user says the client is
    asks_unconfined: bool = False  # the user's own file permits to ask
    record_unconfined: Callable[[str], Recorder] | None = None  # records a command before it runs
    check: Callable[[str], list[str]] | None = None  # judges the text of commands; raises CorralError
    keeps: bool = True  # False: a sandbox for each command, as `keep_alive = false` says
    default_seconds: float = 120.0
    most_seconds: float = 3600.0
    output_bytes: int = 30_000


class FileRefused(BadArguments):
    """Something that was not done, with lines for the model that say why."""


class ToolAnswer(Record):
    """What a model is told, and what a program may want to know of it."""

    text: str
    is_error: bool = False
    result: Result | None = None


class ClientSandbox:
    """One client's own. Calls that change the shell's state come one after the other."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._session: HeldSession | None = None
        self._state_lock, self._session_lock = asyncio.Lock(), asyncio.Lock()
        # Inside, where all commands of the session write; its own also where the policy shares /tmp.
        self._state = f".corral-mcp-{os.urandom(8).hex()}"
        self._notes: list[str] = []  # for the next answer
        self._refusals: deque[str] = deque(maxlen=_MOST_REFUSALS)
        self._is_closed = False
        self.last_used, self.calls_in_progress = time.monotonic(), 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it is being waited for."""
        return not self.calls_in_progress

    async def close(self) -> None:
        """End the sandbox and everything in it."""
        async with self._session_lock:
            self._is_closed = True
            session, self._session = self._session, None
        if session is not None:
            await call_short(session.close)

    async def bash(self, output: BoundedOutput, arguments: dict[str, Any]) -> ToolAnswer:
        """Run a shell command where the last one ended."""
        command: str = arguments["command"]
        lines = self._checked(command)
        result = await self._run(stateful_command(command, self._state), output, arguments)
        if not result.ok:
            lines += await self._hidden_in(command)
        return self._answer(command, result, output, lines)

    async def bash_unconfined(self, output: BoundedOutput, arguments: dict[str, Any]) -> ToolAnswer:
        """Run a shell command without a sandbox, as the user has just permitted.

        ORDER: it is in the audit log before it starts; what cannot be recorded does not run.
        """
        command: str = arguments["command"]
        make = self._settings.record_unconfined
        if make is None or not self._settings.asks_unconfined:
            raise BadArguments("no command runs without a sandbox: the user's own file does not permit it")
        confined = self._settings.sandbox
        free = AsyncSandbox(
            Sandbox(confined.policy, backend=UNCONFINED, workspace=confined.workspace, audit=make(command))
        )
        seconds = self._seconds(arguments)
        result = await free.run((SHELL, "-c", command), timeout=seconds, stream=output.take)
        return self._answer(command, result, output, ["it ran without a sandbox, as the user permitted"])

    async def python(self, output: BoundedOutput, arguments: dict[str, Any]) -> ToolAnswer:
        """Run a Python program where the last shell command ended."""
        line = stateful_command("python3 -u -", self._state)
        result = await self._run(line, output, arguments, stdin=arguments["code"])
        lines = [] if result.ok else await self._hidden_in(arguments["code"])
        return self._answer("python", result, output, lines)

    async def read_file(self, arguments: dict[str, Any]) -> ToolAnswer:
        """Some lines of a text file."""
        path, session = arguments["path"], await self._open()
        data = await self._file(path, "read", lambda: session.read_file(path, limit=_MOST_FILE_BYTES + 1))
        if len(data) > _MOST_FILE_BYTES:
            raise BadArguments(f"{path} is larger than {_MOST_FILE_BYTES} bytes: read a part of it with bash")
        text = _decoded(path, data)
        shown = cut_lines(
            text, arguments.get("offset", 1), arguments.get("limit"), self._settings.output_bytes
        )
        return ToolAnswer(shown or "[corral: the file is empty]")

    async def write_file(self, arguments: dict[str, Any]) -> ToolAnswer:
        """A whole file, or nothing."""
        path, session = arguments["path"], await self._open()
        data = arguments["content"].encode()
        await self._check_inside(path)
        await self._file(path, "write", lambda: session.write_file(path, data, parents=True))
        return ToolAnswer(f"wrote {len(data)} bytes to {printable(path)}{await self._where(path)}")

    async def edit_file(self, arguments: dict[str, Any]) -> ToolAnswer:
        """A text in a file replaced by another."""
        path, old, new = (arguments[name] for name in ("path", "old_string", "new_string"))
        session = await self._open()

        def edit() -> int:
            text = _decoded(path, session.read_file(path, limit=_MOST_FILE_BYTES))
            count = text.count(old)
            if not count:
                raise BadArguments(f"`old_string` is not in {path}: nothing was changed")
            if count > 1 and not arguments.get("replace_all"):
                raise BadArguments(
                    f"`old_string` is in {path} {count} times: nothing was changed. Give more of the text"
                    " around it, or replace_all"
                )
            # What a model asks for is made in this process, where no limit of the sandbox holds.
            if len(text) + count * (len(new) - len(old)) > _MOST_FILE_BYTES:
                raise BadArguments(
                    f"{path} would have more than {_MOST_FILE_BYTES} characters: nothing was changed"
                )
            session.write_file(path, text.replace(old, new).encode())
            return count

        async with self._state_lock:  # two edits of one file do not lose each other
            count = await self._file(path, "write", edit)
        places = f"{count} {'place' if count == 1 else 'places'}"
        return ToolAnswer(f"replaced {places} in {printable(path)}{await self._where(path)}")

    async def list_dir(self, arguments: dict[str, Any]) -> ToolAnswer:
        """What lies in a directory, a line each."""
        path, session = arguments.get("path", "."), await self._open()
        entries = await self._file(path, "read", lambda: session.list_dir(path))
        marks = {"directory": "/", "link": "@", "other": "?"}
        lines = [
            f"{entry.size:>10} {printable(entry.name)}{marks.get(entry.kind.value, '')}"
            for entry in entries[:_MOST_ENTRIES]
        ]
        if len(entries) > _MOST_ENTRIES:
            lines.append(f"[corral: {_MOST_ENTRIES} of {len(entries)} entries are shown]")
        return ToolAnswer("\n".join(lines) or "[corral: the directory is empty]")

    async def sandbox_status(self) -> ToolAnswer:
        """What is permitted, and what it has cost."""
        session = await self._open()
        settings = self._settings
        asks = "can be asked for" if settings.asks_unconfined else "not permitted"
        lines = await call_short(lambda: describe_sandbox(settings.sandbox, session))
        return ToolAnswer("\n".join([*lines, f"without a sandbox: {asks}"]))

    async def explain_denial(self, arguments: dict[str, Any]) -> ToolAnswer:
        """Why something was refused, or would be."""
        target = arguments.get("target")
        if target is None:
            if not self._refusals:
                return ToolAnswer("nothing was refused in this session so far")
            return ToolAnswer("\n\n".join(self._refusals))
        sandbox, operation = self._settings.sandbox, arguments.get("operation")
        return ToolAnswer(await call_short(lambda: describe_target(sandbox, target, operation)))

    async def _check_inside(self, path: str) -> None:
        """Raise FileRefused for `../x`, if the host would never have that file."""
        sandbox = self._settings.sandbox
        if await call_short(lambda: leads_out(sandbox, path)):
            why = await call_short(lambda: describe_target(sandbox, path, "write"))
            self._refusals.append(why)
            raise FileRefused(f"[not done] {why}")

    async def _where(self, path: str) -> str:
        """What there is to say of where a file was written."""
        sandbox = self._settings.sandbox
        return f", in {ENDS_WITH_IT}" if await call_short(lambda: is_own(sandbox, path)) else ""

    async def _file(self, path: str, verb: str, work: Callable[[], T]) -> T:
        """Do something with a file. Raises FileRefused with why the sandbox does not have it."""
        try:
            return await call_short(work)
        except (OSError, CorralError) as problem:
            refused, sandbox = describe_refusal(problem), self._settings.sandbox
            if isinstance(problem, OSError):
                refused += "\n" + await call_short(lambda: describe_target(sandbox, path, verb))
            self._refusals.append(refused)
            raise FileRefused(refused) from problem

    async def _run(
        self, argv: tuple[str, ...], output: BoundedOutput, arguments: dict[str, Any], stdin: str = ""
    ) -> Result:
        seconds = self._seconds(arguments)
        async with self._state_lock:  # a state goes from one command to the next
            session = await self._open()
            try:
                return await call(
                    lambda _: session.run(argv, timeout=seconds, stream=output.take, stdin=stdin)
                )
            finally:
                is_lost = session.is_lost()
                if is_lost:
                    self._notes.append(_LOST)
                if is_lost or not self._settings.keeps:
                    self._session = None
                    await call_short(session.close)

    async def _open(self) -> HeldSession:
        async with self._session_lock:
            if self._is_closed:
                raise BadArguments("the client is gone")
            if self._session is None:
                made = asyncio.ensure_future(call_short(lambda: HeldSession(self._settings.sandbox)))
                try:
                    self._session = await asyncio.shield(made)
                except asyncio.CancelledError:
                    made.add_done_callback(_close_late)
                    raise
            return self._session

    async def _hidden_in(self, text: str) -> list[str]:
        session, sandbox = await self._open(), self._settings.sandbox
        return await call_short(lambda: describe_hidden_in(text, sandbox, session))

    def _checked(self, command: str) -> list[str]:
        return [] if self._settings.check is None else self._settings.check(command)

    def _seconds(self, arguments: dict[str, Any]) -> float:
        asked = arguments.get("timeout")
        default, most = self._settings.default_seconds, self._settings.most_seconds
        return default if asked is None else min(float(asked) / 1000, most)

    def _answer(self, command: str, result: Result, output: BoundedOutput, lines: list[str]) -> ToolAnswer:
        lines, self._notes = [*lines, *self._notes], []
        if result.events or (lines and not result.ok):
            what = printable(command if len(command) < 200 else f"{command[:200]}…")
            self._refusals.append("\n".join([f"$ {what}", result.explain(), *lines]))
        return ToolAnswer(describe(result, output.text(), lines), not result.ok, result)


def _close_late(made: asyncio.Future[HeldSession]) -> None:
    """Whoever wanted the session has gone while it was made."""
    if not made.cancelled() and made.exception() is None:
        session = made.result()
        asyncio.ensure_future(call_short(session.close))  # noqa: RUF006  # it ends by itself


def _decoded(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadArguments(f"{path} is not text: it has {len(data)} bytes, which are not UTF-8") from None


def describe_refusal(problem: Exception) -> str:
    """Why a call was not carried out, in words for the model."""
    if isinstance(problem, FileRefused):
        return str(problem)
    if isinstance(problem, CorralError):
        whether = "" if problem.ran else "[not done] "
        return f"{whether}{printable(problem.what)}: {printable(problem.why)}"
    if isinstance(problem, OSError):
        name = os.fsdecode(problem.filename) if problem.filename else ""
        return f"[not done] {printable(f'{name}: ' if name else '')}{problem.strerror or problem}"
    return f"[not done] {printable(str(problem))}"
