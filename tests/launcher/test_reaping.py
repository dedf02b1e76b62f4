"""The bound on reaping: between two batches the supervisor polls, however many processes end.

The supervisor, or init, is followed from one system call to the next. While it stands still in the midst of
reaping, more processes die, so that it never runs out of the dead before all are. What counts is the order of
its calls; no clock is asked.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from launching import PATIENCE_SECONDS, bare, confined, start
from tracing import Tracee

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from launching import Running
    from tracing import Call

pytestmark = pytest.mark.skipif(
    os.getuid() != 0, reason="needs root, to follow a process that is not dumpable"
)

#: More than are reaped at a time, and then more again and again; all together a bounded number.
FIRST, MORE, TIMES = 280, 100, 3
#: Orphans that wait, in groups, until a byte on stdin lets the next group end.
_ORPHANS = """
import os, sys
gates = [os.pipe() for _ in sys.argv[1:]]
for number, size in enumerate(sys.argv[1:]):
    if os.fork():
        os.wait()
        continue
    for _, writer in gates: os.close(writer)
    for _ in range(int(size)):
        if os.fork() == 0:
            os.read(gates[number][0], 1)
            os._exit(0)
    os._exit(0)
print('ready', flush=True)
for _, writer in gates:
    os.read(0, 1)
    os.close(writer)
os.read(0, 1)
"""


@dataclass
class Flood:
    """A command whose orphans die when they are told to, and who has to reap them."""

    running: Running
    reaper: Tracee
    tell: int  # the other end of the command's stdin
    told: int = 0
    reaped: int = 0
    turns: list[int] = field(default_factory=lambda: [0])  # how many were reaped without a look around

    def die(self, count: int) -> None:
        """Let the next group die, and wait until all of it is dead; the reaper stands still meanwhile."""
        os.write(self.tell, b"x")
        self.told += count
        end = time.monotonic() + PATIENCE_SECONDS
        while len(_dead_children(self.reaper.pid)) < self.told - self.reaped:
            assert time.monotonic() < end, "they do not die"
            time.sleep(0.01)

    def follow(self, until: Callable[[Call], bool], midway: Callable[[], None] = lambda: None) -> None:
        """Until something is done, or all are reaped. In the midst of each turn, more die."""
        groups, last_at = TIMES, 0
        for call in self.reaper.calls():
            if until(call):
                return
            if call.name in {"poll", "ppoll", "restart_syscall"}:
                self.turns.append(0)
            if call.name != "wait4" or call.result <= 0:
                continue
            self.reaped += 1
            self.turns[-1] += 1
            if self.reaped == MORE // 2:
                midway()
            if groups and self.reaped >= last_at + MORE:
                groups, last_at = groups - 1, self.reaped
                self.die(MORE)
            if self.reaped >= FIRST + MORE * TIMES:
                return


def _dead_children(pid: int) -> list[str]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [child for child in listed if _state(child) == "Z"]


def _state(pid: str) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


@pytest.fixture
def flood(request: pytest.FixtureRequest, plain: Path) -> Iterator[Flood]:
    make = request.param
    reader, writer = os.pipe()
    sizes = [str(size) for size in (FIRST, *[MORE] * TIMES)]
    running = start(plain, make("python3", "-SEc", _ORPHANS, *sizes), stdin=reader)
    os.close(reader)
    running.wait_for_output(b"ready\n", seconds=60.0)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    flood = Flood(running, Tracee(running.pid if make is bare else int(children[0])), writer)
    flood.die(FIRST)
    yield flood
    flood.reaper.release()
    os.close(writer)
    if running.lifeline_fd >= 0:
        running.cut_lifeline()
    running.finish()


@pytest.mark.parametrize("flood", [bare, confined], indirect=True)
def test_no_turn_is_for_the_dead_alone(flood: Flood) -> None:
    flood.follow(until=lambda _: False)

    assert flood.reaped == FIRST + MORE * TIMES, "the control: all were there to be reaped"
    assert max(flood.turns) < FIRST


@pytest.mark.parametrize("flood", [bare], indirect=True)
def test_a_lifeline_that_is_cut_meanwhile_is_noticed_before_all_are_reaped(flood: Flood) -> None:
    cut_at = []

    def cut() -> None:
        flood.running.cut_lifeline()
        cut_at.append(flood.reaped)

    flood.follow(until=lambda call: (call.name, call.first) == ("read", 5), midway=cut)

    assert cut_at, "the control: it was cut while others were reaped"
    assert flood.reaped - cut_at[0] < FIRST
