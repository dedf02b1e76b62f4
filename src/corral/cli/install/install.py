"""Carry out an installation: show it, ask, do it. Each target says what is to be done, as a value."""

from __future__ import annotations

import os
import sys

from corral.cli.run import print_json, report_error
from corral.model.errors import CorralError, PolicyError, SetupError
from corral.model.printable import printable
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Installation(Record):
    """What is to be done, in words, and a function that does it and says what is so then."""

    words: tuple[str, ...]
    question: str
    carry_out: Callable[[], str]
    needs_root: bool = False


def apply(plan: Callable[[], Installation], *, yes: bool, dry_run: bool, as_json: bool = False) -> int:
    """Show an installation and do it, if somebody says yes. Returns the exit status."""
    try:
        installation = plan()
        if not as_json:
            sys.stdout.write("".join(f"{printable(line)}\n" for line in installation.words))
            sys.stdout.flush()
        done = ""
        if not dry_run:
            _check(installation, yes=yes, can_ask=sys.stdin.isatty() and not as_json)
            done = installation.carry_out()
        if as_json:
            print_json({"v": 1, "changes": list(installation.words), "done": done or None})
        elif done:
            sys.stdout.write(f"{printable(done)}\n")
    except CorralError as error:
        return report_error(error, as_json=as_json, about_command=False)
    return 0


def _program() -> str:
    """What the caller typed: `corral`, which hands this over to `corral-python` beside it."""
    path = os.path.abspath(sys.argv[0])
    return os.path.join(os.path.dirname(path), os.path.basename(path).removesuffix("-python"))


def _check(installation: Installation, *, yes: bool, can_ask: bool) -> None:
    if installation.needs_root and os.geteuid() != 0:
        raise SetupError(
            "install-root",
            "nothing was changed",
            why="only root may do that",
            fix=f"`sudo {_program()} {' '.join(sys.argv[1:])}`",
        )
    if yes:
        return
    if not can_ask:
        raise PolicyError(
            "install-unasked",
            "nothing was changed",
            why="it cannot ask: there is no terminal, or --json was given",
            fix="read what would be done, then confirm with --yes",
        )
    import click

    click.confirm(installation.question, abort=True, err=True)
