"""Measure what a check of a command costs after its import: `python bench/checking.py`."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import corral

CORPUS = Path(__file__).resolve().parents[1] / "tests/unit/shell_check/corpus"
GOAL_MILLISECONDS = 1.0


def measure(rounds: int = 5) -> tuple[float, float, float]:
    """Milliseconds for a command: the median, the mean and the 99th percentile over the corpus."""
    commands = [
        json.loads(line)["command"]
        for name in ("benign", "hostile")
        for line in (CORPUS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    corral.check("true")
    spent = []
    for _ in range(rounds):
        for command in commands:
            began = time.perf_counter()
            corral.check(command)
            spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent), statistics.mean(spent), statistics.quantiles(spent, n=100)[98]


def main() -> None:
    median, mean, slow = measure()
    verdict = "met" if mean <= GOAL_MILLISECONDS else "MISSED"
    print(f"corral.check: median {median:.2f} ms, mean {mean:.2f} ms, p99 {slow:.2f} ms")
    print(f"goal: at most {GOAL_MILLISECONDS:g} ms a command: {verdict}")


if __name__ == "__main__":
    main()
