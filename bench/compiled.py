"""A compiled plan, run without Python, against bubblewrap with the same walls and with few of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import corral
import peers

ROUNDS = 60
TRUE = ["/bin/true"]
FEW_WALLS = "bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp /bin/true"
PLAN, SAME = "corral-launch --plan", "bwrap, same isolation"


def run(
    project: Path,
    measure: Callable[[dict[str, Callable[[], object]], int], dict[str, float]],
    show: Callable[[str, dict[str, float], str, dict[str, tuple[str, float]]], bool],
) -> bool:
    """Print the table; True if every goal was reached."""
    programs = Path(sys.executable).parent
    with tempfile.TemporaryDirectory(prefix="corral-plan-") as directory:
        plan = f"{directory}/plan"
        compiling = [programs / "corral", "compile", "-p", "strict", "--no-config", "-o", plan]
        subprocess.run(compiling, cwd=project, check=True, capture_output=True)
        line = [programs / "corral-launch", "--plan", plan, "--", *TRUE]
        rows: dict[str, Callable[[], object]] = {
            "bare": lambda: subprocess.run(TRUE, capture_output=True, check=True),
            PLAN: lambda: subprocess.run(line, cwd=project, capture_output=True, check=True),
        }
        if shutil.which("bwrap"):
            strict = corral.Sandbox("strict", backend="native", workspace=project)
            rows[SAME] = peers.bubblewrap(strict.explain(TRUE))
            few = FEW_WALLS.split()
            rows["bwrap, / read-only"] = lambda: subprocess.run(few, capture_output=True, check=True)
        found = measure(rows, ROUNDS)
    goals = {PLAN: (SAME, 0.6)} if SAME in found else {}
    return show("A compiled plan, profile strict", found, "bare", goals)
