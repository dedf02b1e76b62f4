"""`dangerouslyDisableSandbox`: what a model wants counts once, for one text, after its user has said yes."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from test_agent_calls import _run, claude, programs

from corral.cli.hook.call import TICKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import Any

    from support.named_sessions import Person

__all__ = ["claude", "programs"]  # fixtures


class Desk:
    """Somebody who uses Claude Code with corral's shell, and what its hook is told and says."""

    def __init__(self, person: Person, programs: Path) -> None:
        self.person, self._programs = person, programs
        self.settings = person.home / ".config/corral/corral.toml"
        self.state = Path(person.environment.get("XDG_STATE_HOME", f"{person.home}/.local/state")) / "corral"
        self.settings.parent.mkdir(parents=True)

    def permit(self, text: str = "ask_unconfined = true") -> None:
        self.settings.write_text(f"[sandbox]\n{text}\n")

    def hook(self, command: str, **changed: Any) -> subprocess.CompletedProcess[str]:
        asked = {
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": command, "dangerouslyDisableSandbox": True, "timeout": 5},
            "session_id": "talk",
            "cwd": str(self.person.project),
            "permission_mode": "default",
        }
        data = json.dumps({**asked, **changed}).encode()
        shell = {"CLAUDE_CODE_SHELL_PREFIX": str(self._programs / "corral-agent-shell")}
        return _run(self.person, [str(self._programs / "corral"), "hook", "claude-code"], stdin=data, **shell)

    def ask(self, command: str) -> str:
        """The command as the agent runs it if its user says yes."""
        done = self.hook(command)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)["hookSpecificOutput"]
        assert answer["permissionDecision"] == "ask"
        assert "without a sandbox" in answer["permissionDecisionReason"]
        assert answer["updatedInput"].keys() == {"command", "timeout"}
        return str(answer["updatedInput"]["command"])


@pytest.fixture
def desk(root_person: Person, programs: Path) -> Desk:
    return Desk(root_person, programs)


def test_a_command_leaves_the_sandbox_once_after_a_yes_and_is_recorded(
    desk: Desk,
    claude: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    planted = desk.person.root / "planted"
    command = f"echo x >> {planted}; readlink /proc/self/ns/pid"
    desk.permit()
    assert claude(command).returncode == 0 and not planted.exists()  # a control: by itself it stays inside
    marked = desk.ask(command)
    assert marked.startswith(f"{command}{TICKET}")

    done = claude(marked)
    again = claude(marked)

    assert planted.read_text() == "x\n"
    assert done.stdout.strip() == os.readlink("/proc/self/ns/pid") != again.stdout.strip()
    assert "ran without a sandbox, as the user permitted" in done.stderr
    (recorded,) = (desk.state / "hidden/unconfined").read_text().splitlines()
    assert "claude-code" in recorded and repr(command) in recorded


def test_a_ticket_is_for_its_own_text_and_while_the_user_wants_to_be_asked(
    desk: Desk,
    claude: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    outside = os.readlink("/proc/self/ns/pid")
    look = "readlink /proc/self/ns/pid"
    desk.permit()
    _, _, ticket = desk.ask("true").rpartition(TICKET)
    late = desk.ask(look)
    old = desk.ask(look)
    kept = hashlib.sha256(old.rpartition(TICKET)[2].encode()).hexdigest()
    os.utime(desk.state / "hidden/tickets" / kept, (1, 1))

    said = [claude(f"{look}{TICKET}{number}").stdout for number in (ticket, "0" * 32, "../../x")]
    said.append(claude(old).stdout)
    desk.permit("ask_unconfined = false")
    said.append(claude(late).stdout)

    assert all(text.startswith("pid:[") and text.strip() != outside for text in said)
    assert not (desk.state / "hidden/unconfined").exists()


def test_nobody_is_asked_unless_the_users_own_file_says_so(desk: Desk) -> None:
    assert desk.hook("true").stdout == ""
    (desk.person.project / "corral.toml").write_text("[sandbox]\nask_unconfined = true\n")
    desk.permit("")
    trusted = _run(
        desk.person, [str(desk.person.root / "bin/corral"), "policy", "trust", "corral.toml", "--yes"]
    )
    assert trusted.returncode == 0, trusted.stderr

    assert desk.hook("true").stdout == ""
    (desk.person.project / "corral.toml").unlink()
    desk.permit()
    assert desk.hook("true").stdout != ""  # a control


def test_where_nobody_would_be_asked_nothing_leaves(desk: Desk) -> None:
    desk.permit()
    given = desk.ask("true")

    for mode in ("bypassPermissions", "dontAsk", "auto", None):
        assert desk.hook("true", permission_mode=mode).stdout == ""
    assert desk.hook("true", tool_input={"command": "true"}).stdout == ""
    forged = desk.hook(given, tool_input={"command": given})
    assert forged.returncode == 2
    assert "a ticket of corral's own" in forged.stderr
