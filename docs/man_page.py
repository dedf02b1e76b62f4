"""Write the man page, corral.1, from the tree of commands. `docs/generate.py` calls it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = (
    ("~/.config/corral/corral.toml", "Your own configuration."),
    ("corral.toml", "The project's configuration, which can only narrow yours."),
    (
        "~/.local/state/corral",
        "Trials, quarantine, the audit log. No command can reach it.",
    ),
)
_VARIABLES = (
    ("CORRAL_CONFIG", "Another file instead of your own configuration."),
    ("CORRAL_*", "Single settings, such as CORRAL_BACKEND."),
    ("NO_COLOR", "If it is not empty, nothing is printed in colour."),
)
_STATUS = (
    ("0 to 255", "The command's own status, where a command was run."),
    ("2", "Wrong usage or policy."),
    ("3", "This host cannot enforce the policy; nothing ran."),
    ("124", "The command timed out."),
    ("125", "The sandbox could not be set up, and the command did not run."),
    ("126, 127", "As in a shell: the command cannot be executed, or there is none."),
    ("128+n", "Signal n ended the command."),
)


def render_man(cli: click.Group, version: str) -> str:
    """The whole page, as troff."""
    top = click.Context(cli, info_name="corral")
    return "\n".join(_page(cli, top, version)) + "\n"


def _page(cli: click.Group, top: click.Context, version: str) -> Iterator[str]:
    # No date: the page is the same whenever it is made.
    yield '.\\" Made by docs/generate.py from the commands themselves. Do not change it by hand.'
    yield f'.TH CORRAL 1 "" "corral {version}" "User Commands"'
    yield ".SH NAME\ncorral \\- run commands nobody has read yet"
    yield ".SH SYNOPSIS"
    yield ".B corral run\n[\\fIOPTION\\fR]... [\\-\\-] \\fICOMMAND\\fR..."
    yield ".br\n.B corral\n\\fISUBCOMMAND\\fR [\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]..."
    yield ".SH DESCRIPTION"
    yield from _paragraphs(cli)
    yield ".SH COMMANDS"
    yield from _commands(cli, top)
    yield from _listed("EXIT STATUS", _STATUS)
    yield from _listed("FILES", _FILES)
    yield from _listed("ENVIRONMENT", _VARIABLES)
    yield ".SH SEE ALSO\n.BR bwrap (1),\n.BR landlock (7),\n.BR namespaces (7),\n.BR seccomp (2)"


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.commands[name]
        if command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        yield f".SS {_escape(inner.command_path)}"
        if not isinstance(command, click.Group):
            words = " ".join(command.collect_usage_pieces(inner))
            yield f".B {_escape(inner.command_path)}\n{_escape(words)}\n.PP"
        yield from _paragraphs(command)
        for parameter in command.params:
            record = parameter.get_help_record(inner) if isinstance(parameter, click.Option) else None
            if record is not None:
                yield f".TP\n.B {_escape(record[0])}\n{_escape(record[1])}"
        if isinstance(command, click.Group):
            yield from _commands(command, inner)


def _paragraphs(command: click.Command) -> Iterator[str]:
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b\n"):
            lines = map(_escape, paragraph.removeprefix("\b\n").split("\n"))
            yield ".nf\n" + "\n".join(lines) + "\n.fi"
        elif paragraph:
            yield f"{_escape(' '.join(paragraph.split()))}\n.PP"


def _listed(title: str, entries: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield f".SH {title}"
    for term, text in entries:
        yield f".TP\n.B {_escape(term)}\n{_escape(text)}"


def _escape(text: str) -> str:
    """A text as troff takes it: nothing in it is an escape or a request."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    plain = plain.replace("~", "\\(ti").replace("^", "\\(ha").replace("…", "...")
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in plain.split("\n"))
