"""ExecRequest: what a client wants to run in a named session, read from its message."""

from __future__ import annotations

import os

from corral.model.errors import PolicyError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class ExecRequest(Record):
    """One command. Client and session are the same user's: this is no wall, only a language."""

    command: str | tuple[str, ...]  # a shell line, or a program with its arguments
    cwd: str | None = None  # a path that was named
    here: str = ""  # where the client is: the working directory, if that is in the workspace
    env: Mapping[str, str] = {}
    timeout: float | None = None
    is_stateful: bool = False
    is_detached: bool = False
    is_verbose: bool = False
    terminal: bool = False
    captures: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        """The program to be started."""
        return ("/bin/sh", "-c", self.command) if isinstance(self.command, str) else self.command

    @property
    def shown(self) -> tuple[str, ...]:
        """What to show of it."""
        return (self.command,) if isinstance(self.command, str) else self.command

    def directory(self, workspace: str) -> str | None:
        """Where it works; None is the workspace."""
        if self.cwd is not None:
            return self.cwd
        is_inside = self.here == workspace or self.here.startswith(f"{workspace.rstrip('/')}/")
        return self.here if is_inside else None

    def to_json(self) -> dict[str, Any]:
        """In JSON's own types."""
        values = {field: getattr(self, field) for field in ExecRequest._fields}
        is_line = isinstance(self.command, str)
        return {**values, "command": self.command if is_line else list(self.command), "env": dict(self.env)}


def read_request(message: Mapping[str, Any]) -> ExecRequest:
    """A request as it came. Raises PolicyError."""
    command = message.get("command")
    env = message.get("env") or {}
    values = {field: message[field] for field in ExecRequest._fields[3:] if field in message}
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        command = tuple(command)
    elif not isinstance(command, str) or not command.strip():
        raise no_command()
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise no_command()
    cwd, here = message.get("cwd"), message.get("here")
    cwd = cwd if isinstance(cwd, str) else None
    here = os.path.normpath(here) if isinstance(here, str) and here else ""
    return ExecRequest(command, cwd, here, **{**values, "env": env})


def no_command() -> PolicyError:
    """There is nothing to run."""
    return PolicyError(
        "empty-command",
        "there is no command to run",
        why="nothing follows the name of the session",
        fix="write `corral session exec NAME -- COMMAND`, or `corral session exec NAME -c 'SHELL LINE'`",
    )
