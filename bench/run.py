"""Measure corral against bare processes and its peers: `make bench`.

Every row of a table is measured in the same rounds, one after the other, so that what else the machine
does falls on all of them. Medians and ratios are what counts; milliseconds belong to one machine. The first
tables are those of docs/performance.md, into which `--record` writes them.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import corral
import outer
import output
import performance
from limits import table
from workload import WORKLOAD, make_project

WORK_ROUNDS = 9
VERDICTS = (
    "Every goal was reached.",
    "Some goals were missed.",
    "No goal was missed, but some were not measured.",
)


def measure(rows: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each callable, taken in turns."""
    spent: dict[str, list[float]] = {name: [] for name in rows}
    for action in rows.values():
        action()  # the first one pays for what is kept afterwards
    for _ in range(rounds):
        for name, action in rows.items():
            began = time.perf_counter()
            action()
            spent[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(values) for name, values in spent.items()}


def show(title: str, found: dict[str, float], base: str, goals: dict[str, tuple[str, float]]) -> bool:
    """Print one table; True if every goal was reached."""
    print(f"{title}")
    reached = True
    for name, value in found.items():
        goal = ""
        if name in goals:
            against, limit = goals[name]
            ratio = value / found[against]
            reached &= ratio <= limit
            mark = "reached" if ratio <= limit else "MISSED"
            goal = f"<= {limit:g} x {against} ({ratio:.2f}): {mark}"
        print(f"  {name:<28}{value:>7.2f} ms{value / found[base]:>8.2f}x   {goal}")
    return reached


def work(project: Path) -> bool:
    native = corral.Sandbox("moderate", backend="native", workspace=project)
    line = ["/bin/sh", "-c", WORKLOAD]
    rows = {
        "bare": lambda: subprocess.run(line, cwd=project, capture_output=True, check=True),
        "native": lambda: native.run(line).check(),
    }
    found = measure(rows, WORK_ROUNDS)
    title = "Compile a small C tree, git status, python -m compileall"
    return show(title, found, "bare", {"native": ("bare", 1.05)})


def main() -> int:
    """0 if every goal was reached; else 1, or 2 if some could only not be measured."""
    status = performance.run(recording="--record" in sys.argv)
    print(f"\n{'':<30}{'median':>10}{'ratio':>9}   goal")
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as directory:
        project = make_project(Path(directory).resolve())
        results = [work(project), output.run(project), outer.run(project, measure, show)]
    results.append(table.run())
    status = status if all(results) else 1
    print(f"\n{VERDICTS[status]}")
    return status


if __name__ == "__main__":
    sys.exit(main())
