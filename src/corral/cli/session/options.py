"""The options of `corral session exec`, and how they are read: a name, then a command, maybe after `--`."""

from __future__ import annotations

from corral.cli.options import Option
from corral.model.record import Record

EXEC_OPTIONS: tuple[Option, ...] = (
    Option("line", ("-c",), "Run a shell line instead of a command.", "LINE"),
    Option("terminal", ("-t", "--tty"), "Give it its own terminal."),
    Option("detach", ("-d", "--detach"), "Return at once; its output goes to the session's log."),
    Option("stateful", ("--stateful",), "Start with the directory and variables of the last such command."),
    Option("env", ("--env",), "Pass a variable (NAME), or set one (NAME=VALUE).", "NAME", multiple=True),
    Option("cwd", ("--cwd",), "Directory to work in; yours, if that is in the workspace.", "DIR"),
    Option(
        "timeout", ("--timeout",), "Stop it after this time; can only shorten the policy's limit.", "TIME"
    ),
    Option("json", ("--json",), "Print the whole result record as JSON."),
    Option("verbose", ("-v", "--verbose"), "Say what protected the run."),
)


class ExecLine(Record):
    """What was typed after `corral session exec`."""

    options: dict[str, object]
    name: str | None  # None: the session of the workspace
    words: tuple[str, ...]


def parse_exec(arguments: list[str]) -> ExecLine | None:
    """Read options, a name and a command; None for what is not understood, which is click's to explain.

    Everything after `--` is the command; before it the first word that is no option is the name, and the
    second begins the command as well.
    """
    known = {flag: option for option in EXEC_OPTIONS for flag in option.flags}
    found: dict[str, object] = {
        option.name: () if option.multiple else None if option.metavar else False for option in EXEC_OPTIONS
    }
    name: str | None = None
    rest = list(arguments)
    while rest and rest[0] != "--":
        if not rest[0].startswith("-"):
            if name is not None:
                break
            name = rest.pop(0)
            continue
        flag, equals, value = rest[0].partition("=") if rest[0].startswith("--") else (rest[0], "", "")
        option = known.get(flag)
        if option is None or (equals and not option.metavar):
            return None
        rest.pop(0)
        if option.metavar and not equals:
            if not rest:
                return None
            value = rest.pop(0)
        previous = found[option.name]
        if not option.metavar:
            found[option.name] = True
        else:
            found[option.name] = (*previous, value) if isinstance(previous, tuple) else value
    return ExecLine(found, name, tuple(rest[1:] if rest[:1] == ["--"] else rest))
