"""The MCP server itself: who the clients are, and what becomes of a call. The function to read is `_call`."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from corral import __version__
from corral.integrations.bash_call import BadArguments
from corral.integrations.mcp_server.client_sandbox import ClientSandbox, ToolAnswer, describe_refusal
from corral.integrations.mcp_server.output import BoundedOutput
from corral.integrations.mcp_server.tools import TOOLS, read_arguments
from corral.integrations.mcp_server.unconfined import LeaveQuestions
from corral.model.errors import CorralError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from typing import Any, TypeVar

    from mcp.server.context import ServerRequestContext

    from corral.integrations.mcp_server.client_sandbox import ServerSettings
    from corral.integrations.mcp_server.tools import Tool

    Context = ServerRequestContext[Any, Any]
    T = TypeVar("T")

INSTRUCTIONS = (
    "Commands and files are in a sandbox. The answer says what was refused, and what the user could"
    " permit; do not try to get around it. sandbox_status says what is permitted, explain_denial why"
    " something is not."
)
#: In the scope of a request: set when nobody waits for its answer any more.
GONE = "corral.gone"
#: In the scope of a request: who it is for, by the path of its URL.
AGENT = "corral.agent"
MOST_CLIENTS = 256
IDLE_SECONDS = 1800.0
_PROGRESS_SECONDS = 1.0
_LEFT_WORD = "[corral] it ran in the sandbox: leaving it was not permitted"


class Clients:
    """The clients of a server, each with its sandbox, which is made at its first call."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.questions = LeaveQuestions()
        self._sandboxes: dict[str, ClientSandbox] = {}

    def find(self, key: str) -> ClientSandbox:
        """What a client has. Raises BadArguments if there are too many."""
        found = self._sandboxes.get(key)
        if found is None:
            if len(self._sandboxes) >= MOST_CLIENTS:
                raise BadArguments(f"{MOST_CLIENTS} clients have a sandbox already: try again later")
            found = self._sandboxes[key] = ClientSandbox(self.settings)
        return found

    async def close(self, key: str) -> None:
        """A client has gone, or a session of it has ended: nothing of it is left when this returns."""
        for each in [each for each in self._sandboxes if each == key or each.startswith(f"{key} ")]:
            await self._sandboxes.pop(each).close()

    async def close_all(self) -> None:
        """Everything ends."""
        sandboxes, self._sandboxes = list(self._sandboxes.values()), {}
        await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))

    async def close_idle(self) -> None:
        """Runs for ever: ends the sandboxes of clients that have not been heard of for long."""
        while True:
            await asyncio.sleep(IDLE_SECONDS / 60)
            old = time.monotonic() - IDLE_SECONDS
            for key, sandbox in list(self._sandboxes.items()):
                if sandbox.is_idle and sandbox.last_used < old:
                    await self.close(key)


def build_server(clients: Clients) -> Server[Any]:
    """A server of the official SDK with corral's tools."""

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncIterator[None]:
        idle = asyncio.ensure_future(clients.close_idle())
        try:
            yield None
        finally:
            idle.cancel()
            with anyio.CancelScope(shield=True):
                await clients.close_all()

    listed = types.ListToolsResult(tools=[_listed(tool) for tool in TOOLS.values()])

    async def list_tools(_ctx: Context, _params: object) -> types.ListToolsResult:
        return listed

    async def call_tool(
        ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name[:100]!r}")
        return await _call(clients, tool, ctx, params)

    server: Server[Any] = Server(
        "corral",
        version=__version__,
        title="corral",
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=lambda name: TOOLS[name].schema() if name in TOOLS else None,
    )
    server.middleware.clear()  # traces that nobody has asked for
    return server


def _listed(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=tool.only_reads, open_world_hint=False)
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema(),
        annotations=hints,
    )


async def _call(
    clients: Clients, tool: Tool, ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Carry out one call. Whatever a model asks for is answered in words; nothing of it raises."""
    try:
        arguments = read_arguments(tool, params.arguments)
        key = _client_of(ctx)
        note = ""
        if arguments.get("dangerouslyDisableSandbox"):
            may_leave = await _may_leave(clients, ctx, params, key, arguments["command"])
            if isinstance(may_leave, types.InputRequiredResult):
                return may_leave
            arguments["dangerouslyDisableSandbox"] = may_leave
            note = "" if may_leave else _LEFT_WORD
        sandbox, output = clients.find(key), BoundedOutput(clients.settings.output_bytes)
        sandbox.calls_in_progress += 1
        try:
            answer = await _wait(ctx, _work(sandbox, tool.name, arguments, output), output)
        finally:
            sandbox.calls_in_progress -= 1
            sandbox.last_used = time.monotonic()
    except (BadArguments, CorralError, OSError) as problem:
        return _told(ToolAnswer(describe_refusal(problem), is_error=True))
    return _told(answer.replace(text=f"{answer.text}\n{note}") if note else answer)


async def _may_leave(
    clients: Clients, ctx: Context, params: types.CallToolRequestParams, key: str, command: str
) -> bool | types.InputRequiredResult:
    """TRUST: a model asks for it; the user's file permits the question, and the user this one command."""
    if not clients.settings.asks_unconfined:
        return False
    return await clients.questions.ask(ctx, params, key, command)


def _work(
    sandbox: ClientSandbox, name: str, arguments: dict[str, Any], output: BoundedOutput
) -> Coroutine[Any, Any, ToolAnswer]:
    if name == "bash":
        leaves = arguments.get("dangerouslyDisableSandbox") is True
        return (sandbox.bash_unconfined if leaves else sandbox.bash)(output, arguments)
    if name == "python":
        return sandbox.python(output, arguments)
    if name == "sandbox_status":
        return sandbox.sandbox_status()
    works = {
        "read_file": sandbox.read_file,
        "write_file": sandbox.write_file,
        "edit_file": sandbox.edit_file,
        "list_dir": sandbox.list_dir,
        "explain_denial": sandbox.explain_denial,
    }
    return works[name](arguments)


async def _wait(ctx: Context, work: Coroutine[Any, Any, ToolAnswer], output: BoundedOutput) -> ToolAnswer:
    """Wait for an answer, and tell of its progress; whoever stops waiting ends what runs.

    INVARIANT: when a call is cancelled, everything that it has started has ended before this returns.
    """
    began = time.monotonic()
    task = asyncio.ensure_future(work)
    gone: asyncio.Event | None = getattr(ctx.request, "scope", {}).get(GONE)
    waiting: set[asyncio.Future[Any]] = {task}
    if gone is not None:
        waiting.add(asyncio.ensure_future(gone.wait()))
    try:
        while not task.done():
            await asyncio.wait(waiting, timeout=_PROGRESS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if gone is not None and gone.is_set() and not task.done():
                raise BadArguments("the client is gone")
            if not task.done():
                seconds = time.monotonic() - began
                said = output.last_line() or "running"
                await ctx.session.report_progress(round(seconds, 1), None, f"{seconds:.0f} s: {said}")
        return task.result()
    finally:
        for each in waiting:
            each.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])


def _client_of(ctx: Context) -> str:
    """The client that a call is from, and its agent: by the session of HTTP, or the name it gives itself.

    With stdio there is one. Clients of 2026-07-28 have no session over HTTP: they are told apart by their
    names, and by the path of the URL that they use.
    """
    request = ctx.request
    if request is None:
        return "stdio"
    agent = request.scope.get(AGENT, "")
    session = request.headers.get("mcp-session-id", "")
    if session:
        return f"session {session} {agent}"
    info = ctx.session.client_params
    name = info.client_info.name if info is not None else ""
    return f"name {name[:100]} {agent}"


def _told(answer: ToolAnswer) -> types.CallToolResult:
    result = answer.result
    meta = None
    if result is not None:
        meta = {"corral/run_id": result.run_id, "corral/exit_status": result.exit_status}
    text = types.TextContent(type="text", text=answer.text)
    return types.CallToolResult(content=[text], is_error=answer.is_error, _meta=meta)
