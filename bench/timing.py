"""Timing: rows that are measured in turns, so that what else the machine does falls on all of them."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

BARE = "bare process"
#: With fewer samples the 99th of a hundred would be the slowest one of all, and say little.
LEAST_FOR_P99 = 100
_ROUNDS_BETWEEN_COLLECTIONS = 50


class Missing(Exception):
    """Something cannot be measured here; the message says why."""


class Row(NamedTuple):
    """One thing to measure."""

    name: str
    shown: str  # how a reader would do the same
    action: Callable[[], object]
    base: str = BARE  # the row that it is compared with
    every: int = 1  # slow ones take part in every n-th round only
    commands: int = 1  # how many commands one call runs
    settle: Callable[[], object] | None = None  # untimed, after each call: the next row finds a quiet machine


class Timed(NamedTuple):
    """What a row took, in milliseconds for each command."""

    row: Row
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def p99(self) -> float | None:
        """The time that 99 of 100 calls did not exceed; None if there are too few to tell."""
        if len(self.samples) < LEAST_FOR_P99:
            return None
        return sorted(self.samples)[-(-99 * len(self.samples) // 100) - 1]


def take_turns(rows: Iterable[Row], rounds: int, most_seconds: float = 600.0) -> dict[str, Timed]:
    """Measure all rows, round after round, each round in another order; stop early if time is over.

    The order changes so that no row always follows the same one, and is the same in every run. Python's
    collector of cycles is off meanwhile and runs between rounds: its pauses belong to no row.
    """
    rows = list(rows)
    spent: dict[str, list[float]] = {row.name: [] for row in rows}
    for row in rows:
        _call(row)  # the first one pays for what is kept afterwards
    order = random.Random(0)
    deadline = time.monotonic() + most_seconds
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            turn = [row for row in rows if number % row.every == 0]
            order.shuffle(turn)
            for row in turn:
                spent[row.name].append(_call(row))
            if number % _ROUNDS_BETWEEN_COLLECTIONS == 0:
                gc.collect()
            if time.monotonic() > deadline:
                break
    finally:
        gc.enable()
    return {row.name: Timed(row, tuple(spent[row.name])) for row in rows}


def _call(row: Row) -> float:
    began = time.perf_counter()
    row.action()
    seconds = time.perf_counter() - began
    if row.settle is not None:
        row.settle()
    return seconds * 1000 / row.commands
