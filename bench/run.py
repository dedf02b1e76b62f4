"""Measure corral against bare processes and its peers: `make bench`.

Every row of a table is measured in the same rounds, one after the other, so that what else the machine
does falls on all of them. Medians and ratios are what counts; milliseconds belong to one machine.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import compiled
import corral
import outer
import output
import peers
from limits import table
from workload import WORKLOAD, make_project

LANDLOCK_WAIVERS = ("fs.metadata", "fs.protect", "proc.contained", "proc.hidden")
START_ROUNDS = 200
WORK_ROUNDS = 9
CLI_ROUNDS = 31
TRUE = ["/bin/true"]


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


def start_up(project: Path) -> bool:
    native = corral.Sandbox("moderate", backend="native", workspace=project)
    landlock = corral.Sandbox("moderate", backend="landlock", workspace=project, waive=LANDLOCK_WAIVERS)
    rows = {
        "bare": lambda: subprocess.run(TRUE, capture_output=True, check=True),
        "landlock": lambda: landlock.run(TRUE).check(),
        "native": lambda: native.run(TRUE).check(),
    }
    if shutil.which("bwrap"):
        rows["bwrap, same isolation"] = peers.bubblewrap(native.explain(TRUE))
    if shutil.which("firejail"):
        rows["firejail"] = peers.firejail(project)
    found = measure(rows, START_ROUNDS)
    title = "Start and end of /bin/true through the Python API"
    reached = show(title, found, "bare", {"landlock": ("bare", 2.5), "native": ("bare", 5.0)})
    if "bwrap, same isolation" in found:
        ratio = found["native"] / found["bwrap, same isolation"]
        mark = "reached" if ratio <= 0.6 else "MISSED"
        print(f"  {'native against bwrap':<28}{'':>10}{ratio:>8.2f}x   <= 0.6 x bwrap: {mark}")
        reached &= ratio <= 0.6
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
    return show(title, found, "bare", {"native": ("bare", 1.10)})


def command_line(project: Path) -> bool:
    program = str(Path(sys.executable).with_name("corral"))
    rows = {
        "python -I -c pass": lambda: subprocess.run([sys.executable, "-I", "-c", "pass"], check=True),
        "corral run -- true": lambda: subprocess.run([program, "run", "--", "true"], cwd=project, check=True),
    }
    found = measure(rows, CLI_ROUNDS)
    goals = {"corral run -- true": ("python -I -c pass", 4.0)}
    return show("The command line", found, "python -I -c pass", goals)


def main() -> int:
    print(f"Linux {os.uname().release}, {os.cpu_count()} processors, Python {sys.version.split()[0]}")
    print(f"\n{'':<30}{'median':>10}{'ratio':>9}   goal")
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as directory:
        project = make_project(Path(directory).resolve())
        results = [start_up(project), work(project), command_line(project), output.run(project)]
        results.append(compiled.run(project, measure, show))
        results.append(outer.run(project, measure, show))
    results.append(table.run())
    print("\nEvery goal was reached." if all(results) else "\nSome goals were missed.")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
