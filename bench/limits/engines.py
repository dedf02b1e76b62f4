"""Limits as docker and podman enforce them, by the arguments that corral gives: rows for the table."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from corral.backends.engine.limits import engine_limit_arguments
from corral.model.policy import Limits
from limits.cases import CASES, Case
from limits.program import build_measure, last_got
from limits.rows import Row

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

from support.engines import ENGINES, Engine, why_unavailable

AREAS = ("/tmp",)


def measure_case(engine: Engine, case: Case) -> Row:
    """What the command gets with the limit."""
    return _measure(engine, case, case.limits)


def measure_control(engine: Engine, case: Case) -> Row:
    """What the same command gets without it."""
    return _measure(engine, case, Limits())


def _measure(engine: Engine, case: Case, limits: Limits) -> Row:
    arguments = engine_limit_arguments(limits, engine=engine.name, areas=AREAS)
    done = engine.run(arguments, ["measure", *case.command])
    return Row(engine.name, case.name, case.asked, last_got(done.output), case.unit)


def measure_engines() -> tuple[list[Row], list[str]]:
    """A row for each engine and case, and why an engine is missing, in a sentence."""
    rows, missing = [], []
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as directory:
        for name, start in ENGINES.items():
            if reason := why_unavailable(name):
                missing.append(reason)
                continue
            engine = start([build_measure(Path(directory))])
            try:
                rows += [measure_case(engine, case) for case in CASES]
            finally:
                engine.close()
    return rows, missing
