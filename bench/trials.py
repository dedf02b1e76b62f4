"""Measure what a trial costs over a run, a copy or a plain build: `python bench/trials.py [FILES]`.

Files are judged by processor time, in turns with `cp -a`: how long a disk takes is not corral's. Nothing is
removed before the end: ext4 looks at each inode that was freed a minute ago before it gives out another one.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from corral import Sandbox
from corral.sessions.trial import Trial

START_MILLISECONDS, COPY_RATIO, FORK_MILLISECONDS, BUILD_RATIO = 1.5, 2.0, 5.0, 1.1
_CHANGED = 10_000
_LAUNCHER = Path(__file__).parents[1] / "launcher"
_BUILD = 'for file in *.c; do cc -O1 -c "$file" -o "$file.o" || exit 1; done'


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def _processor(action: Callable[[], object]) -> float:
    """Milliseconds of this process and of what it started."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    began = sum(sum(resource.getrusage(each)[:2]) for each in who)
    action()
    return (sum(sum(resource.getrusage(each)[:2]) for each in who) - began) * 1000


def _fill(directory: Path, count: int) -> None:
    for number in range(count):
        inner = directory / f"d{number // 1000}"
        if number % 1000 == 0:
            inner.mkdir(parents=True)
        (inner / f"f{number}").write_text(f"{number}\n" * 50)


def measure_start(work: Path, rounds: int = 40) -> tuple[float, float, float]:
    """Milliseconds of a run, and how much longer one on a trial takes: by the clock, and of processor.

    Each pair is measured side by side, so what else the machine does falls on both.
    """
    sandbox = Sandbox(workspace=work, backend="native")
    sandbox.run(["true"])
    runs, longer, more = [], [], []
    for _ in range(rounds):
        kept = []

        def tried() -> None:
            kept.append(sandbox.trial())  # noqa: B023 (called at once)
            kept[0].run(["true"])  # noqa: B023

        used: list[float] = []
        runs.append(_timed(lambda: used.append(_processor(lambda: sandbox.run(["true"])))))  # noqa: B023
        longer.append(_timed(lambda: used.append(_processor(tried))) - runs[-1])  # noqa: B023
        more.append(used[1] - used[0])
        kept[0].discard()
    return statistics.median(runs), statistics.median(longer), statistics.median(more)


_NEW = (
    "for d in 0 1 2 3 4 5 6 7 8 9; do mkdir d$d; done; i=0; while [ $i -lt {count} ]; do"
    " printf '%0290d\\n' $i > d$((i / 1000))/f$i; i=$((i + 1)); done"
)
_REPLACED = "for file in d*/f*; do echo more >> $file; done"


def measure_apply(directory: Path, kind: str, rounds: int = 3) -> tuple[float, float, float]:
    """Processor time of `cp -a` of many files, and of changes and apply of the same on a trial."""
    copies, changes, applies = [], [], []
    for number in range(rounds):
        place = directory / f"{kind}{number}"
        work, source = place / "work", place / "source"
        work.mkdir(parents=True)
        _fill(source, _CHANGED)
        if kind == "replaced":
            _fill(work, _CHANGED)
        trial = Sandbox(workspace=work, backend="native").trial()
        made = trial.run(_NEW.format(count=_CHANGED) if kind == "new" else _REPLACED)
        assert made.ok, made.stderr
        copies.append(_processor(lambda place=place, source=source: _copy(source, place / "copy")))  # type: ignore[misc]
        changes.append(_processor(trial.changes))
        applies.append(_processor(trial.apply))
    middle = statistics.median
    return middle(copies), middle(changes), middle(applies)


def measure_fork(directory: Path, rounds: int = 20) -> float:
    """Milliseconds of a fork, by the clock, of a trial that has written something."""
    work = directory / "forked"
    work.mkdir()
    spent = []
    with Sandbox(workspace=work, backend="native").trial() as trial:
        for _ in range(rounds):
            trial.run("date > file")
            kept: list[Trial] = []
            spent.append(_timed(lambda kept=kept: kept.append(trial.fork())))  # type: ignore[misc]
            kept[0].discard()
    return statistics.median(spent)


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
            run, longer, more = measure_start(work)
            print(f"{count:,} files: a run {run:.1f} ms, on trial +{longer:.1f} ms; ", end="")
            print(f"of processor +{more:.1f} ms (goal: +{START_MILLISECONDS})")
        for kind in ("new", "replaced"):
            copy, changes, apply = measure_apply(directory, kind)
            print(f"{_CHANGED:,} {kind} files: cp -a {copy:.0f} ms, changes {changes / copy:.2f} x, ", end="")
            print(f"apply {apply / copy:.2f} x (goal: {COPY_RATIO} x each)")
        print(f"a fork: {measure_fork(directory):.1f} ms (goal: {FORK_MILLISECONDS})")
        print(f"a build on trial: {measure_build(directory):.2f} x a plain run (goal: {BUILD_RATIO} x)")


if __name__ == "__main__":
    main()
