"""`corral demo`: the guided tour, with colours where there is a terminal to show them."""

from __future__ import annotations

import sys

from corral.cli.colour import GREEN, RED, is_coloured, paint
from corral.cli.run import report_error
from corral.model.errors import CorralError
from corral.selftest.tour import run_tour

_COLOURS = {"✔": GREEN, "✘": RED}


def show(backend: str) -> int:
    """Take the tour; status 0 only if everything held."""
    try:
        return 0 if run_tour(backend, _say) else 1
    except CorralError as error:
        return report_error(error, as_json=False)


def _say(line: str) -> None:
    sys.stdout.write(colour(line) + "\n")
    sys.stdout.flush()


def colour(line: str) -> str:
    """The marks of a line in colour, on a terminal that wants any."""
    if not is_coloured(sys.stdout):
        return line
    for mark, code in _COLOURS.items():
        line = line.replace(mark, paint(mark, code))
    return line
