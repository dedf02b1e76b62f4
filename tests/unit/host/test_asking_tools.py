"""Programs of the host are asked, and never waited for longer than was said."""

from __future__ import annotations

import os
import sys
import time

from corral.host.tool import leaving_no_pause, run_tool
from corral.model.probe import ToolRun

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


_PAUSE = """#!{python}
import os, signal, sys
ready, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    with open("/proc/self/comm", "w") as file:
        file.write(sys.argv[1])
    with open(sys.argv[2], "w") as file:
        file.write(str(os.getpid()))
    os.write(tell, b"x")
    signal.alarm(600)
    signal.pause()
os.read(ready, 1)
"""


def test_a_pause_process_that_asking_podman_has_left_is_ended(tmp_path: Path) -> None:
    program = tmp_path / "podman"
    program.write_text(_PAUSE.format(python=sys.executable))
    program.chmod(0o755)
    left: dict[str, int] = {}

    def ask(name: str) -> None:
        assert run_tool((str(program), name, str(tmp_path / "pid")), 600).status == 0
        left[name] = int((tmp_path / "pid").read_text())

    ask("podman pause")  # the user's own, from before
    before = left["podman pause"]
    with leaving_no_pause(str(program)):
        ask("podman pause")
        ask("podman other")

    try:
        assert _is_gone(left["podman pause"])
        assert not any(map(_has_ended, (before, left["podman other"])))
    finally:
        for pid in (before, left["podman other"]):
            os.kill(pid, 9)


def _is_gone(pid: int) -> bool:
    """Whether it has ended; whoever adopted it may not have waited for it yet."""
    for _ in range(500):
        if _has_ended(pid):
            return True
        time.sleep(0.01)
    return False


def _has_ended(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
