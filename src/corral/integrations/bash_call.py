"""BashCall and BashOutput: what a model asks a shell tool for, and what it is told."""

from __future__ import annotations

from corral.model.record import Record
from corral.model.result import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from corral.model.result import Result

NAME = "bash"
DESCRIPTION = (
    "Run a command in a shell, in a sandbox. The working directory and exported variables last until the next"
    " call. With run_in_background the answer has the id of a job; use it to read its output and to end it."
)
#: Name -> type and meaning.
FIELDS = {
    "command": ("string", "The command, or a script of several lines."),
    "timeout": ("number", "Milliseconds until it is ended."),
    "run_in_background": ("boolean", "Return at once, and let it run in the background."),
    "description": ("string", "What it does, in a few words."),
    "dangerouslyDisableSandbox": ("boolean", "Ask the user to run it without a sandbox."),
}
MOST_COMMAND_BYTES = 100_000


class BadArguments(Exception):
    """What a model asked for cannot be done, in words for the model."""


class BashCall(Record):
    """Arguments that are what they should be."""

    command: str
    timeout_seconds: float
    in_background: bool = False
    without_sandbox: bool = False


class BashOutput(Record):
    """The text for the model, and the result behind it."""

    text: str
    is_error: bool = False
    exit_status: int | None = None  # None: it did not run, or has not ended
    job: str = ""  # the id of what runs in the background
    result: Result | None = None


def read_arguments(arguments: object, default_seconds: float, most_seconds: float) -> BashCall:
    """The call that a model's arguments are. Raises BadArguments."""
    if not isinstance(arguments, dict):
        raise BadArguments("the arguments have to be an object")
    unknown = sorted(str(name) for name in arguments if name not in FIELDS)
    if unknown:
        raise BadArguments(f"there is no argument {unknown[0]!r}; there are {', '.join(FIELDS)}")
    command = arguments.get("command")
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise BadArguments("`command` has to be a text that is not empty and has no NUL character")
    if len(command.encode("utf-8", "surrogatepass")) > MOST_COMMAND_BYTES:
        raise BadArguments(f"`command` has more than {MOST_COMMAND_BYTES} bytes: write a file and run that")
    flags = {
        name: arguments.get(name) or False for name in ("run_in_background", "dangerouslyDisableSandbox")
    }
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise BadArguments(f"`{name}` has to be true or false")
    return BashCall(command, _seconds(arguments, default_seconds, most_seconds), *flags.values())


def _seconds(arguments: Mapping[str, Any], default: float, most: float) -> float:
    asked = arguments.get("timeout")
    if asked is None:
        return default
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked > 0:
        raise BadArguments("`timeout` has to be a number of milliseconds, more than 0")
    return min(float(asked) / 1000, most)


def anthropic_schema() -> dict[str, Any]:
    """The tool, as Anthropic's Messages take it."""
    return {"name": NAME, "description": DESCRIPTION, "input_schema": _schema()}


def openai_schema() -> dict[str, Any]:
    """The tool, as OpenAI's chat completions take it."""
    return {
        "type": "function",
        "function": {"name": NAME, "description": DESCRIPTION, "parameters": _schema()},
    }


def gemini_schema() -> dict[str, Any]:
    """The tool, as Gemini takes it among `functionDeclarations`."""
    return {"name": NAME, "description": DESCRIPTION, "parameters": _schema()}


def _schema() -> dict[str, Any]:
    fields = {name: {"type": kind, "description": text} for name, (kind, text) in FIELDS.items()}
    return {"type": "object", "properties": fields, "required": ["command"]}


def describe(result: Result, most_characters: int) -> BashOutput:
    """What a model is told of a command that has ended: its output, then how it ended unless that is well."""
    parts = [cut_middle(result.stdout + result.stderr, most_characters).rstrip("\n")]
    if result.outcome is Outcome.TIMED_OUT:
        parts.append(f"[timed out after {result.duration_seconds:.1f} s, and was ended]")
    elif not result.ok:
        parts.append(f"[{result.describe()}]")
    parts += (f"[corral: {note}]" for note in result.notes)
    parts += (f"[corral: {violation.describe()}]" for violation in result.violations if not result.ok)
    text = "\n".join(part for part in parts if part) or "[no output]"
    return BashOutput(text, not result.ok, result.exit_status, result=result)


def cut_middle(text: str, most_characters: int) -> str:
    """The text, or its beginning and its end with a note between them, in so many characters about."""
    if len(text) <= most_characters:
        return text
    head = text[: most_characters // 2]
    tail = text[len(text) - most_characters // 2 :]
    left = len(text) - len(head) - len(tail)
    return f"{head}\n[... {left} characters left out ...]\n{tail}"
