"""A command without a sandbox, because the user said so when the agent asked: once, and on record.

`dangerouslyDisableSandbox` in a call is what a model wants, and does nothing. If the user's own file has
`ask_unconfined = true`, the hook has the agent ask its user, and ends the command with a ticket: a comment
with a number that the model does not know. Corral's shell runs without a sandbox what comes with a ticket of
the hook's, and uses it up. A command that is not permitted never reaches the shell, and its ticket grows old.

TRUST: tickets lie in the state directory, where no command can write, nor read what is hidden. They are kept
as hashes besides. One is for a single text.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time

from corral.cli.hook.call import TICKET
from corral.cli.options import defaults
from corral.cli.request import is_configured, load_request
from corral.host.real import HIDDEN, state_directory
from corral.host.state import read_state, write_state
from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.config.configuration import Configuration

QUESTION = "corral: run this command without a sandbox? It could then do whatever you can do"
_DIRECTORY = f"{HIDDEN}/tickets"
_RECORD = f"{HIDDEN}/unconfined"
_DIGITS = 32
_MOST_BYTES = 256
#: Somebody who has not answered by then is asked again.
_SECONDS = 3600


def may_ask(agent: str, workspace: str) -> bool:
    """Whether the user's own file lets this agent ask. Raises CorralError."""
    options = {**defaults(), "agent": agent, "cwd": workspace}
    if not is_configured({**options, "agent": None}):
        return False
    return _configuration(options).asks_unconfined


def _configuration(options: dict[str, object]) -> Configuration:
    try:
        return load_request(options)
    except PolicyError as error:
        if error.code != "unknown-agent":
            raise
        return load_request({**options, "agent": None})


def with_ticket(command: str) -> str:
    """The command with a new ticket at its end. Raises OSError if none can be kept."""
    _forget_old()
    ticket = os.urandom(_DIGITS // 2).hex()
    write_state(_place(ticket), _digest(command))
    return f"{command}{TICKET}{ticket}"


def use_ticket(marked: str) -> str:
    """The command that a ticket of the hook's is for, which is used up by that; nothing if there is none."""
    command, found, ticket = marked.rpartition(TICKET)
    if not found or len(ticket) != _DIGITS or not ticket.isalnum():
        return ""
    path = os.path.join(state_directory(), _place(ticket))
    try:
        is_young = 0 <= time.time() - os.lstat(path).st_mtime < _SECONDS
        kept = read_state(_place(ticket), _MOST_BYTES)
        os.unlink(path)  # ORDER: of two that come with one ticket, the second fails here
    except OSError:
        return ""
    return command if is_young and kept == _digest(command) else ""


def record(agent: str, command: str) -> None:
    """Write down that it runs. Raises OSError: what cannot be recorded does not run."""
    path = os.path.join(state_directory(), _RECORD)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        line = f"{when} {agent} {os.getcwd()!r} {command!r}\n"
        os.write(descriptor, line.encode("utf-8", "backslashreplace"))
    finally:
        os.close(descriptor)


def _place(ticket: str) -> str:
    """Where a ticket is kept, in the state directory: by its hash, so that a list of names is of no use."""
    return f"{_DIRECTORY}/{_digest(ticket).decode()}"


def _digest(command: str) -> bytes:
    return hashlib.sha256(command.encode("utf-8", "surrogateescape")).hexdigest().encode()


def _forget_old() -> None:
    with contextlib.suppress(OSError), os.scandir(os.path.join(state_directory(), _DIRECTORY)) as entries:
        for entry in entries:
            if time.time() - entry.stat(follow_symlinks=False).st_mtime >= _SECONDS:
                os.unlink(entry.path)
