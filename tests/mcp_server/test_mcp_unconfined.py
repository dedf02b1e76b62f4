"""`dangerouslyDisableSandbox` through MCP: what a model wants counts once, after its user has said yes."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from support.mcp_clients import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcp.server.lowlevel import Server

    from support.mcp_clients import McpHome

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
PERMITS = "[sandbox]\nask_unconfined = true\n"


class McpUser:
    """Somebody with a client that shows questions, who answers all of them alike."""

    def __init__(self, action: str = "accept", **content: Any) -> None:
        self._answer = (action, content)
        self.asked: list[str] = []

    async def __call__(self, _context: object, params: Any) -> Any:
        from mcp_types import ElicitResult

        self.asked.append(params.message)
        action, content = self._answer
        return ElicitResult(action=action, content=content or None)  # type: ignore[arg-type]


@pytest.fixture
def make_server(home: McpHome, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function: the server of somebody whose own file, and whose project's, has these texts."""
    from corral.cli.mcp.serve import build_server_request, make_settings
    from corral.cli.options import defaults
    from corral.integrations.mcp_server.server import Clients, build_server

    def make(own: str, project: str = "") -> Server[Any]:
        for name, value in home.configure(own).items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(home.project)
        if project:
            (home.project / "corral.toml").write_text(project)
        return build_server(Clients(make_settings(build_server_request(defaults()), "")))

    return make


def _leave(server: Server[Any], mode: str, command: str, user: McpUser | None) -> str:
    from mcp import Client

    async def work() -> str:
        async with Client(server, mode=mode, elicitation_callback=user) as client:
            return await say(client, "bash", command=command, dangerouslyDisableSandbox=True)

    return asyncio.run(work())


@ERAS
def test_a_command_leaves_the_sandbox_when_the_user_says_yes(
    home: McpHome, make_server: Any, mode: str
) -> None:
    """The question shows the command; the run is in the audit log, and its text beside those of hooks."""
    target, user = home.home / "written", McpUser(without_sandbox=True)
    leave = partial(_leave, make_server(PERMITS), mode)

    assert "it ran without a sandbox" in leave(f"cat {home.secret} && touch {target}", user)
    assert target.exists()
    assert len(user.asked) == 1
    assert f"cat {home.secret} && touch {target}" in user.asked[0]
    ran = [record for record in home.audit_records() if record["event"] == "planned"]
    assert [record["backend"] for record in ran] == ["none"]
    assert f"touch {target}" in (home.state / "corral/hidden/unconfined").read_text()


@ERAS
@pytest.mark.parametrize(
    "user",
    [
        None,
        McpUser("decline"),
        McpUser("cancel"),
        McpUser("accept"),
        McpUser("accept", without_sandbox=False),
        McpUser("accept", without_sandbox="true"),
    ],
    ids=["cannot be asked", "declines", "cancels", "says nothing", "says no", "says a text"],
)
def test_a_command_stays_in_the_sandbox_without_a_yes(
    home: McpHome, make_server: Any, mode: str, user: McpUser | None
) -> None:
    target = home.home / "written"

    told = _leave(make_server(PERMITS), mode, f"touch {target}; cat {home.secret}", user)

    assert not target.exists()
    assert "hunter2" not in told
    assert "it ran in the sandbox: leaving it was not permitted" in told
    assert home.audit_records() == []


@pytest.mark.parametrize(
    ("own", "project"),
    [("", ""), ("[sandbox]\nask_unconfined = false\n", ""), ("", PERMITS)],
    ids=["unset", "false", "a project's file"],
)
def test_nobody_is_asked_unless_the_users_own_file_permits_it(
    home: McpHome, make_server: Any, own: str, project: str
) -> None:
    target, user = home.home / "written", McpUser(without_sandbox=True)

    for mode in ("legacy", "auto"):
        told = _leave(make_server(own, project), mode, f"touch {target}", user)

        assert "leaving it was not permitted" in told
    assert not target.exists()
    assert user.asked == []


def test_a_reply_counts_once_and_for_the_command_that_was_asked_about(
    home: McpHome, make_server: Any
) -> None:
    """A client that repeats a ticket, or gives it with another command, gets nothing by it."""
    from mcp import Client
    from mcp_types import ElicitResult, InputRequiredResult

    server, target = make_server(PERMITS), home.home / "written"
    yes = {"without_sandbox": ElicitResult(action="accept", content={"without_sandbox": True})}

    async def work() -> None:
        async with Client(server, elicitation_callback=McpUser()) as client:

            async def ask(command: str, ticket: str | None = None) -> Any:
                return await client.session.call_tool(
                    "bash",
                    {"command": command, "dangerouslyDisableSandbox": True},
                    input_responses=yes if ticket is not None else None,
                    request_state=ticket,
                    allow_input_required=True,
                )

            for command in (f"touch {target}", f"touch {target} # {'x' * 3000}"):
                asked = await ask("true")
                assert isinstance(asked, InputRequiredResult)
                await ask(command, asked.request_state)  # another command
                await ask("true", asked.request_state)  # used up by that
                await ask(command, "f" * 32)
                assert not target.exists()
            asked = await ask(f"echo x >> {target}")
            for _ in range(3):
                await ask(f"echo x >> {target}", asked.request_state)

    asyncio.run(work())

    assert target.read_text() == "x\n"
