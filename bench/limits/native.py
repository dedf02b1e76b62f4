"""Limits as the native backend holds them: rows for the table, for each enforcer that this host has.

`python bench/limits/native.py [PROGRAM]` prints them as JSON, with a measuring program that was built
before: that is how the rows of another kernel are had.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corral import Limits, Sandbox, load_preset
from corral.host.real import RealHost
from corral.model.enforcer import TITLES, Enforcer
from corral.model.feature import Feature
from limits.cases import CASES, MIB, Case
from limits.program import build_measure, last_got
from limits.rows import Row

COST_ROUNDS = 100
_SECONDS, _PROCESSOR_SECONDS, _OUTPUT = 1.0, 0.5, MIB
_ALL = Limits(memory_bytes=256 * MIB, cpus=1.0, pids=64, cpu_seconds=60.0)


class GrouplessHost(RealHost):
    """This host, as if no control group could be made."""

    def enforcers(self) -> tuple[Enforcer, ...]:
        return ()

    def limits_key(self) -> str:
        return "as if there were none"


def hosts() -> Iterator[tuple[str, RealHost]]:
    """The host as it is, if it has control groups, and as if it had none."""
    held = [enforcer for enforcer in RealHost().enforcers() if enforcer.holds]
    if held:
        yield TITLES[held[0].name], RealHost()
    yield "supervisor", GrouplessHost()


def sandbox(
    host: RealHost, limits: Limits, workspace: Path, waive: frozenset[Feature] = frozenset()
) -> Sandbox:
    policy = load_preset("moderate").replace(limits=limits)
    return Sandbox(policy, backend="native", workspace=workspace, waive=waive, host=host)


def measure_host(enforcer: str, host: RealHost, workspace: Path, binary: Path) -> Iterator[Row]:
    """A row for each limit that is held here."""
    probe = next(sandbox(host, Limits(), workspace).probes())
    nearly = frozenset(dict(probe.approximates))  # waived, the launcher looks all the same
    for case in CASES:
        if case.feature in probe.enforces | nearly:
            yield _row(enforcer, case, sandbox(host, case.limits, workspace, nearly), binary)
    waits = sandbox(host, Limits(wall_seconds=_SECONDS), workspace).run([str(binary), "sleep", "60"])
    yield Row(enforcer, "time", _SECONDS, waits.duration_seconds, "s")
    if Feature.LIMIT_CPU_TIME in probe.enforces:
        burns = sandbox(host, Limits(cpu_seconds=_PROCESSOR_SECONDS), workspace)
        spent = burns.run([str(binary), "cpu", "10", "2"]).usage.cpu_seconds
        yield Row(enforcer, "processor time", _PROCESSOR_SECONDS, spent, "s")
    prints = sandbox(host, Limits(output_bytes=_OUTPUT), workspace).run("head -c 8m /dev/zero")
    yield Row(enforcer, "output", _OUTPUT / MIB, len(prints.stdout_bytes) / MIB, "MiB")


def _row(enforcer: str, case: Case, limited: Sandbox, binary: Path) -> Row:
    output = limited.run([str(binary), *case.command]).stdout
    return Row(enforcer, case.name, case.asked, last_got(output), case.unit)


def measure_cost(host: RealHost, workspace: Path, rounds: int = COST_ROUNDS) -> float:
    """Milliseconds that limits add to a run: with all of them in a group, less one without a group at all."""
    rows: dict[str, Callable[[], object]] = {
        "none": lambda: without.run(["/bin/true"]).check(),
        "all": lambda: limited.run(["/bin/true"]).check(),
    }
    limited, without = sandbox(host, _ALL, workspace), sandbox(GrouplessHost(), Limits(), workspace)
    spent: dict[str, list[float]] = {name: [] for name in rows}
    for name in (*rows, *(list(rows) * rounds)):
        began = time.perf_counter()
        rows[name]()
        spent[name].append((time.perf_counter() - began) * 1000)
    return statistics.median(spent["all"][1:]) - statistics.median(spent["none"][1:])


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as directory:
        workspace = Path(directory).resolve()
        binary = workspace / "measure"
        if len(sys.argv) > 1:
            shutil.copy(sys.argv[1], binary)
        else:
            build_measure(workspace)
        found = [row for name, host in hosts() for row in measure_host(name, host, workspace, binary)]
        costs = {name: measure_cost(host, workspace, 20) for name, host in hosts() if name != "supervisor"}
    print("rows " + json.dumps({"rows": [row._asdict() for row in found], "costs": costs}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
