"""ResourceLimiter: limits for processes that are running already, started by whomever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral.limits.discover import remove_leftovers
from corral.limits.hierarchy import explain_absence, find_hierarchy
from corral.limits.limiter import ResourceLimiter
from corral.model.errors import SetupError
from corral.model.feature import Feature
from corral.model.policy import Limits
from support.arena import python
from support.gates import PATIENCE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MIB = 1 << 20
# Does what it is told, line by line, and says what came of it.
_SERVANT = """
import os, sys, time
held, gate = [], os.pipe()
def take(size): held.append(bytearray(size << 20))
def fork(count):
    for _ in range(count):
        if os.fork() == 0:
            os.close(gate[1]); os.read(gate[0], 1); os._exit(0)
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
for line in sys.stdin:
    try: eval(line)
    except OSError: print('refused', flush=True)
    else: print('done', flush=True)
"""


class Servant:
    """A process of ours that was not limited when it began."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            python(_SERVANT), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.ask("None") == "done"

    def ask(self, line: str) -> str:
        """Empty if it is gone."""
        try:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def servant() -> Iterator[Servant]:
    if find_hierarchy() is None:
        pytest.skip(f"no process that runs can be limited here: {explain_absence()[0]}")
    made = Servant()
    yield made
    made.close()


def _until(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
    return is_so()


def test_memory_is_held_and_told(servant: Servant) -> None:
    with ResourceLimiter(Limits(memory_bytes=64 * _MIB)) as limiter:
        limiter.apply(servant.process.pid)
        assert limiter.exceeded() is None
        assert servant.ask("take(20)") == "done"
        assert 20 * _MIB <= limiter.usage().memory_bytes < 64 * _MIB
        assert servant.ask("take(200)") == ""
        assert servant.process.wait() == -9

        excess = limiter.exceeded()

    assert excess is not None
    assert excess.feature is Feature.LIMIT_MEMORY


def test_processes_are_held_and_told(servant: Servant) -> None:
    with ResourceLimiter(Limits(pids=10)) as limiter:
        limiter.apply(servant.process.pid)
        assert servant.ask("fork(9)") == "done"
        assert limiter.usage().pids == 10
        assert limiter.exceeded() is None
        assert servant.ask("fork(1)") == "refused"

        excess = limiter.exceeded()

    assert excess is not None
    assert excess.feature is Feature.LIMIT_PIDS


def test_without_a_limit_it_has_all_of_it(servant: Servant) -> None:
    assert servant.ask("take(200)") == "done"
    assert servant.ask("fork(20)") == "done"


def test_time_is_counted(servant: Servant) -> None:
    with ResourceLimiter(Limits(cpu_seconds=0.3)) as limiter:
        limiter.apply(servant.process.pid)
        before = limiter.exceeded()
        assert servant.ask("burn(0.6)") == "done"

        assert before is None
        assert limiter.usage().cpu_seconds >= 0.3
        assert limiter.exceeded().feature is Feature.LIMIT_CPU_TIME


def test_who_is_let_go_lives_on_without_limits(servant: Servant) -> None:
    with ResourceLimiter(Limits(pids=4, memory_bytes=100 * _MIB)) as limiter:
        limiter.apply(servant.process.pid)
        assert servant.ask("fork(8)") == "refused"

    assert servant.ask("fork(20)") == "done"
    assert servant.ask("take(200)") == "done"


def test_kill_ends_all_of_them(servant: Servant) -> None:
    with ResourceLimiter(Limits(pids=30)) as limiter:
        limiter.apply(servant.process.pid)
        assert servant.ask("fork(10)") == "done"
        limiter.kill()

        assert servant.process.wait(PATIENCE_SECONDS) == -9
        # The dead whose parent is gone as well may wait long for PID 1; they are no members any more.
        assert limiter._group is not None
        listed = [Path(path, "cgroup.procs") for path in limiter._group.directories.values()]
        assert _until(lambda: not any(file.read_text() for file in listed))


def test_a_process_that_is_gone_is_refused(servant: Servant) -> None:
    servant.close()
    with ResourceLimiter(Limits(pids=4)) as limiter, pytest.raises(SetupError) as refused:
        limiter.apply(servant.process.pid)

    assert refused.value.code == "cgroup"


def test_open_files_are_held(servant: Servant) -> None:
    with ResourceLimiter(Limits(open_files=12)) as limiter:
        limiter.apply(servant.process.pid)
        answers = [servant.ask("held.append(os.dup(0))") for _ in range(12)]

    assert "refused" in answers


def test_a_sweep_of_leftovers_lets_processes_live_that_were_only_limited() -> None:
    """Their program died without letting them go; they are not of a sandbox, and nobody's to end."""
    hierarchy = find_hierarchy()
    if hierarchy is None:
        pytest.skip(f"no control group can be made here: {explain_absence()[0]}")
    script = (
        "import os, subprocess, sys\n"
        "from corral import Limits, ResourceLimiter\n"
        "process = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "ResourceLimiter(Limits(pids=20)).apply(process.pid)\n"
        "print(process.pid, flush=True)\n"
        "os._exit(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    try:
        for parent in dict.fromkeys(hierarchy.parents.values()):
            remove_leftovers(parent, again=True)
        assert os.path.exists(f"/proc/{pid}")
        assert Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    finally:
        os.kill(pid, signal.SIGKILL)
