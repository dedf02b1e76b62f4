"""Carry out an installation: show it, ask, do it. Each target says what is to be done, as a value."""

from __future__ import annotations

import os
import sys

from corral.cli.run import report_error
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


def apply(plan: Callable[[], Installation], *, yes: bool, dry_run: bool) -> int:
    """Show an installation and do it, if somebody says yes. Returns the exit status."""
    try:
        installation = plan()
        sys.stdout.write("".join(f"{printable(line)}\n" for line in installation.words))
        sys.stdout.flush()
        if dry_run:
            return 0
        _check(installation, yes=yes)
        sys.stdout.write(f"{printable(installation.carry_out())}\n")
    except CorralError as error:
        return report_error(error, as_json=False, about_command=False)
    return 0


def _check(installation: Installation, *, yes: bool) -> None:
    if installation.needs_root and os.geteuid() != 0:
        raise SetupError(
            "install-root",
            "nothing was changed",
            why="only root may do that",
            fix=f"`sudo {os.path.abspath(sys.argv[0])} {' '.join(sys.argv[1:])}`",
        )
    if yes:
        return
    if not sys.stdin.isatty():
        raise PolicyError(
            "install-unasked",
            "nothing was changed",
            why="nobody can be asked: there is no terminal",
            fix="read what would be done, and say so with --yes",
        )
    import click

    click.confirm(installation.question, abort=True, err=True)
