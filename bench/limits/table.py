"""One table: each limit, as it was asked for and as a command really got it, by each enforcer.

`make bench` prints it; `python bench/limits/table.py --record` also writes it to docs/limits.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from document import DOCS, record  # noqa: E402
from limits.engines import measure_engines  # noqa: E402
from limits.native import hosts, measure_cost, measure_host  # noqa: E402
from limits.program import build_measure  # noqa: E402
from limits.rows import Row  # noqa: E402

TOLERANCE = 0.05
COST_GOAL_MS = 1.0
SUPERVISOR = "supervisor"
_VM_SECONDS = 600


def measure_here(binary: Path, workspace: Path) -> tuple[list[Row], dict[str, float]]:
    """Rows and costs of this kernel."""
    rows = [row for name, host in hosts() for row in measure_host(name, host, workspace, binary)]
    costs = {name: measure_cost(host, workspace) for name, host in hosts() if name != SUPERVISOR}
    return rows, costs


def measure_in_vm() -> tuple[list[Row], str]:
    """Rows of the kernel that `make test-vm` boots, or the reason why there are none."""
    binary = build_measure(Path(sys.prefix))  # the environment is there as well
    try:
        line = [sys.executable, str(ROOT / "tests/vm/run.py"), "--user", "root", "exec", sys.executable]
        done = subprocess.run(
            [*line, str(HERE / "native.py"), str(binary)],
            capture_output=True,
            text=True,
            timeout=_VM_SECONDS,
            check=False,
        )
    finally:
        binary.unlink()
    found = [text for text in done.stdout.splitlines() if text.startswith("rows ")]
    if not found:
        return [], f"the virtual machine told nothing: {done.stderr.strip() or done.stdout[-400:]}"
    rows = [Row(**row) for row in json.loads(found[0][5:])["rows"]]
    return [row for row in rows if row.enforcer != SUPERVISOR], ""


def measure_all() -> tuple[list[Row], dict[str, float], list[str]]:
    """All rows, what limits cost for each enforcer, and why some are missing."""
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as directory:
        workspace = Path(directory).resolve()
        rows, costs = measure_here(build_measure(workspace), workspace)
    inside, reason = measure_in_vm()
    engines, missing = measure_engines()
    return [*rows, *inside, *engines], costs, [*([reason] if reason else []), *missing]


def is_within(row: Row) -> bool:
    """Whether a command got what it should: never more, and at most 5 % less. A time can only be late."""
    return abs(row.deviation) <= TOLERANCE


def table(rows: list[Row]) -> list[str]:
    """The rows as the document shows them."""
    lines = ["| Enforcer | Limit | Asked | Got | Deviation |", "|---|---|---:|---:|---:|"]
    for row in rows:
        asked, got = f"{row.asked:g} {row.unit}", f"{row.got:.3g} {row.unit}"
        lines.append(f"| {row.enforcer} | {row.limit} | {asked} | {got} | {row.deviation:+.1%} |")
    return lines


def run(*, recording: bool = False) -> bool:
    """Measure, print, and say whether every goal was reached."""
    rows, costs, missing = measure_all()
    print("Limits: asked for, and really got")
    reached = True
    for row in rows:
        goal = "(stated only)" if row.enforcer == SUPERVISOR else "within 5 %"
        if row.enforcer != SUPERVISOR:
            reached &= is_within(row)
            goal += ": reached" if is_within(row) else ": MISSED"
        print(
            f"  {row.enforcer:<26}{row.limit:<24}{row.asked:>8g}{row.got:>10.3f} {row.unit:<12}"
            f"{row.deviation:>+8.1%}   {goal}"
        )
    for name, cost in costs.items():
        reached &= cost <= COST_GOAL_MS
        mark = "reached" if cost <= COST_GOAL_MS else "MISSED"
        print(
            f"  {name:<26}{'all limits of a run':<24}{cost:>18.2f} ms added   <= {COST_GOAL_MS:g} ms: {mark}"
        )
    print(*(f"  not measured: {reason}" for reason in missing), sep="\n")
    if recording:
        record(DOCS / "limits.md", "limits", table(rows))
    return reached and not missing


if __name__ == "__main__":
    sys.exit(0 if run(recording="--record" in sys.argv) else 1)
