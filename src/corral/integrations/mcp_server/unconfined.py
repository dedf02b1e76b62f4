"""A command without a sandbox: asked about by elicitation, once for each command, and answered by the user.

`dangerouslyDisableSandbox` in a call is what a model wants, and does nothing by itself. If the user's own
file has `ask_unconfined = true` and the client can show a question, the question shows the whole command.
Clients of the older protocol are asked while the call waits. Those of 2026-07-28 get the question as the
answer, and repeat the call with the user's reply and the ticket that came with the question.

TRUST: a ticket is a random number that is kept here, for one text of one client, and used up by its reply. A
reply without one, or to another command, is no reply.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from corral.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcp.server.context import ServerRequestContext

    Context = ServerRequestContext[Any, Any]

_QUESTION = "corral: run this command without a sandbox? It could then do whatever you can do.\n\n"
_KEY = "without_sandbox"
#: A command whose end nobody reads is not asked about.
_MOST_SHOWN = 2000
_ANSWER_SECONDS = 600.0
_MOST_TICKETS = 256
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {_KEY: {"type": "boolean", "title": "Run it without a sandbox", "default": False}},
    "required": [_KEY],
}


class LeaveQuestions:
    """The questions that are open: ticket -> for whom, which command, until when."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, bytes, float]] = {}

    async def ask(
        self,
        ctx: Context,
        params: types.CallToolRequestParams,
        client: str,
        command: str,
    ) -> bool | types.InputRequiredResult:
        """Whether the user lets it run without a sandbox; or the question, to which a second call replies."""
        if not _can_ask(ctx) or len(command) > _MOST_SHOWN:
            return False
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self._ask_now(ctx, command)
        if params.request_state is None:
            return self._question(client, command)
        return self._is_permitted(params, client, command)

    async def _ask_now(self, ctx: Context, command: str) -> bool:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await ctx.session.elicit_form(_shown(command), _SCHEMA, ctx.request_id)
        except (MCPError, ValidationError, TimeoutError):
            return False  # nobody has said yes
        return _says_yes(answer)

    def _question(self, client: str, command: str) -> types.InputRequiredResult:
        now = time.monotonic()
        self._open = {ticket: kept for ticket, kept in self._open.items() if kept[2] > now}
        while len(self._open) >= _MOST_TICKETS:
            del self._open[next(iter(self._open))]
        ticket = os.urandom(16).hex()
        self._open[ticket] = (client, _digest(command), now + _ANSWER_SECONDS)
        form = types.ElicitRequestFormParams(message=_shown(command), requested_schema=_SCHEMA)
        return types.InputRequiredResult(
            input_requests={_KEY: types.ElicitRequest(params=form)}, request_state=ticket
        )

    def _is_permitted(self, params: types.CallToolRequestParams, client: str, command: str) -> bool:
        kept = self._open.pop(params.request_state or "", None)  # ORDER: used up, whatever the reply is
        if kept is None or kept[:2] != (client, _digest(command)) or kept[2] <= time.monotonic():
            return False
        answer = (params.input_responses or {}).get(_KEY)
        return isinstance(answer, types.ElicitResult) and _says_yes(answer)


def _can_ask(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _says_yes(answer: types.ElicitResult) -> bool:
    return answer.action == "accept" and (answer.content or {}).get(_KEY) is True


def _shown(command: str) -> str:
    return _QUESTION + "\n".join(map(printable, command.split("\n")))


def _digest(command: str) -> bytes:
    return hashlib.sha256(command.encode()).digest()
