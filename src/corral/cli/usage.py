"""Call the commands: click's help and errors, the latter as JSON where `--json` was asked for."""

from __future__ import annotations

import os

import click

from corral.cli.commands import cli
from corral.cli.run import report_error
from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_ABORTED = 1


def call_commands(arguments: Sequence[str]) -> int:
    """Do what the words say; returns the exit status."""
    if "_CORRAL_COMPLETE" in os.environ:
        from corral.cli.completion import teach

        teach(cli)
    try:
        status = cli.main(list(arguments), prog_name="corral", standalone_mode=False)
    except click.ClickException as error:
        if _asks_for_json(arguments):
            return report_error(_as_error(error), as_json=True)
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("Aborted!", err=True)
        return _ABORTED
    return status if isinstance(status, int) else 0


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether the answer is to be JSON. What follows `--` is for somebody else."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own


def _as_error(error: click.ClickException) -> PolicyError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context is not None else "corral"
    return PolicyError(
        "usage",
        f"the command line of `{path}` is wrong",
        why=error.format_message(),
        fix=f"see `{path} --help`",
    )
