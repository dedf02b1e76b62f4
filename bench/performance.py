"""Measure every way to run a small command, in one run: the tables and goals of docs/performance.md.

`python bench/performance.py` prints them; `--record` also writes them into the document, as `make bench`
does; `--quick` only looks whether everything can be measured at all, and its numbers mean nothing.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import containers
import corral
import crowd
import document
import goals
import machine
import processes
from containers import EngineFailed
from processes import Place
from report import Report, render
from timing import BARE, Missing, Row, Timed, take_turns
from workload import make_project

ROUNDS, MOST_SECONDS = 500, 120.0
QUICK_ROUNDS, QUICK_SIZES, QUICK_PARALLEL, QUICK_DIVISOR = 2, (1, 3), 4, 100
PARTS = ("processes", "docker", "podman", "crowd")
DOCUMENT, PART = document.DOCS / "performance.md", "commands"


def make_rows(place: Place, parts: Sequence[str], missing: list[str]) -> list[Row]:
    """All rows that can be measured here; why the others cannot goes to `missing`."""
    makers: dict[str, Callable[[Place], Iterator[Row]]] = {}
    if "processes" in parts:
        makers |= processes.MAKERS
    for name in ("docker", "podman"):
        if name in parts:
            makers.setdefault(BARE, processes.bare)
            makers[name] = functools.partial(containers.make_rows, name)
    rows = []
    for name, make in makers.items():
        try:
            for row in make(place):
                _try(row)
                rows.append(row)
        except (Missing, corral.CorralError, EngineFailed) as reason:
            missing.append(f"{name}: {' '.join(str(reason).split())}")
    return rows


def _try(row: Row) -> None:
    try:
        row.action()
    except subprocess.CalledProcessError as problem:
        raise Missing(f"{row.name} fails with status {problem.returncode}: {problem.stderr!r}") from problem
    if row.settle is not None:
        row.settle()


def measure_rows(
    project: Path, parts: Sequence[str], rounds: int, missing: list[str], divisor: int = 1
) -> dict[str, Timed]:
    with tempfile.TemporaryDirectory(prefix="corral-bench-scratch-") as scratch, ExitStack() as stack:
        rows = make_rows(Place(project, Path(scratch).resolve(), stack, divisor), parts, missing)
        return take_turns(rows, rounds, MOST_SECONDS) if rows else {}


def measure(parts: Sequence[str], *, quick: bool) -> Report:
    """Everything, one part after the other: engines are gone before many sandboxes are made."""
    os.environ["CORRAL_CONFIG"] = ""  # whatever the user's own configuration says
    began, missing = time.monotonic(), []
    described = tuple(machine.describe())
    many = parallel = None
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as directory:
        project = make_project(Path(directory).resolve())
        rounds, divisor = (QUICK_ROUNDS, QUICK_DIVISOR) if quick else (ROUNDS, 1)
        found = measure_rows(project, parts, rounds, missing, divisor)
        if "crowd" in parts:
            sizes, commands = (QUICK_SIZES, QUICK_ROUNDS) if quick else (crowd.SIZES, crowd.COMMANDS)
            many = crowd.keep_many(project, sizes, commands)
            try:
                parallel = crowd.run_many(project, QUICK_PARALLEL if quick else crowd.PARALLEL)
            except Missing as reason:
                missing.append(f"parallel commands: {reason}")
    judged = tuple(goals.judge(found, many, parallel))
    seconds = time.monotonic() - began
    return Report(described, found, many, parallel, judged, tuple(missing), seconds)


def run(parts: Sequence[str] = PARTS, *, quick: bool = False, recording: bool = False) -> int:
    """Measure, print, record if asked to; the status says whether every goal was met."""
    report = measure(parts, quick=quick)
    lines = list(render(report))
    if quick:
        lines.insert(0, "- a look whether it works: these numbers mean nothing")
    print(*lines, "", goals.summary(report.goals), sep="\n")
    if recording:
        document.record(DOCUMENT, PART, ["", *lines, ""])
    return goals.exit_status(report.goals)


def main() -> int:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it works")
    parser.add_argument("--record", action="store_true", help="write the tables to docs/performance.md")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of: %(default)s")
    given = parser.parse_args()
    parts = given.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if given.record and (given.quick or tuple(parts) != PARTS):
        parser.error("only a whole run is recorded")
    return run(parts, quick=given.quick, recording=given.record)


if __name__ == "__main__":
    sys.exit(main())
