"""Measure what a trial costs over a run, a copy or a plain build: `python bench/trials.py [FILES]`."""

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

from corral import Sandbox

START_MILLISECONDS, COPY_RATIO, FORK_MILLISECONDS, BUILD_RATIO = 1.5, 2.0, 5.0, 1.1
_CHANGED = 10_000
_LAUNCHER = Path(__file__).parents[1] / "launcher"
_BUILD = 'for file in *.c; do cc -O1 -c "$file" -o "$file.o" || exit 1; done'


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def _fill(directory: Path, count: int) -> None:
    for number in range(count):
        inner = directory / f"d{number // 1000}"
        if number % 1000 == 0:
            inner.mkdir(parents=True)
        (inner / f"f{number}").write_text(f"{number}\n" * 50)


def measure_start(work: Path, rounds: int = 40) -> tuple[float, float]:
    """Milliseconds of a run, and how much longer it takes on a trial that is made for it; in the middle."""
    sandbox = Sandbox(workspace=work, backend="native")
    sandbox.run(["true"])
    runs, tried = [], []
    for _ in range(rounds):
        runs.append(_timed(lambda: sandbox.run(["true"])))
        with sandbox.trial() as warm:
            tried.append(0.0)
            warm.keep()
        warm.discard()
        began = time.perf_counter()
        trial = sandbox.trial()
        trial.run(["true"])
        tried[-1] = (time.perf_counter() - began) * 1000
        trial.discard()
    # Each pair was measured side by side: so what else the machine does falls on both.
    return statistics.median(runs), statistics.median(t - r for t, r in zip(tried, runs, strict=True))


def measure_apply(directory: Path) -> tuple[float, float, float]:
    """Milliseconds of `cp -a` of many files, and of changes and apply of the same on a trial."""
    work, source = directory / "work", directory / "source"
    work.mkdir()
    _fill(source, _CHANGED)
    with Sandbox(workspace=work, backend="native").trial() as trial:
        made = trial.run(
            f"for d in 0 1 2 3 4 5 6 7 8 9; do mkdir d$d; done; i=0; while [ $i -lt {_CHANGED} ]; do"
            " printf '%0290d\\n' $i > d$((i / 1000))/f$i; i=$((i + 1)); done"
        )
        assert made.ok, made.stderr
        copy = min(_timed(lambda n=n: _copy(source, directory / f"copy{n}")) for n in range(3))  # type: ignore[misc]
        changes = min(_timed(trial.changes) for _ in range(3))
        apply = _timed(trial.apply)
        fork = statistics.median(_timed(lambda: trial.fork().discard()) for _ in range(10))
        print(f"fork of a trial, and its end: {fork:.1f} ms (goal for a fork: {FORK_MILLISECONDS})")
    return copy, changes, apply


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def measure_build(directory: Path, rounds: int = 3) -> float:
    """How many times as long a build takes on trial as in a plain run."""
    work = directory / "build"
    shutil.copytree(_LAUNCHER, work)
    sandbox = Sandbox(workspace=work, backend="native")
    ratios = []
    for _ in range(rounds):
        plain = _timed(lambda: sandbox.run(_BUILD))
        with sandbox.trial() as trial:
            ratios.append(_timed(lambda trial=trial: trial.run(_BUILD)) / plain)  # type: ignore[misc]
    return statistics.median(ratios)


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [10, 100_000]
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        os.environ["XDG_STATE_HOME"] = str(directory / "state")
        for count in counts:
            work = directory / f"files{count}"
            work.mkdir()
            _fill(work, count)
            run, more = measure_start(work)
            print(
                f"{count:,} files: a run {run:.1f} ms, on trial +{more:.1f} ms (goal: +{START_MILLISECONDS})"
            )
        copy, changes, apply = measure_apply(directory)
        print(f"{_CHANGED:,} changed files: cp -a {copy:.0f} ms, changes {changes / copy:.1f} x, ", end="")
        print(f"apply {apply / copy:.1f} x (goal: {COPY_RATIO} x each)")
        print(f"a build on trial: {measure_build(directory):.2f} x a plain run (goal: {BUILD_RATIO} x)")


if __name__ == "__main__":
    main()
