"""Measure what the audit log costs a run, and how fast it is verified: `python bench/auditing.py`."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import corral
from corral.audit.log import AuditLog
from corral.audit.recorder import Recorder
from corral.audit.verify import verify

GOAL_MILLISECONDS, GOAL_EVENTS = 0.2, 100_000


def measure_run(directory: Path, rounds: int = 300) -> float:
    """Milliseconds that the records of one run take, in the middle."""
    recorder = Recorder(AuditLog(str(directory)))
    with tempfile.TemporaryDirectory() as workspace:
        sandbox = corral.Sandbox("strict", workspace=workspace)
        explanation = sandbox.explain(("true",))
        result = sandbox.run(("true",))
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        recorder.note_planned(explanation.plan, "native")
        recorder.note_ended(result)
        spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent)


def measure_verify(directory: Path, events: int = 200_000) -> float:
    """Events a second."""
    log = AuditLog(str(directory))
    record = {"event": "ended", "time": "2026-01-01T00:00:00.000000Z", "run": "0" * 16, "outcome": "exited"}
    for _ in range(events // 1000):
        log.write([record] * 1000)
    began = time.perf_counter()
    found = verify(str(directory))
    assert found.is_intact
    return found.events / (time.perf_counter() - began)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        spent = measure_run(Path(directory) / "runs")
        rate = measure_verify(Path(directory) / "events")
    verdicts = {True: "met", False: "MISSED"}
    lasted, kept = verdicts[spent <= GOAL_MILLISECONDS], verdicts[rate >= GOAL_EVENTS]
    print(f"records of a run: {spent:.3f} ms (goal: at most {GOAL_MILLISECONDS}: {lasted})")
    print(f"verified: {rate:,.0f} events a second (goal: {GOAL_EVENTS:,}: {kept})")


if __name__ == "__main__":
    main()
