"""`corral session ...`, `corral sandbox ...` and `corral status`, for click."""

from __future__ import annotations

import functools
import sys
from typing import Any

import click

from corral.cli.help import BriefCommand
from corral.cli.policy.commands import with_session_options
from corral.cli.session.here import WHEN
from corral.cli.session.options import EXEC_OPTIONS, parse_exec

_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_NAME = click.argument("name", required=False)


def _last_name(function: Any) -> Any:
    """NAME behind another argument, or `--session NAME`; the session of the workspace by default."""

    @functools.wraps(function)
    def take(*, last: str | None, session: str | None, **others: Any) -> Any:
        if last is not None and session is not None:
            raise click.UsageError("name the session once")
        return function(name=last if last is not None else session, **others)

    option = click.option("--session", metavar="NAME", help="The same as NAME.")
    return click.argument("last", required=False, metavar="[NAME]")(option(take))


class _ExecCommand(click.Command):
    """Reads its words itself: whether `--` comes before any name makes a difference, which click forgets."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        line = None if ctx.resilient_parsing else parse_exec(args)  # words are completed: click looks at them
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        if line is None:
            super().parse_args(ctx, args)  # help, or an error that says what is wrong
            raise click.UsageError("write each option apart, before the command", ctx)
        ctx.params = {"line": line}
        return []


def _with_exec_options(function: Any) -> Any:
    for option in reversed(EXEC_OPTIONS):
        if option.metavar:
            decorate = click.option(
                *option.flags, option.name, metavar=option.metavar, multiple=option.multiple, help=option.help
            )
        else:
            decorate = click.option(*option.flags, option.name, is_flag=True, help=option.help)
        function = decorate(function)
    return function


@click.group()
def session() -> None:
    """Keep a sandbox, and run commands in it from any process."""
    if sys.platform != "linux":
        from corral.cli.run import report_error
        from corral.model.errors import SetupError

        refused = SetupError(
            "not-kept",
            "named sessions cannot be kept on this platform",
            why="they need a sandbox that is kept, which works on Linux only",
            fix="use `corral run`, or `Sandbox.session()` in Python; docs/macos.md says what works",
        )
        sys.exit(report_error(refused, as_json=False, about_command=False))


session.command_class = BriefCommand


@session.command()
@_NAME
@click.option("--idle", metavar="TIME", help="End it when no command has run for this long: 30m.")
@click.option("--lifetime", metavar="TIME", help="End it after this long, even if something runs: 8h.")
@click.option("--reuse", is_flag=True, help="Use a running one, if it was started the same way.")
@click.option("--try", "trial", is_flag=True, help="Keep changes to the workspace in a trial.")
@click.option("--trial-size", metavar="SIZE", help="Try them in memory, with this much space: 500M.")
@click.option("--trial-files", metavar="COUNT", help="Try them in memory, with this many files.")
@with_session_options
@_JSON
def start(
    name: str | None, *, idle: str | None, lifetime: str | None, reuse: bool, as_json: bool, **options: Any
) -> None:
    """Start a session, and print its name.

    Without NAME it is named after the workspace. It takes the same options as `corral run`, and ends with
    `corral session stop`.
    """
    from corral.cli.options import defaults
    from corral.cli.policy.show import answer
    from corral.cli.session.show import start_session

    complete = {**defaults(), **options, "json": as_json}
    work = functools.partial(start_session, name, complete, idle, lifetime, reuse=reuse)
    sys.exit(answer(work, as_json=as_json, doing="starting the session"))


@session.command("exec", cls=_ExecCommand)
@_with_exec_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[NAME] [--] COMMAND...")
def exec_(**parsed: Any) -> None:
    """Run a command in a session, on your own stdin, stdout and stderr.

    Without NAME (`exec -- COMMAND`), it uses the session of the workspace. Exit status and
    messages are those of `corral run`. If you stop it, the command ends too, unless it is detached.
    """
    from corral.cli.session.exec import execute

    sys.exit(execute(parsed["line"]))


@session.command()
@_NAME
def shell(name: str | None) -> None:
    """Open a shell in a session."""
    from corral.cli.session.exec import open_shell

    sys.exit(open_shell(name))


@session.command()
@_NAME
@_JSON
def status(name: str | None, *, as_json: bool) -> None:
    """Show the state of a session: backend, age, commands, usage. Exit status 0 if it is running."""
    from corral.cli.policy.show import answer
    from corral.cli.session.show import show_status

    sys.exit(answer(lambda: show_status(name), as_json=as_json))


@session.command("list")
@_JSON
def list_(*, as_json: bool) -> None:
    """List your sessions, a line each."""
    from corral.cli.policy.show import answer
    from corral.cli.session.show import list_sessions

    sys.exit(answer(list_sessions, as_json=as_json, doing="asking the sessions"))


@session.command()
@_NAME
@_JSON
def stop(name: str | None, *, as_json: bool) -> None:
    """End a session and everything in it, and wait until it is gone."""
    from corral.cli.policy.show import answer
    from corral.cli.session.show import stop_session

    sys.exit(answer(lambda: stop_session(name), as_json=as_json, doing="stopping the session"))


@session.command()
@_NAME
@_JSON
def reset(name: str | None, *, as_json: bool) -> None:
    """End what runs in a session, empty its private areas, and start it again on the host as it is now."""
    from corral.cli.policy.show import answer
    from corral.cli.session.show import reset_session

    sys.exit(answer(lambda: reset_session(name), as_json=as_json, doing="making the sandbox again"))


@session.command()
@_NAME
@_JSON
def logs(name: str | None, *, as_json: bool) -> None:
    """Show what has happened in a session, and what its detached commands printed."""
    from corral.cli.policy.show import answer
    from corral.cli.session.show import show_log

    sys.exit(answer(lambda: show_log(name), as_json=as_json))


@session.command()
@click.argument("command")
@click.option("--signal", "word", default="TERM", metavar="SIGNAL", help="TERM; KILL ends all of it.")
@_JSON
@_last_name
def kill(command: str, name: str | None, *, word: str, as_json: bool) -> None:
    """Send a signal to a command in a session; `status` shows the ids."""
    from corral.cli.policy.show import answer
    from corral.cli.session.show import signal_command

    sys.exit(answer(lambda: signal_command(command, name, word), as_json=as_json))


@session.command()
@click.argument("host")
@click.option(
    "--for", "length", metavar="TIME", help="For this long: 10m. By default until the session ends."
)
@_JSON
@_last_name
def allow(host: str, *, length: str | None, name: str | None, as_json: bool) -> None:
    """Let a session reach a host from now on: api.example.com, or db.example.com:5432.

    The rules are those of `--allow`. What the policy denies stays denied. It ends with the session.
    """
    from corral.cli.policy.show import answer
    from corral.cli.session.network import allow_host

    sys.exit(answer(lambda: allow_host(host, name, length), as_json=as_json))


@session.command()
@click.argument("host")
@_JSON
@_last_name
def revoke(host: str, *, name: str | None, as_json: bool) -> None:
    """Refuse a host to a session from now on, and end its connections there."""
    from corral.cli.policy.show import answer
    from corral.cli.session.network import revoke_host

    sys.exit(answer(lambda: revoke_host(host, name), as_json=as_json))


@session.command()
@_NAME
@_JSON
def network(name: str | None, *, as_json: bool) -> None:
    """Show what a session may reach, what it has asked for, and what was refused."""
    from corral.cli.policy.show import answer
    from corral.cli.session.network import show_network

    sys.exit(answer(lambda: show_network(name), as_json=as_json))


@session.command()
@_JSON
def clean(*, as_json: bool) -> None:
    """Remove the records and logs of ended sessions."""
    from corral.cli.policy.show import answer
    from corral.cli.session.show import clean_sessions

    sys.exit(answer(clean_sessions, as_json=as_json))


@click.group(hidden=True)
def sandbox() -> None:
    """Another name for `corral session`: start, stop, status, shell."""


for _command in (start, stop, status, shell):
    sandbox.add_command(_command)


@click.command("status")
@_NAME
@click.option("--line", is_flag=True, help="Print one line, for prompts and footers, or nothing.")
@click.option("--color", type=click.Choice(WHEN), default="auto", help="With --line; NO_COLOR is respected.")
@_JSON
def status_here(name: str | None, *, line: bool, color: str, as_json: bool) -> None:
    """Show the state of this workspace's session."""
    from corral.cli.policy.show import answer
    from corral.cli.session.here import print_line
    from corral.cli.session.show import show_status

    if line:
        sys.exit(print_line(name, color))
    sys.exit(answer(lambda: show_status(name), as_json=as_json))
