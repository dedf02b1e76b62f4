"""Measure what a command that prints a gigabyte costs its caller: memory first, then time.

Each row is a fresh Python process, whose peak memory while the command prints is compared with its own
before. The time is compared with that of a bare process whose output a loop reads and throws away.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PRINTED_BYTES = 1_000_000_000
GOAL_BYTES = 64_000_000
ROUNDS = 3
ROWS = ("bare", "kept", "kept, both streams", "kept, as text", "streamed", "written to a file")
#: A character that needs four bytes, and then others: as text, all of them need four.
FLOOD = ["/bin/sh", "-c", f"printf '\N{HORSE}'; exec head -c {PRINTED_BYTES - 4} /dev/zero"]
BOTH = ["/bin/sh", "-c", f"head -c {PRINTED_BYTES // 2} /dev/zero | tee /dev/stderr"]


def peak_bytes() -> int:
    """The most memory that this process has had so far."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def read_bare() -> int:
    """Start a bare process and read what it prints, as quickly as Python can."""
    child = subprocess.Popen(FLOOD, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdout is not None
    seen = 0
    while piece := os.read(child.stdout.fileno(), 65_536):
        seen += len(piece)
    child.wait()
    return seen


def actions(project: Path) -> dict[str, Callable[[], int]]:
    """What the caller of each row does; each returns the number of bytes that it has seen."""
    import corral

    sandbox = corral.Sandbox("moderate", backend="native", workspace=project)
    sandbox.run(["/bin/true"]).check()

    def printed(result: corral.Result) -> int:
        result.check()
        return (result.stdout_size or 0) + (result.stderr_size or 0)

    def as_text() -> int:
        result = sandbox.run(FLOOD)
        return printed(result) if result.stdout.startswith("\N{HORSE}") else 0

    return {
        "bare": read_bare,
        "kept": lambda: printed(sandbox.run(FLOOD)),
        "kept, both streams": lambda: printed(sandbox.run(BOTH)),
        "kept, as text": as_text,
        "streamed": lambda: printed(sandbox.run(FLOOD, stream=lambda _name, _data: None)),
        "written to a file": lambda: printed(sandbox.run(FLOOD, stdout=project / "printed")),
    }


def call(name: str, project: Path) -> None:
    """In the fresh process: do one thing, and say what it cost."""
    action = actions(project)[name]
    idle = peak_bytes()
    began = time.perf_counter()
    seen = action()
    seconds = time.perf_counter() - began
    assert seen == PRINTED_BYTES, seen
    print(json.dumps([peak_bytes() - idle, seconds]))


def measure(name: str, project: Path) -> tuple[int, float]:
    """Bytes over idle, and seconds, of one row."""
    line = [sys.executable, __file__, name, str(project)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    grown, seconds = json.loads(done.stdout)
    return grown, seconds


def run(project: Path) -> bool:
    """Print the table; True if the goal was reached by every row of corral."""
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in ROWS}
    for _ in range(ROUNDS):
        for name in ROWS:
            found[name].append(measure(name, project))
    base = statistics.median(seconds for _, seconds in found["bare"])
    print("Memory of the caller, over idle, and time, while a command prints 1 GB")
    reached = True
    for name, values in found.items():
        most = max(grown for grown, _ in values)
        ratio = statistics.median(seconds for _, seconds in values) / base
        goal = ""
        if name != "bare":
            reached &= most <= GOAL_BYTES
            goal = f"<= {GOAL_BYTES // 10**6} MB: {'reached' if most <= GOAL_BYTES else 'MISSED'}"
        print(f"  {name:<28}{most / 1e6:>7.1f} MB{ratio:>8.2f}x   {goal}")
    return reached


def main() -> int:
    if len(sys.argv) == 3:
        call(sys.argv[1], Path(sys.argv[2]))
        return 0
    print(f"{'':<30}{'peak':>10}{'ratio':>9}   goal")
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as directory:
        return 0 if run(Path(directory).resolve()) else 1


if __name__ == "__main__":
    sys.exit(main())
