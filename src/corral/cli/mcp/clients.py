"""What is written for each client so that it starts `corral mcp serve`, and how to take it out again."""

from __future__ import annotations

import json
import os
import tomllib

from corral.cli.install.agents import Edit, beside
from corral.cli.install.json_text import parse, remove, set_member
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NAME = "corral"
_SERVES = ["mcp", "serve"]
_MARK = "# Written by `corral mcp install codex`."
#: Clients that start servers elsewhere than in the project say in this way where that is.
_FOLDER = "${workspaceFolder}"


class McpClient(Record):
    """A client that can be told of corral's server."""

    edit: Callable[[str, str, list[str]], Edit]  # of a home, a project (empty for all), and the arguments
    arguments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _json_edit(path: str, keys: tuple[str, ...], entry: dict[str, Any]) -> Edit:
    """An entry of its own among the servers of a JSON file."""
    place = (*keys, _NAME)

    def found(text: str) -> Any:
        value: Any = parse(text)
        for key in place:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def add(text: str) -> str:
        if found(text) is not None:
            raise ValueError(f"{'.'.join(place)} is there already, and corral has not written it")
        return set_member(text, place, entry)

    def clean(text: str) -> str:
        return remove(text, place) if _is_own(found(text)) else text

    return Edit(path, add, clean, "{}\n")


def _is_own(entry: object) -> bool:
    if not isinstance(entry, dict):
        return False
    command, arguments = entry.get("command"), entry.get("args", [])
    words = [*command] if isinstance(command, list) else [command, *arguments]
    return isinstance(words[0], str) and os.path.basename(words[0]) == "corral" and words[1:3] == _SERVES


def _stdio(arguments: list[str]) -> dict[str, Any]:
    return {"command": beside("corral"), "args": arguments}


def _claude(home: str, project: str, arguments: list[str]) -> Edit:
    file = f"{project}/.mcp.json" if project else f"{home}/.claude.json"
    return _json_edit(file, ("mcpServers",), {"type": "stdio", **_stdio(arguments)})


def _gemini(home: str, project: str, arguments: list[str]) -> Edit:
    return _json_edit(f"{project or home}/.gemini/settings.json", ("mcpServers",), _stdio(arguments))


def _cursor(home: str, project: str, arguments: list[str]) -> Edit:
    return _json_edit(f"{project or home}/.cursor/mcp.json", ("mcpServers",), _stdio(arguments))


def _vscode(home: str, project: str, arguments: list[str]) -> Edit:
    file = f"{project}/.vscode/mcp.json" if project else f"{home}/.config/Code/User/mcp.json"
    return _json_edit(file, ("servers",), {"type": "stdio", **_stdio(arguments)})


def _opencode(home: str, project: str, arguments: list[str]) -> Edit:
    file = f"{project}/opencode.json" if project else f"{home}/.config/opencode/opencode.json"
    entry = {"type": "local", "command": [beside("corral"), *arguments], "enabled": True}
    return _json_edit(file, ("mcp",), entry)


def _codex(home: str, project: str, arguments: list[str]) -> Edit:
    place = f"{project}/.codex" if project else os.environ.get("CODEX_HOME") or f"{home}/.codex"
    table = (
        f"[mcp_servers.{_NAME}]\ncommand = {json.dumps(beside('corral'))}\nargs = {json.dumps(arguments)}\n"
        "required = true\n"  # else Codex begins without the tools of a server that is still starting
    )

    def add(text: str) -> str:
        if _NAME in tomllib.loads(text).get("mcp_servers", {}):
            raise ValueError(f"mcp_servers.{_NAME} is there already, and corral has not written it")
        made = f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}\n{_MARK}\n{table}"
        tomllib.loads(made)
        return made

    return Edit(f"{place}/config.toml", add, _without_table)


def _without_table(text: str) -> str:
    """Without what corral has written, and what Codex notes beneath it: it wants a command there."""
    if _MARK not in text.split("\n"):
        return text
    kept: list[str] = []
    is_own = False
    for line in text.split("\n"):
        if line == _MARK:
            is_own = True
            if kept and not kept[-1]:
                kept.pop()  # it was written with the mark
        elif line.startswith(f"[mcp_servers.{_NAME}.") or (is_own and line == f"[mcp_servers.{_NAME}]"):
            is_own = True
        elif not line or line.startswith(("[", "#")):
            is_own = False
            kept.append(line)
        elif not is_own:
            kept.append(line)
    made = "\n".join(kept)
    expected = tomllib.loads(text)
    expected["mcp_servers"].pop(_NAME, None)
    found = tomllib.loads(made)
    if {"mcp_servers": {}, **found} != expected:
        raise ValueError(f"mcp_servers.{_NAME} cannot be told from what stands around it: remove it yourself")
    return made


_ASKS = "It asks before it uses a tool of the server, unless you permit that in its own settings."
CLIENTS = {
    "claude-code": McpClient(_claude, notes=(_ASKS,)),
    "codex": McpClient(_codex, notes=(_ASKS,)),
    "gemini": McpClient(_gemini, notes=(_ASKS,)),
    "cursor": McpClient(_cursor, ("--cwd", _FOLDER), (_ASKS,)),
    "vscode": McpClient(_vscode, ("--cwd", _FOLDER), (_ASKS,)),
    "opencode": McpClient(_opencode),
}
