"""`corral top`: open the view, or print one look at it as JSON."""

from __future__ import annotations

import os
import sys
import time

from corral.cli.run import print_json, report_error
from corral.model.errors import CorralError, PolicyError

#: Between the two looks of `--json`: processor time is a difference.
_BETWEEN_SECONDS = 0.3


def open_top(*, as_json: bool) -> int:
    """Show sessions and runs until somebody leaves; returns the exit status."""
    try:
        if as_json:
            print_json(_look_once())
        else:
            _open_view()
    except CorralError as error:
        return report_error(error, as_json=as_json, about_command=False)
    return 0


def _look_once() -> dict[str, object]:
    from corral.cli.top.overview import Overview

    overview = Overview()
    _, lines = overview.look()
    time.sleep(_BETWEEN_SECONDS)
    rows, more = overview.look()
    events = [{name: getattr(line, name) for name in line._fields} for line in (*lines, *more)]
    return {"v": 1, "rows": [row.to_json() for row in rows], "events": events}


def _open_view() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        raise PolicyError(
            "top-terminal",
            "`corral top` needs a terminal",
            why="stdin or stdout is none, or TERM says that it can show no screen",
            fix="use `corral top --json`, or `corral session list`",
        )
    try:
        from corral.cli.top.view import TopView
    except ImportError as problem:
        if problem.name is None or problem.name.partition(".")[0] not in {"textual", "rich"}:
            raise
        raise PolicyError(
            "top-missing",
            "`corral top` needs textual",
            why=f"it is not installed ({problem})",
            fix="pip install 'corral[top]'",
        ) from problem
    TopView().run()
