"""Programs of the host are asked, and never waited for longer than was said."""

from __future__ import annotations

import os
import time

from corral.model.probe import ToolRun
from corral.tool import run_tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def test_status_output_and_errors_are_told_apart() -> None:
    assert run_tool(("/bin/sh", "-c", "echo out; echo err >&2; exit 3"), 10) == ToolRun(3, "out\n", "err\n")


def test_one_that_is_not_there_is_told() -> None:
    assert run_tool(("/no/such/tool",), 10) == ToolRun(-1, "", "No such file or directory")


def test_one_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    number = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {number}; wait"
    answer = run_tool(("/bin/sh", "-c", script), 1)

    assert answer == ToolRun(-1, "", "no answer within 1 seconds")
    assert _is_gone(int(number.read_text()))


def test_what_it_leaves_behind_keeps_nobody_waiting(tmp_path: Path) -> None:
    """A helper that holds its output open, as daemons do that are started on demand."""
    number = tmp_path / "pid"
    answer = run_tool(("/bin/sh", "-c", f"setsid sleep 600 & echo $! > {number}; echo done"), 600)
    os.kill(int(number.read_text()), 9)  # it is still there

    assert answer.output == "done\n"


def _is_gone(pid: int) -> bool:
    """Whether it has ended; whoever adopted it may not have waited for it yet."""
    for _ in range(500):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False
