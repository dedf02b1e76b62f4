"""`corral try`, `changes`, `diff`, `apply`, `undo`, `discard` and `trials`, for click."""

from __future__ import annotations

import sys
from typing import Any

import click

from corral.cli.commands import with_options
from corral.cli.help import BriefCommand
from corral.cli.options import defaults

_TRIAL = click.argument("identity", required=False, metavar="[ID]")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_CWD = click.option("--cwd", metavar="DIR", help="The workspace; this directory by default.")


@click.command(name="try", cls=BriefCommand, context_settings={"allow_interspersed_args": False})
@with_options(without=("trial", "debug"))
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def try_(command: tuple[str, ...], **options: Any) -> None:
    """Run a command in a trial of the workspace, then apply it or not.

    The same as `corral run --try`. The workspace does not change. Afterwards corral says what the command
    would have changed there; on a terminal it asks whether to apply it.
    """
    from corral.cli.run import run_request

    sys.exit(run_request({**defaults(), **options, "trial": True}, command))


@click.command()
@_TRIAL
@_CWD
@_JSON
def changes(identity: str | None, cwd: str | None, *, as_json: bool) -> None:
    """List what a trial changed.

    Without an ID it is the last one of this workspace.
    """
    from corral.cli.trial.act import show_changes

    sys.exit(show_changes(identity, cwd, as_json=as_json))


@click.command()
@click.argument("words", nargs=-1, metavar="[ID] [PATH]...")
@_CWD
@click.option("--stat", is_flag=True, help="Only count the lines.")
def diff(words: tuple[str, ...], cwd: str | None, *, stat: bool) -> None:
    """Show the differences between the workspace and a trial."""
    from corral.cli.trial.act import show_diff

    sys.exit(show_diff(words, cwd, stat=stat))


@click.command()
@click.argument("words", nargs=-1, metavar="[ID] [PATH]...")
@_CWD
@click.option("--except", "without", multiple=True, metavar="PATH", help="Skip this path; can be repeated.")
@click.option("--protected", multiple=True, metavar="PATH", help="Also this protected path; can be repeated.")
@click.option("--theirs", is_flag=True, help="If the host changed the same path: use the trial's version.")
@click.option("--ours", is_flag=True, help="If the host changed the same path: keep the host's version.")
@click.option("--merge", is_flag=True, help="If the host changed the same path: merge both, or refuse.")
@_JSON
def apply(words: tuple[str, ...], **options: Any) -> None:
    """Apply the changes of a trial: all of them, or some paths."""
    from corral.cli.trial.act import apply_words

    sys.exit(apply_words(words, options))


@click.command()
@_TRIAL
@_CWD
@click.option("--ours", is_flag=True, help="Leave what has changed since as it is, and undo the rest.")
@_JSON
def undo(identity: str | None, cwd: str | None, *, ours: bool, as_json: bool) -> None:
    """Undo the last `corral apply`."""
    from corral.cli.trial.act import undo_last

    sys.exit(undo_last(identity, cwd, ours=ours, as_json=as_json))


@click.command()
@click.argument("identities", nargs=-1, metavar="[ID]...")
@_CWD
@_JSON
def discard(identities: tuple[str, ...], cwd: str | None, *, as_json: bool) -> None:
    """Discard trials.

    Without IDs it is the last one of this workspace.
    """
    from corral.cli.trial.act import discard_trials

    sys.exit(discard_trials(identities, cwd, as_json=as_json))


@click.command()
@_CWD
@click.option("--all", "everywhere", is_flag=True, help="Of every workspace.")
@click.option("--prune", is_flag=True, help="Discard those that have nothing left to apply.")
@click.option("--older", metavar="TIME", help="With --prune: also older ones, such as 14d.")
@_JSON
def trials(cwd: str | None, *, everywhere: bool, prune: bool, older: str | None, as_json: bool) -> None:
    """List the trials of this workspace, the latest first."""
    from corral.cli.trial.act import list_all

    sys.exit(list_all(None if everywhere else cwd or ".", prune=prune, older=older, as_json=as_json))


COMMANDS = (try_, changes, diff, apply, undo, discard, trials)
