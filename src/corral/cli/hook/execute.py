"""Run an agent's command in the sandbox that is kept for its conversation, on the agent's own descriptors."""

from __future__ import annotations

import contextlib
import hashlib
import os

from corral.cli.hook.bypass import check_line, find_bypassing
from corral.cli.run import passed_on, report_error, run_request, say, stop_and_go
from corral.cli.wrap import is_wrapped
from corral.model.errors import CorralError
from corral.sessions.named.client import ClientConnection, call, stop
from corral.sessions.named.record import find_entry
from corral.sessions.named.request import ExecRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Agents wait for their users. A sandbox that nobody has used for so long is ended.
_IDLE = "2h"
_PIPE_BYTES = 65_536
#: What an agent sets so that programs ask nothing and draw nothing.
_PASSED = (
    "GIT_EDITOR",
    "GIT_PAGER",
    "PAGER",
    "GH_PAGER",
    "NO_COLOR",
    "TERM",
    "COLORTERM",
    "CLAUDECODE",
    "AI_AGENT",
)
#: Prints those of its arguments that are not there.
_HIDDEN = (
    "/bin/sh",
    "-c",
    'for path; do test -e "$path" || test -L "$path" || printf "%s\\n" "$path"; done',
    "sh",
)
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


def session_name(agent: str, conversation: str) -> str:
    """The named session of a conversation. Conversations have names of any kind."""
    return f"{agent}-{hashlib.sha256(conversation.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def execute(agent: str, conversation: str, workspace: str, line: str) -> int:
    """Run a shell line; returns its status. The workspace counts when the sandbox is made."""
    run_as_is_if_wrapped(line)
    try:
        status = run_bypassing(agent, line)
        if status is not None:
            return status
        check_line(agent, line)
        with connect(agent, conversation, workspace) as connection:
            status = run_line(connection, line)
    except CorralError as error:
        return report_error(error, as_json=False)
    explain(agent, conversation, line, status)
    return status


def run_bypassing(agent: str, line: str) -> int | None:
    """Run a command that the user lets run without a sandbox, and say so; None for all others."""
    found = find_bypassing(agent, line)
    return run_request(*found) if found is not None else None


def run_as_is_if_wrapped(line: str) -> None:
    """In `corral wrap` the agent's own sandbox holds its commands too; another one cannot be made in it."""
    if is_wrapped():
        os.execv(shell(), (shell(), "-c", line))


def explain(agent: str, conversation: str, line: str, status: int) -> None:
    """Say what of the sandbox may have made a command, or a part of it, fail."""
    from corral.integrations.failure import pipes_network

    if status:
        _explain_failure(agent, conversation, line)
    elif "|" in line and pipes_network(line):
        with contextlib.suppress(CorralError):
            _explain_network(agent, conversation)


def _explain_failure(agent: str, conversation: str, line: str) -> None:
    from corral.integrations.failure import absolute_paths, describe_hidden, wants_network

    with contextlib.suppress(CorralError):  # the command has run, and there is no more to say
        with connect(agent, conversation, "/") as connection:
            paths = absolute_paths(line, connection.entry.workspace)
            said = ask_inside(connection, (*_HIDDEN, *paths)) if paths else b""
        for text in describe_hidden(path for path in paths if os.fsencode(path) in said.splitlines()):
            say(text)
        if wants_network(line):
            _explain_network(agent, conversation)


def _explain_network(agent: str, conversation: str) -> None:
    from corral.integrations.failure import describe_network

    with connect(agent, conversation, "/") as connection:
        for text in describe_network(connection):
            say(text)


def ask_inside(connection: ClientConnection, argv: tuple[str, ...]) -> bytes:
    """What a small program prints in a session: less than a pipe holds."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)  # another process of the session could keep the other end open
    saved = os.dup(1)
    try:
        os.dup2(writer, 1)
        os.close(writer)
        connection.execute(ExecRequest(argv))
    finally:
        os.dup2(saved, 1)
        os.close(saved)
    with open(reader, "rb", buffering=0) as pipe:
        return pipe.read(_PIPE_BYTES) or b""


def connect(agent: str, conversation: str, workspace: str) -> ClientConnection:
    """A connection to the session of a conversation, which is started if need be. Raises CorralError."""
    name = session_name(agent, conversation)
    found = find_entry(name)
    if found is not None and found[1].is_living and found[1].token:
        with contextlib.suppress(CorralError):  # it has just ended
            return ClientConnection(*found)
    _start(name, agent, found[1].workspace if found is not None else workspace)
    return call(name)


def run_line(connection: ClientConnection, line: str) -> int:
    """Run a shell line in a session, and say what there is to say; returns its status. Raises CorralError."""
    terminal = os.isatty(0) and os.isatty(1)
    here = working_directory()
    env = {name: os.environ[name] for name in _PASSED if name in os.environ}
    request = ExecRequest((shell(), "-c", line), here or None, here, env, terminal=terminal)
    connection.pass_signals(passed_on(), lambda: stop_and_go(connection.forward))
    if terminal:
        from corral.streams.terminal import TerminalStreams

        answer = connection.execute_on(request, TerminalStreams(connection.entry.output_bytes or None))
    else:
        answer = connection.execute(request)
    for text in answer["lines"]:
        say(str(text))
    return int(answer["exit_status"])


def working_directory() -> str:
    """Where the agent starts a command; nothing if that has been removed. Then it is the workspace."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def end_session(agent: str, conversation: str) -> int:
    """A conversation is over: nothing of it is to stay. Returns the exit status."""
    name = session_name(agent, conversation)
    found = find_entry(name)
    if found is None or not found[1].is_living or os.fork():
        return 0  # the agent is about to end, and waits for nobody
    os.setsid()
    with contextlib.suppress(CorralError):
        stop(name)
    return 0


def _start(name: str, agent: str, workspace: str) -> None:
    from corral.audit import caller
    from corral.cli.options import defaults
    from corral.cli.session.show import start_session

    caller.agent = agent

    options: Mapping[str, Any] = {**defaults(), "cwd": workspace, "agent": agent}
    try:
        start_session(name, options, _IDLE, None, reuse=True)
    except CorralError as error:
        if error.code != "unknown-agent":
            raise
        start_session(name, {**options, "agent": None}, _IDLE, None, reuse=True)  # what holds for everyone


def shell() -> str:
    """The shell that reads an agent's commands."""
    return next(path for path in _SHELLS if os.path.exists(path) or path == _SHELLS[-1])
