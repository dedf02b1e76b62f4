"""`corral policy ...` and `corral why ...`, for click. Each imports what it does when it is called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from corral.cli.help import BriefCommand
from corral.cli.options import OF_A_RUN, OPTIONS, defaults

if TYPE_CHECKING:
    from collections.abc import Callable

_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_VERBOSE = click.option("-v", "--verbose", is_flag=True, help="List everything.")
_OPERATIONS = ("read", "write", "exec", "connect")
#: Options of `run` that shape a policy: the others say how a command is started or shown.
_NOT_POLICY = OF_A_RUN | {"line", "json", "verbose"}


def with_policy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `run` that say what is allowed, for the commands that explain it."""
    from corral.cli.commands import with_options

    return with_options(without=_NOT_POLICY)(function)


def with_session_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `run` that say how a sandbox is made, for one that stays."""
    from corral.cli.commands import with_options

    return with_options(without=_NOT_POLICY - {"verbose"})(function)


def _complete(options: dict[str, Any]) -> dict[str, Any]:
    return {
        **defaults(),
        **{option.name: options[option.name] for option in OPTIONS if option.name in options},
    }


@click.group()
def policy() -> None:
    """Show, check, write and trust policies."""


policy.command_class = BriefCommand


@policy.command("list")
@_JSON
def list_(*, as_json: bool) -> None:
    """List the presets, each with when to use it."""
    from corral.cli.policy.show import answer, list_presets

    sys.exit(answer(list_presets, as_json=as_json))


@policy.command()
@_JSON
def bundles(*, as_json: bool) -> None:
    """Show which hosts @pip, @npm and other bundles contain here, and why."""
    from corral.cli.policy.show import answer, list_bundles

    sys.exit(answer(list_bundles, as_json=as_json))


@policy.command()
@click.argument("name", required=False)
@click.option("--effective", is_flag=True, help="What applies to a run here, each value with its origin.")
@with_policy_options
@_VERBOSE
@_JSON
def show(name: str | None, *, effective: bool, verbose: bool, as_json: bool, **options: Any) -> None:
    """Show a preset or a file as capabilities; or, with --effective, what holds here and why."""
    from corral.cli.policy.show import answer, show_effective, show_policy
    from corral.policy.preset import DEFAULT_PRESET

    if effective and name is not None:
        raise click.UsageError("--effective is about the configuration here; leave the name out")
    complete = _complete(options)
    others = {**complete, "agent": None} != defaults()
    if name is not None and others:
        raise click.UsageError("flags are on top of the configuration here; leave the name out")
    if effective or (name is None and complete != defaults()):
        sys.exit(answer(lambda: show_effective(complete, verbose=verbose), as_json=as_json))
    agent = complete["agent"] or ""
    sys.exit(answer(lambda: show_policy(name or DEFAULT_PRESET, agent), as_json=as_json))


@policy.command()
@click.argument("files", nargs=-1)
@_JSON
def validate(files: tuple[str, ...], *, as_json: bool) -> None:
    """Check configuration files, and show all mistakes with their lines.

    Without FILES, it checks the ones that apply here.
    """
    from corral.cli.policy.show import answer
    from corral.cli.policy.show import validate as check_files

    sys.exit(answer(lambda: check_files(files), as_json=as_json))


@policy.command()
@with_policy_options
@_VERBOSE
@_JSON
def check(*, verbose: bool, as_json: bool, **options: Any) -> None:
    """Check whether this host enforces a policy; with -v, clause by clause on each backend.

    Exit status: 0 if a command would run under it, 3 if it would be refused.
    """
    from corral.cli.fidelity import check_request

    sys.exit(check_request({**_complete(options), "verbose": verbose, "json": as_json}))


@policy.command()
@click.argument("first")
@click.argument("second")
@_JSON
def diff(first: str, second: str, *, as_json: bool) -> None:
    """Compare two presets or files, and say which permits more."""
    from corral.cli.policy.show import answer, compare

    sys.exit(answer(lambda: compare(first, second), as_json=as_json))


@policy.command()
@click.option("--profile", metavar="NAME", help="The preset to start from.")
@click.option("--backend", metavar="NAME", help="The backend that enforces it.")
@click.option("--network", metavar="MODE", help="none, limited or full.")
@click.option("--writable/--read-only", "writable", default=None, help="May commands write to the workspace?")
@click.option("--memory", metavar="SIZE", help="Memory limit.")
@click.option("--pids", metavar="COUNT", help="Limit on processes.")
@click.option("--time", metavar="TIME", help="Time limit.")
@click.option("--user", is_flag=True, help="Write your own configuration instead of the project's.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the file instead of writing it.")
@_JSON
def init(*, user: bool, force: bool, to_stdout: bool, as_json: bool, **given: Any) -> None:
    """Write a commented corral.toml here. Without flags, on a terminal, it asks a few questions."""
    from corral.cli.policy.init import write_file
    from corral.cli.policy.show import answer

    sys.exit(
        answer(lambda: write_file(given, for_user=user, force=force, to_stdout=to_stdout), as_json=as_json)
    )


@policy.command()
@click.argument("file", required=False)
@click.option("--show", "only_show", is_flag=True, help="Say which of the project's files are trusted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; required without a terminal.")
@_JSON
def trust(file: str | None, *, only_show: bool, yes: bool, as_json: bool) -> None:
    """Trust a project's file as it is now: it may then allow what yours does not. Any change revokes that."""
    from corral.cli.policy.show import accept, answer, trust_state

    can_ask = sys.stdin.isatty() and not as_json
    sys.exit(
        answer(trust_state if only_show else lambda: accept(file, yes=yes, can_ask=can_ask), as_json=as_json)
    )


@policy.command()
@click.argument("file", required=False)
@_JSON
def distrust(file: str | None, *, as_json: bool) -> None:
    """Stop trusting a project's file."""
    from corral.cli.policy.show import answer, reject

    sys.exit(answer(lambda: reject(file), as_json=as_json))


@policy.command()
def schema() -> None:
    """Print the JSON Schema of configuration files, for editors."""
    import json

    from corral.config.schema import build_schema

    click.echo(json.dumps(build_schema(), indent=2))


@click.command(cls=BriefCommand)
@click.argument("operation", required=False)
@click.argument("target", required=False)
@click.option("--last", is_flag=True, help="What was refused in the last run with refusals.")
@with_policy_options
@_JSON
def why(operation: str | None, target: str | None, *, last: bool, as_json: bool, **options: Any) -> None:
    """Say whether a command may do something, and by which rule.

    OPERATION is read, write, exec or connect, and TARGET a path, a program, or a host. The exit status is
    0 for yes, 1 for no, 3 if nothing would run. Instead of both, what a failed program printed is enough:
    `corral why 'open("/etc/shadow"): Permission denied'`.
    """
    from corral.cli.policy.show import answer
    from corral.cli.why import explain_last, explain_message, explain_why

    if last or (operation is not None and target is None and operation not in _OPERATIONS):
        if last and operation is not None:
            raise click.UsageError("--last takes neither an operation nor a message")
        message = operation or ""
        work = explain_last if last else lambda: explain_message(message, _complete(options))
        sys.exit(answer(work, as_json=as_json))
    if operation not in _OPERATIONS or target is None:
        raise click.UsageError(f"say {', '.join(_OPERATIONS)} and a target; or what a program printed")
    sys.exit(answer(lambda: explain_why(operation, target, _complete(options)), as_json=as_json))
