"""AgentCall: a tool call as an agent tells its hook, read strictly. Nothing slow is imported."""

from __future__ import annotations

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Agent -> the event that comes before a call, and the name of its shell tool.
AGENTS = {
    "claude-code": ("PreToolUse", "Bash"),
    "codex": ("PreToolUse", "Bash"),
    "gemini": ("BeforeTool", "run_shell_command"),
}
#: Those that rewrite the command themselves, by a plugin, have no hook to ask.
CALLERS = (*AGENTS, "opencode", "pi")
_LEAVES = "dangerouslyDisableSandbox"
#: Modes of Claude Code in which a question of a hook's reaches its user.
_ASKING = frozenset({"default", "acceptEdits", "plan"})
#: Ends a command that its user lets run without a sandbox: a comment with a number that corral gave out.
TICKET = "\n# corral: without a sandbox, by ticket "
MOST_INPUT_BYTES = 64 * 1024 * 1024
#: The kernel takes no argument of 128 KiB, and quoting makes a command longer.
MOST_COMMAND_BYTES = 100_000


class BadCall(Exception):
    """A call that cannot be rewritten, in words for the model: it must not run."""


class AgentCall(Record):
    """A shell command that an agent is about to run."""

    agent: str
    command: str
    session: str  # the agent's name for its conversation
    directory: str  # where the agent works
    others: tuple[tuple[str, Any], ...] = ()  # what else the call says: a time limit, a description
    without_sandbox: bool = False  # the model wants that, and its user can be asked; nothing more


def read_call(agent: str, data: bytes) -> AgentCall:
    """A call as it came on stdin. Raises BadCall."""
    event, tool = AGENTS[agent]
    message = _object(data)
    if message.get("hook_event_name") != event:
        said = _shown(message.get("hook_event_name"))
        raise BadCall(f"the hook was called for the event {said}; it is for {event!r}")
    if message.get("tool_name") != tool:
        name = _shown(message.get("tool_name"))
        raise BadCall(f"the hook was called for the tool {name}; its matcher has to be {tool!r}")
    tool_input = message.get("tool_input")
    if not isinstance(tool_input, dict) or not isinstance(tool_input.get("command"), str):
        raise BadCall("the call has no command that is a text")
    command: str = tool_input["command"]
    _check_command(command)
    session, directory = message.get("session_id"), message.get("cwd")
    if not isinstance(session, str) or not session:
        raise BadCall("the call does not say which conversation it belongs to (session_id)")
    if not isinstance(directory, str) or not directory.startswith("/") or "\0" in directory:
        raise BadCall("the call does not say where the agent works (cwd)")
    others = tuple(pair for pair in tool_input.items() if pair[0] not in {"command", _LEAVES})
    leaves = tool_input.get(_LEAVES) is True and message.get("permission_mode") in _ASKING
    return AgentCall(agent, command, session, directory, others, leaves)


def read_end(agent: str, data: bytes) -> str:
    """The conversation that has ended, if that is what the agent tells; else nothing."""
    message = _object(data) if agent == "claude-code" else {}
    session = message.get("session_id")
    return session if message.get("hook_event_name") == "SessionEnd" and isinstance(session, str) else ""


def _check_command(command: str) -> None:
    if not command.strip():
        raise BadCall("the command is empty")
    if "\0" in command:
        raise BadCall("the command has a NUL character, which no shell accepts")
    if TICKET in command:  # it may have been in a question that was answered with no
        raise BadCall("the command has a ticket of corral's own in it")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise BadCall("the command is not valid Unicode") from None
    if size > MOST_COMMAND_BYTES:
        raise BadCall(
            f"it has {size} bytes, and may have {MOST_COMMAND_BYTES}: write the script to a file and run that"
        )


def _object(data: bytes) -> dict[str, Any]:
    if len(data) > MOST_INPUT_BYTES:
        raise BadCall(f"the call has more than {MOST_INPUT_BYTES} bytes")
    try:
        message = _parse(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadCall("the call is not valid UTF-8") from None
    except (
        ValueError,
        StopIteration,
        RecursionError,
        SystemError,
    ):  # the last without `json`
        raise BadCall("the call is not valid JSON") from None
    if not isinstance(message, dict):
        raise BadCall("the call is not a JSON object")
    return message


def _parse(text: str) -> Any:
    """`json.loads`, by its own scanner: importing `json` costs a third of what a start does."""
    try:
        from _json import make_scanner
    except ImportError:
        import json

        return json.loads(text)
    stripped = text.strip(" \t\r\n")
    scanner: Any = make_scanner
    value, end = scanner(_Scanning)(stripped, 0)
    if end != len(stripped):
        raise ValueError("something follows the value")
    return value


class _Scanning:
    """How the scanner makes values."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}


def _shown(value: object) -> str:
    return repr(value)[:60]
