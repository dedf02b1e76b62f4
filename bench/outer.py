"""What corral adds to the programs that make its sandboxes: each against itself, told the same by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import corral
import peers
from corral.model.launch import Launch

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.engines import ENGINES
from support.user_engines import CONTAINER, start_engine, stop_engine, why_not

TRUE = ["/bin/true"]
ROUNDS = {"bubblewrap": 60, "firejail": 30, "docker": 15, "podman": 15}
GOALS = {"bubblewrap": 1.3, "docker": 1.15}
#: As root firejail does not hold it.
WAIVED = {"firejail": ("fs.metadata",)}

Rows = dict[str, Callable[[], object]]
Measure = Callable[[Rows, int], dict[str, float]]
Show = Callable[..., bool]


def run(project: Path, measure: Measure, show: Show) -> bool:
    """A table for each program that is here; True if every goal was reached."""
    results = []
    for name, rounds in ROUNDS.items():
        reason = why_not(name) if name in ENGINES else ""
        if reason:
            print(f"{name} is left out: {reason}")
            continue
        before = os.environ["PATH"]
        if name in ENGINES:
            os.environ["PATH"] = f"{start_engine(name)}{os.pathsep}{before}"
        try:
            results.append(_compare(name, rounds, project, measure, show))
        finally:
            os.environ["PATH"] = before
            stop_engine(name)
    return all(results)


def _compare(name: str, rounds: int, project: Path, measure: Measure, show: Show) -> bool:
    sandbox = corral.Sandbox(
        "moderate", backend=name, workspace=project, container=CONTAINER, waive=WAIVED.get(name, ())
    )
    by_hand = f"{name}, told by hand"
    rows = {by_hand: _by_hand(name, sandbox, project), name: lambda: sandbox.run(TRUE).check()}
    goals = {name: (by_hand, GOALS[name])} if name in GOALS else {}
    return show(f"What corral adds to {name}", measure(rows, rounds), by_hand, goals)


def _by_hand(name: str, sandbox: corral.Sandbox, project: Path) -> Callable[[], object]:
    """The same isolation without corral, as far as the program can do it."""
    if name == "bubblewrap":
        return peers.bubblewrap(corral.Sandbox("moderate", backend="native", workspace=project).explain(TRUE))
    if name == "firejail":
        return peers.firejail(project)
    launch = sandbox.explain(TRUE).launch
    image = launch.argv.index(CONTAINER.image)
    line = [*_without_own(list(launch.argv[:image]), launch), "--entrypoint", TRUE[0], CONTAINER.image]
    env = dict(launch.env)
    return lambda: subprocess.run(line, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def _without_own(argv: list[str], launch: Launch) -> list[str]:
    """Leave out what lies in the scratch directory of a run, which is not there, and names."""
    kept, words = [], iter(argv)
    for word in words:
        if word in {"--name", "--entrypoint"}:
            next(words)
        elif word in {"--mount", "--security-opt"}:
            value = next(words)
            if launch.scratch not in value:
                kept += [word, value]
        else:
            kept.append(word)
    return kept
