"""The tables, for a terminal and for the document: one text, in Markdown that can be read as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crowd import Crowd, Parallel
from goals import Goal
from timing import Timed


class Report(NamedTuple):
    """Everything that one run has found."""

    machine: tuple[str, ...]
    found: dict[str, Timed]
    crowd: Crowd | None
    parallel: Parallel | None
    goals: tuple[Goal, ...]
    missing: tuple[str, ...]
    seconds: float


def render(report: Report) -> Iterator[str]:
    """All lines, without the ends."""
    yield from (f"- {line}" for line in report.machine)
    yield f"- measured in {report.seconds:.0f} seconds"
    yield ""
    yield from goal_lines(report.goals)
    if report.found:
        yield ""
        yield from rows_of(report.found.values())
    if report.crowd is not None:
        yield ""
        yield from _crowd(report.crowd)
    if report.parallel is not None:
        yield ""
        yield from _parallel(report.parallel)
    if report.missing:
        yield ""
        yield "Not measured:"
        yield ""
        yield from (f"- {reason}" for reason in report.missing)


def goal_lines(goals: Iterable[Goal]) -> Iterator[str]:
    heads = ("Goal", "Measured", "Verdict")
    yield from table(heads, [(goal.text, goal.measured, goal.verdict) for goal in goals], right={1})


def rows_of(rows: Iterable[Timed]) -> Iterator[str]:
    """One line for each, compared with its base."""
    by_name = {timed.row.name: timed for timed in rows}
    cells = []
    for timed in by_name.values():
        base = by_name.get(timed.row.base)
        ratio = f"{timed.median / base.median:.2f}" if base is not None else "-"
        cells.append(
            (
                timed.row.name,
                timed.row.shown,
                _milliseconds(timed.median),
                _milliseconds(timed.p99),
                ratio,
                timed.row.base if timed.row.base != timed.row.name else "itself",
                str(len(timed.samples)),
            )
        )
    heads = ("What", "Command", "Median ms", "p99 ms", "Ratio", "to", "Samples")
    yield from table(heads, cells, right={2, 3, 4, 6})


def _crowd(crowd: Crowd) -> Iterator[str]:
    heads = ("Kept sessions", "Command ms", "Bare process ms", "Ratio to 1 session")
    first = crowd.costs[0].median if crowd.costs else 1.0
    cells = []
    for cost in crowd.costs:
        times = (_milliseconds(cost.median), _milliseconds(cost.bare))
        cells.append((f"{cost.sessions:,}", *times, f"{cost.median / first:.2f}"))
    yield from table(heads, cells, right={0, 1, 2, 3})
    yield ""
    kept, memory = crowd.kept, crowd.memory
    made = f"{kept:,} of {crowd.asked:,} sessions were made in {crowd.start_seconds:.2f} s"
    problem = f" {crowd.problem}." if crowd.problem else ""
    yield f"{made}; {crowd.answering:,} still answer at the end.{problem}"
    if kept:
        sizes = (memory.rss, memory.pss, memory.kernel, memory.caller)
        rss, pss, kernel, caller = (
            f"{size / kept / 1000:,.0f} kB" if size is not None else "unknown" for size in sizes
        )
        yield f"Each has {memory.processes / kept:g} processes of the launcher: Rss {rss}, Pss {pss}."
        yield f"The kernel's own memory grew by {kernel} for each,"
        yield f"the Python process that keeps them by {caller}."


def _parallel(parallel: Parallel) -> Iterator[str]:
    count = f"{parallel.commands:,} times `/bin/sleep 1` through `execute_parallel`, all at once"
    yield f"{count}: {len(parallel.failures)} failures, in {parallel.seconds:.2f} s."
    yield from (f"- {failure}" for failure in parallel.failures[:5])


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def table(heads: tuple[str, ...], cells: list[tuple[str, ...]], right: set[int]) -> Iterator[str]:
    """Markdown whose columns stand one below the other."""
    widths = [max(len(row[column]) for row in (heads, *cells)) for column in range(len(heads))]

    def line(row: tuple[str, ...]) -> str:
        padded = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    yield line(heads)
    rules = ("-" * (width + 1) + (":" if column in right else "-") for column, width in enumerate(widths))
    yield f"|{'|'.join(rules)}|"
    yield from map(line, cells)
