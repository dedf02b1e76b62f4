"""`corral session exec` and `shell`: run a command in a named session, and give its own status back."""

from __future__ import annotations

import os
import sys

from corral.cli.run import passed_on, print_json, report_error, say, stop_and_go
from corral.cli.session.here import name_or_default
from corral.model.errors import CorralError, PolicyError
from corral.model.rules.quantities import parse_duration
from corral.sessions.named.client import ClientConnection, call
from corral.sessions.named.request import ExecRequest, no_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from corral.cli.session.options import ExecLine
    from corral.sessions.named.record import SessionRecord


def execute(line: ExecLine) -> int:
    """Run what was asked for; returns the exit status."""
    as_json = bool(line.options["json"])
    try:
        request = _request(line.options, line.words)
        name = name_or_default(line.name)
        with call(name) as connection:
            if connection.entry.check_mode != "off":
                _check(connection.entry, request.command)
            answer = _carry_out(connection, request)
    except CorralError as error:
        return report_error(error, as_json=as_json)
    if request.is_detached:
        value = {"v": 1, "session": name, "id": answer["id"]}
        print_json(value) if as_json else sys.stdout.write(f"{answer['id']}\n")
        return 0
    if as_json:
        print_json({**answer["result"], "session": name})
    if request.is_verbose or not as_json:
        _say_lines(answer)
    return int(answer["exit_status"])


def finish_answered(descriptor: int, name: str) -> int:
    """The entry program has asked for a command; the answer waits to be read, and has something to tell."""
    try:
        with ClientConnection.of_asked(name, descriptor) as connection:
            answer = connection.hear()
    except CorralError as error:
        return report_error(error, as_json=False)
    _say_lines(answer)
    return int(answer["exit_status"])


def _say_lines(answer: Mapping[str, Any]) -> None:
    for text in answer["lines"]:
        say(str(text))


def _check(entry: SessionRecord, command: str | tuple[str, ...]) -> None:
    """As `corral run` does it, by the configuration that the session was started with."""
    from corral.cli.check import ask_at_terminal
    from corral.shell_check.apply import apply_check

    rules = entry.check_rules.split("\n") if entry.check_rules else ()
    apply_check(entry.check_mode, command, rules=rules, say=say, ask=ask_at_terminal)


def open_shell(name: str | None) -> int:
    """An interactive shell in a session; without a terminal it reads a script."""
    from corral.cli.session.options import ExecLine, parse_exec

    empty = parse_exec([])
    assert empty is not None
    shell = os.environ.get("SHELL") or "/bin/sh"
    return execute(ExecLine({**empty.options, "terminal": os.isatty(0)}, name, (shell,)))


def _request(options: Mapping[str, Any], words: tuple[str, ...]) -> ExecRequest:
    if options["line"] is not None and words:
        raise PolicyError(
            "contradiction",
            "there is both a shell line and a command",
            why=f"-c was given, and then {words[0]!r}",
            fix="put everything into the line, or leave -c out",
        )
    if options["detach"] and (options["terminal"] or options["stateful"]):
        raise PolicyError(
            "contradiction",
            "a detached command has neither a terminal nor a state",
            why="--detach was given with --tty or --stateful",
            fix="leave one of them out",
        )
    command = options["line"] if options["line"] is not None else words
    if not command or (isinstance(command, str) and not command.strip()):
        raise no_command()
    env = dict(_variables(options["env"]))
    if options["terminal"]:
        env.setdefault("TERM", os.environ.get("TERM", "dumb"))
    return ExecRequest(
        command,
        os.path.abspath(options["cwd"]) if options["cwd"] is not None else None,
        os.getcwd(),
        env,
        None if options["timeout"] is None else seconds("--timeout", options["timeout"]),
        is_stateful=options["stateful"],
        is_detached=options["detach"],
        is_verbose=options["verbose"],
        terminal=options["terminal"],
        captures=options["json"] and not options["detach"],
    )


def seconds(flag: str, text: str) -> float:
    """A duration of the command line. Raises PolicyError."""
    try:
        return parse_duration(text)
    except ValueError as problem:
        raise PolicyError(
            "duration",
            f"{flag} {text[:40]} is not a duration",
            why=str(problem),
            fix="write it like 90s, 30m, 8h or 2m30s",
        ) from None


def _variables(given: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in given:
        name, equals, value = text.partition("=")
        if equals or name in os.environ:
            yield name, value if equals else os.environ[name]


def _carry_out(connection: ClientConnection, request: ExecRequest) -> dict[str, Any]:
    if request.is_detached:
        return connection.execute(request)
    connection.pass_signals(passed_on(), lambda: stop_and_go(connection.forward))
    if not request.terminal or request.captures:
        return connection.execute(request)
    from corral.streams.terminal import TerminalStreams

    return connection.execute_on(request, TerminalStreams(connection.entry.output_bytes or None))
