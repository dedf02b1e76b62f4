"""Goals: what was promised, what was measured, and whether that is met. None is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crowd import PARALLEL, SIZES, Crowd, Parallel
from processes import (
    BWRAP,
    CLI,
    COLD,
    COLD_FILES,
    COLD_LANDLOCK,
    COLD_REPOSITORIES,
    PLAIN_BWRAP,
    POOL,
    PYTHON,
    READ,
    SHELL_BWRAP,
    SHELL_MODERATE,
    SHELL_PLAIN_BWRAP,
    SHELL_PLAN,
    WARM,
    WRITE,
)
from timing import BARE, Timed

#: Names of rows with the ratio of their medians that is wanted.
RATIOS = (
    (WARM, BARE, 1.1),
    (WARM, BARE, 1.0),
    (POOL, BARE, 1.3),
    (COLD, BARE, 3.2),
    (COLD, PLAIN_BWRAP, 0.75),
    (COLD, BWRAP, 0.45),
    (COLD_LANDLOCK, BARE, 2.5),
    (COLD_FILES, COLD, 1.2),
    (COLD_REPOSITORIES, COLD, 1.2),
    (SHELL_PLAN, SHELL_BWRAP, 0.6),
    (SHELL_MODERATE, SHELL_PLAIN_BWRAP, 0.6),
    ("session, docker", BARE, 2.0),
    ("session, docker", "docker exec", 0.05),
    ("session, podman", BARE, 2.0),
    ("session, podman", "docker exec", 0.05),
    (CLI, PYTHON, 4.0),
)
MILLISECONDS = ((READ, 0.2), (WRITE, 0.2))
P99_RATIO = 2.0
START_SECONDS, MEMORY_EACH, FLAT_RATIO = 10.0, 1_000_000, 1.5
MET, MISSED, UNMEASURED = "met", "MISSED", "not measured"


class Goal(NamedTuple):
    """One line of the list. The value is None where nothing was measured."""

    text: str
    limit: float
    value: float | None
    note: str = ""
    at_least: bool = False

    @property
    def verdict(self) -> str:
        if self.value is None:
            return UNMEASURED
        is_met = self.value >= self.limit if self.at_least else self.value <= self.limit
        return MET if is_met else MISSED

    @property
    def measured(self) -> str:
        shown = "-"
        if self.value is not None:
            shown = f"{self.value:.3g}" if self.value < 100 else f"{self.value:,.0f}"
        return f"{shown} ({self.note})" if self.note else shown


def judge(found: dict[str, Timed], crowd: Crowd | None, parallel: Parallel | None) -> list[Goal]:
    """Every goal, in the order of the tables."""
    return [*_of_rows(found), *_of_crowd(crowd), _of_parallel(parallel)]


def summary(goals: Iterable[Goal]) -> str:
    """The last line: how many there are of each verdict."""
    verdicts = Counter(goal.verdict for goal in goals)
    return (
        "Goals: " + ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in (MET, MISSED, UNMEASURED)) + "."
    )


def exit_status(goals: Iterable[Goal]) -> int:
    """0 if all are met, 1 if one was missed, 2 if none was missed but not all could be measured."""
    verdicts = {goal.verdict for goal in goals}
    return 1 if MISSED in verdicts else 2 if UNMEASURED in verdicts else 0


def _of_rows(found: dict[str, Timed]) -> Iterator[Goal]:
    for name, against, limit in RATIOS:
        is_known = name in found and against in found
        ratio = found[name].median / found[against].median if is_known else None
        yield Goal(f"{name}: median <= {limit:g} x {against}", limit, ratio)
        if (name, against, limit) == (WARM, BARE, 1.0):
            yield _of_p99(found)
    for name, limit in MILLISECONDS:
        taken = found[name].median if name in found else None
        note = f"{taken / found[found[name].row.base].median:.1f} x direct" if taken is not None else ""
        yield Goal(f"{name}: median <= {limit:g} ms", limit, taken, note)


def _of_p99(found: dict[str, Timed]) -> Goal:
    """Of a hundred warm commands, 99 against the usual bare process: the stricter way to read the goal."""
    text = f"{WARM}: p99 <= {P99_RATIO:g} x {BARE}"
    slow, bare_slow = (found[name].p99 if name in found else None for name in (WARM, BARE))
    if slow is None or bare_slow is None:
        return Goal(text, P99_RATIO, None)
    return Goal(text, P99_RATIO, slow / found[BARE].median, f"{slow / bare_slow:.2f} x its p99")


def _of_crowd(crowd: Crowd | None) -> Iterator[Goal]:
    """Goals of many sessions. Memory is judged by the larger of its measures: see the document."""
    count = crowd.asked if crowd is not None else SIZES[-1]
    begin = f"{count:,} idle sessions"
    memory = MEMORY_EACH / 1e6
    started = Goal(f"{begin}: started in <= {START_SECONDS:g} s", START_SECONDS, None)
    answering = Goal(f"{begin}: all still answering", count, None, at_least=True)
    each = Goal(f"{begin}: <= {memory:g} MB of resident memory each", memory, None)
    flat = Goal(
        f"cost of a command with {count:,} sessions <= {FLAT_RATIO:g} x that with 1", FLAT_RATIO, None
    )
    if crowd is not None:
        answering = answering._replace(value=crowd.answering, note=crowd.problem)
    if crowd is not None and crowd.kept == count:
        started = started._replace(value=crowd.start_seconds)
        pss = crowd.memory.pss
        shared = f"{pss / count / 1e6:.2f} with shared pages counted once" if pss is not None else ""
        each = each._replace(value=crowd.memory.rss / count / 1e6, note=shared)
    if crowd is not None and crowd.costs and crowd.costs[-1].sessions == count:
        first, last = crowd.costs[0], crowd.costs[-1]
        bare = f"{last.bare / first.bare:.2f} for a bare process meanwhile"
        flat = flat._replace(value=last.median / first.median, note=bare)
    yield from (started, answering, each, flat)


def _of_parallel(parallel: Parallel | None) -> Goal:
    count = parallel.commands if parallel is not None else PARALLEL
    failures = len(parallel.failures) if parallel is not None else None
    note = f"in {parallel.seconds:.1f} s" if parallel is not None else ""
    return Goal(f"{count:,} parallel commands through an executor: no failure", 0, failures, note)
