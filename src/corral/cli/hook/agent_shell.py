"""corral-agent-shell: what Claude Code gives every shell script to (CLAUDE_CODE_SHELL_PREFIX).

So a command runs in the sandbox or not at all, whatever becomes of hooks: without this program the agent has
no shell.
"""

from __future__ import annotations

import contextlib
import os
import sys

from corral.cli.hook.bypass import check_line, command_of
from corral.cli.hook.call import TICKET
from corral.cli.hook.execute import (
    ask_inside,
    connect,
    explain,
    run_as_is_if_wrapped,
    run_bypassing,
    run_line,
    shell,
    working_directory,
)
from corral.cli.run import report_error, say
from corral.model.errors import CorralError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from corral.sessions.named.client import ClientConnection

_AGENT = "claude-code"
#: How the agent learns the directory in which a command has ended: so ends every script of its shell tool.
_TELLS_DIRECTORY = " && pwd -P >| "
#: What comes before the command in such a script.
_RUNS = " && eval "
_MOST_PATH_BYTES = 4096
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+@")


def run_script(arguments: list[str]) -> int:
    """Run a script of the agent's; returns its status."""
    if len(arguments) != 1:
        os.write(2, b"corral-agent-shell: takes one argument, a script; Claude Code calls it\n")
        return 2
    script = arguments[0]
    head, tells, file = _split(script)
    if _TELLS_DIRECTORY not in script and _is_of_harness():
        os.execv("/bin/sh", ("/bin/sh", "-c", script))
    run_as_is_if_wrapped(script)
    conversation = os.environ.get("CLAUDE_CODE_SESSION_ID", "") or f"process {os.getppid()}"
    command = head.partition(_RUNS)[2]
    inside = f"/tmp/.corral-{os.path.basename(file)}-{os.getpid()}"
    try:
        run_as_is_if_permitted(command_of(command), script)
        status = run_bypassing(_AGENT, command_of(command))
        if status is not None:
            return status
        check_line(_AGENT, command_of(command) or script)
        with connect(_AGENT, conversation, working_directory() or "/") as connection:
            status = run_line(connection, f"{head}{tells}{inside}" if tells else script)
    except CorralError as error:
        return report_error(error, as_json=False)
    explain(_AGENT, conversation, command_of(command) or head or script, status)
    if not status and tells:
        with contextlib.suppress(CorralError, OSError), connect(_AGENT, conversation, "/") as connection:
            _tell_directory(connection, inside, file)
    return status


def run_as_is_if_permitted(command: str, script: str) -> None:
    """Run a script without a sandbox, if the user was asked about its command and said yes.

    ORDER: the ticket is used up, and the run is recorded, before anything runs. Raises CorralError.
    """
    if TICKET not in command:
        return
    from corral.cli.hook.unconfined import may_ask, record, use_ticket

    permitted = use_ticket(command)
    if not permitted or not may_ask(_AGENT, working_directory() or "/"):
        return
    try:
        record(_AGENT, permitted)
    except OSError as problem:
        say(f"this command runs in the sandbox: no record can be written ({problem})")
        return
    say("this command ran without a sandbox, as the user permitted")
    os.execv(shell(), (shell(), "-c", script))


def _split(script: str) -> tuple[str, str, str]:
    """What runs, and the file that is to tell the directory; empty if the script does not end so.

    TRUST: the command stands before it, in quotes. A name with anything in it that a shell reads may be part
    of the command.
    """
    head, tells, file = script.rpartition(_TELLS_DIRECTORY)
    return (head, tells, file) if _PLAIN.issuperset(file) and file[:1] == "/" else ("", "", "")


def _is_of_harness() -> bool:
    """Whether this is a hook or an MCP server of the user's settings, and no command of the model's.

    TRUST: the agent says so, in a variable that it sets for each process. It must agree with the script,
    which for a command ends as no hook does.
    """
    return os.environ.get("AI_AGENT", "").endswith("_harness") and "CLAUDE_PROJECT_DIR" in os.environ


def _tell_directory(connection: ClientConnection, inside: str, file: str) -> None:
    """Let the agent know where the command has ended, if there is such a place on the host.

    TRUST: the command may have written anything there. It has the say about its own directory only.
    """
    script = f"head -c {_MOST_PATH_BYTES} {inside}; rm -f {inside}"
    path = ask_inside(connection, ("/bin/sh", "-c", script)).removesuffix(b"\n")
    if not path.startswith(b"/") or b"\n" in path or b"\0" in path:
        return
    if not os.path.isdir(path):
        say(f"{os.fsdecode(path)} is in the sandbox only; the next command begins where this one did")
        return
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as told:
        told.write(path + b"\n")


def main() -> NoReturn:
    """Entry point of `corral-agent-shell`."""
    from corral.cli.main import run_quickly

    run_quickly(lambda: run_script(sys.argv[1:]))
