"""A corral that is killed: its runs end with it, and what it could not remove the next one removes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from corral.limits.hierarchy import find_hierarchy
from support.gates import PATIENCE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.arena import Arena
    from support.gates import Gate

_TESTS = str(Path(__file__).resolve().parents[1])
_RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support.arena import Arena, shell
arena = Arena(sys.argv[2], sys.argv[3], Path.cwd())
sandbox = arena.sandbox('memory:limit:256MiB', 'pids:limit:20')
sandbox.run(shell(sys.argv[4]))
"""
_DAEMONS = "exec 9>gate; setsid sleep 600 & (sleep 600 &) ; touch here; sleep 600"


def _start(arena: Arena, script: str) -> subprocess.Popen[bytes]:
    arguments = [_TESTS, arena.backend, arena.enforcer, script]
    return subprocess.Popen([sys.executable, "-c", _RUN, *arguments], cwd=arena.work)


def test_all_processes_die_and_the_next_run_removes_the_groups(arena: Arena, work: Path, gate: Gate) -> None:
    corral = _start(arena, _DAEMONS)
    _wait_for(work / "here", corral)
    corral.kill()
    corral.wait()

    assert gate.is_left()
    if arena.is_grouped:
        assert _groups_of(corral.pid)
    assert _start(arena, "true").wait() == 0
    assert _groups_of(corral.pid) == []
    for scratch in work.parent.glob("temporary/corral-*"):  # docs/limits.md: nobody sweeps then
        scratch.rmdir()


def test_the_groups_of_a_corral_that_lives_are_left_alone(arena: Arena, work: Path, gate: Gate) -> None:
    corral = _start(arena, _DAEMONS)
    _wait_for(work / "here", corral)
    before = _groups_of(corral.pid)
    another = _start(arena, "true").wait()
    after, lives = _groups_of(corral.pid), not gate.is_left(0)
    corral.terminate()
    corral.wait()

    assert another == 0
    assert before == after
    assert bool(before) == arena.is_grouped
    assert lives
    assert gate.is_left()
    _start(arena, "true").wait()  # which removes the groups
    for scratch in work.parent.glob("temporary/corral-*"):
        scratch.rmdir()


def _wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _groups_of(pid: int) -> list[str]:
    hierarchy = find_hierarchy()
    parents = sorted(set(hierarchy.parents.values())) if hierarchy is not None else []
    return [
        f"{parent}/{name}"
        for parent in parents
        for name in sorted(os.listdir(parent))
        if name.startswith("corral-") and name.split("-")[2:3] == [str(pid)]
    ]
