"""The tools of the MCP server: their names, what they take, and a strict reader for it."""

from __future__ import annotations

from corral.integrations.bash_call import MOST_COMMAND_BYTES, BadArguments
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Of the content of one file, in an argument.
MOST_CONTENT_BYTES = 8 * 1024 * 1024
MOST_PATH_BYTES = 4096
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_ARTICLES = {
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
}


class Field(Record):
    """One argument of a tool."""

    name: str
    kind: str
    description: str
    is_required: bool = False
    most_bytes: int = MOST_PATH_BYTES  # of a text
    least: int | None = None  # of a number
    choices: tuple[str, ...] = ()


class Tool(Record):
    """One tool, as a client lists it."""

    name: str
    title: str
    description: str
    fields: tuple[Field, ...] = ()
    only_reads: bool = False

    def schema(self) -> dict[str, Any]:
        """What it takes, as JSON Schema."""
        properties: dict[str, Any] = {}
        for field in self.fields:
            properties[field.name] = {"type": field.kind, "description": field.description}
            if field.choices:
                properties[field.name]["enum"] = list(field.choices)
            if field.least is not None:
                properties[field.name]["minimum"] = field.least
        required = [field.name for field in self.fields if field.is_required]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }


_TIMEOUT = Field("timeout", "number", "Milliseconds until it is ended.", least=1)
_WHAT = Field("description", "string", "What it does, in a few words. It has no effect.")
_PATH = Field("path", "string", "Relative to the workspace, or absolute.", is_required=True)

TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "bash",
            "Run a shell command in the sandbox",
            "Run a command in a shell, in a sandbox. Working directory and exported variables last to the"
            " next call; a server started with & runs on. If the sandbox refuses something, the answer says"
            " what and why.",
            (
                Field(
                    "command",
                    "string",
                    "The command, or a script of several lines.",
                    is_required=True,
                    most_bytes=MOST_COMMAND_BYTES,
                ),
                _TIMEOUT,
                _WHAT,
                Field(
                    "dangerouslyDisableSandbox",
                    "boolean",
                    "Ask the user to run it without a sandbox. It has no effect unless the user's own"
                    " configuration permits to ask.",
                ),
            ),
        ),
        Tool(
            "python",
            "Run Python in the sandbox",
            "Run a Python program in the sandbox, with a new interpreter, where the last bash call ended.",
            (
                Field("code", "string", "The program.", is_required=True, most_bytes=MOST_CONTENT_BYTES),
                _TIMEOUT,
                _WHAT,
            ),
        ),
        Tool(
            "read_file",
            "Read a file",
            "Read a text file, as commands in the sandbox see it.",
            (
                _PATH,
                Field("offset", "integer", "The first line to show; 1 is the first.", least=1),
                Field("limit", "integer", "How many lines to show.", least=1),
            ),
            only_reads=True,
        ),
        Tool(
            "write_file",
            "Write a file",
            "Write a text file, all of it; directories on the way are made.",
            (
                _PATH,
                Field(
                    "content", "string", "The new content.", is_required=True, most_bytes=MOST_CONTENT_BYTES
                ),
            ),
        ),
        Tool(
            "edit_file",
            "Edit a file",
            "Replace a text in a file. It has to be there exactly once, unless replace_all is true.",
            (
                _PATH,
                Field(
                    "old_string",
                    "string",
                    "The text to replace.",
                    is_required=True,
                    most_bytes=MOST_CONTENT_BYTES,
                ),
                Field(
                    "new_string",
                    "string",
                    "The text to put there.",
                    is_required=True,
                    most_bytes=MOST_CONTENT_BYTES,
                ),
                Field("replace_all", "boolean", "Replace every occurrence."),
            ),
        ),
        Tool(
            "list_dir",
            "List a directory",
            "List a directory, as commands in the sandbox see it.",
            (
                _PATH.replace(
                    is_required=False, description="Relative to the workspace, which is the default."
                ),
            ),
            only_reads=True,
        ),
        Tool(
            "sandbox_status",
            "Show the sandbox",
            "Say what the sandbox permits: paths, network, limits; what it has used; and what enforces it.",
            only_reads=True,
        ),
        Tool(
            "explain_denial",
            "Explain a refusal",
            "Say what the sandbox has refused, and what only the user could permit. With a target: whether"
            " commands may read, write or connect to it, and why not.",
            (
                Field("target", "string", "A path, a host or a URL. Without it: the last refusals."),
                Field(
                    "operation",
                    "string",
                    "What to do with the target; read is the default for paths.",
                    choices=("read", "write", "connect"),
                ),
            ),
            only_reads=True,
        ),
    )
}


def read_arguments(tool: Tool, arguments: object) -> dict[str, Any]:
    """The arguments of a call, each of its type and within its bounds. Raises BadArguments."""
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise BadArguments("the arguments have to be an object")
    known = {field.name: field for field in tool.fields}
    for name in arguments:
        if name not in known:
            there_are = ", ".join(known) or "none"
            raise BadArguments(f"there is no argument {str(name)[:40]!r}; there are: {there_are}")
    read: dict[str, Any] = {}
    for field in tool.fields:
        value = arguments.get(field.name)
        if value is None:
            if field.is_required:
                raise BadArguments(f"`{field.name}` is missing")
            continue
        _check(field, value)
        read[field.name] = value
    return read


def _check(field: Field, value: object) -> None:
    is_number = field.kind in {"integer", "number"}
    if not isinstance(value, _TYPES[field.kind]) or (is_number and isinstance(value, bool)):
        raise BadArguments(f"`{field.name}` has to be {_ARTICLES[field.kind]}")
    if isinstance(value, int | float) and field.least is not None and not field.least <= value < 2**53:
        raise BadArguments(f"`{field.name}` has to be a number, {field.least} or more")
    if field.choices and value not in field.choices:
        raise BadArguments(f"`{field.name}` has to be one of: {', '.join(field.choices)}")
    if isinstance(value, str):
        _check_text(field, value)


def _check_text(field: Field, value: str) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise BadArguments(f"`{field.name}` is not valid Unicode") from None
    if size > field.most_bytes:
        instead = ": write a file and run that" if field.name == "command" else ""
        raise BadArguments(f"`{field.name}` has {size} bytes, and may have {field.most_bytes}{instead}")
    is_content = field.name in {"content", "new_string", "old_string", "code"}
    if "\0" in value and not is_content:
        raise BadArguments(f"`{field.name}` has a NUL character, which nothing here accepts")
    if field.is_required and field.name in {"command", "path", "code", "old_string"} and not value.strip():
        if field.name == "old_string" and value:
            return
        raise BadArguments(f"`{field.name}` is empty")
