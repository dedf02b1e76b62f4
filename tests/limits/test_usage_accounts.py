"""What a run has cost, compared with work of a known size."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from support.arena import python, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.arena import Arena

_MIB = 1 << 20
_WRITE = "head -c 8m /dev/urandom > written; sync written"


def test_wall_time(arena: Arena) -> None:
    began = time.monotonic()
    usage = arena.run(shell("sleep 0.4")).usage

    assert 0.4 <= usage.wall_seconds <= time.monotonic() - began
    assert usage.cpu_seconds < usage.wall_seconds - 0.2  # what was slept away costs nothing


@pytest.mark.parametrize("which", ["user", "system"])
def test_processor_time(arena: Arena, which: str) -> None:
    """A loop spends its time in the program, or in the kernel."""
    work = "pass" if which == "user" else "os.pread(file, 1 << 16, 0)"
    script = f"""
import os
file = os.open('/dev/zero', os.O_RDONLY)
while os.times().{which} < 0.6: {work}
"""
    usage = arena.run(python(script)).usage
    spent = usage.user_seconds if which == "user" else usage.system_seconds

    assert 0.59 <= spent < 2 * 0.6  # all of it, and once
    assert usage.cpu_seconds >= spent


def test_processor_time_of_those_that_nobody_waited_for(arena: Arena) -> None:
    """It is still at work when the command ends, and is ended with it."""
    script = """
import os, time
told, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    while time.process_time() < 0.3: pass
    os.write(tell, b'.')
    while True: time.sleep(1)
os.read(told, 1)
"""
    usage = arena.run(python(script)).usage

    assert 0.29 <= usage.cpu_seconds < 2.0


@pytest.mark.parametrize("size", [50, 150])
def test_memory_of_one_process(arena: Arena, size: int) -> None:
    with_it = arena.run(python(f"held = bytearray({size} << 20)")).usage
    without = arena.run(python("pass")).usage

    assert with_it.is_whole_tree == arena.is_grouped
    assert with_it.peak_memory_bytes - without.peak_memory_bytes == pytest.approx(size * _MIB, rel=0.1)


def test_memory_of_many_processes(arena: Arena) -> None:
    script = """
import os
told, tell = os.pipe()
gate, release = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.close(release)
        held = bytearray(25 << 20)
        os.write(tell, b'.')
        os.read(gate, 1)
        os._exit(0)
for _ in range(4): os.read(told, 1)
os.close(release)
for _ in range(4): os.wait()
"""
    usage = arena.run(python(script)).usage
    without = arena.run(python("pass")).usage

    if arena.is_grouped:  # else it is that of the largest one
        assert usage.peak_memory_bytes - without.peak_memory_bytes == pytest.approx(100 * _MIB, rel=0.1)
        assert usage.peak_pids in {5, None}  # None: a kernel that does not count it


def test_processes(arena: Arena) -> None:
    """One after the other: many in all, and never many at a time."""
    script = "number=0; while [ $number -lt 20 ]; do /bin/true; number=$((number + 1)); done"
    usage = arena.run(shell(script)).usage

    if arena.backend == "native":  # without a PID namespace nobody counts them
        assert usage.processes is not None
        assert 21 <= usage.processes < 30
    if arena.is_grouped:
        assert usage.peak_pids in {2, None}


def test_written_bytes(arena: Arena, work: Path) -> None:
    child = subprocess.Popen(shell(_WRITE), cwd=work)
    _, status, spent = os.wait4(child.pid, 0)
    child.returncode = status
    if spent.ru_oublock * 512 < 8 * _MIB:
        pytest.skip("the file system of the workspace does not count what is written")
    (work / "written").unlink()

    usage = arena.run(shell(_WRITE)).usage

    assert usage.written_bytes == pytest.approx(8 * _MIB, rel=0.1)
    assert arena.run(shell("true")).usage.written_bytes < _MIB
