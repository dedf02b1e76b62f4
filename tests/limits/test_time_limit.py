"""time:limit: the run ends when its time is over, whatever its processes do about it."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from corral.model.result import Outcome
from support.arena import HOLD_SECONDS, python, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.arena import Arena
    from support.gates import Gate

_LIMIT = "time:limit:300ms"
_HELD_GATE = "exec 9>gate\n"
_WAIT = f"sleep {HOLD_SECONDS}; touch mark"

_POLITE = _HELD_GATE + _WAIT
_DEAF = _HELD_GATE + f"trap '' TERM HUP INT\n{_WAIT}"
_STOPPED = _HELD_GATE + f"kill -STOP $$\n{_WAIT}"
_STOPPED_CHILD = _HELD_GATE + f"sh -c 'trap \"\" TERM; kill -STOP $$; {_WAIT}' & wait; {_WAIT}"
# Two forks and a session of its own: no parent, no terminal and no group lead to it.
_DAEMON = """
import os, sys, time
held = open('gate', 'w')
told, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open('daemon', 'w') as file: file.write(str(os.getpid()))
        os.write(tell, b'.')
        time.sleep(45)
        open('mark', 'w').close()
    os._exit(0)
os.wait()
os.read(told, 1)
time.sleep(float(sys.argv[1]))
"""


def test_a_polite_command_is_ended(arena: Arena, work: Path, gate: Gate) -> None:
    result = arena.run(shell(_POLITE), _LIMIT)

    assert result.outcome is Outcome.TIMED_OUT
    assert result.duration_seconds >= 0.3
    assert gate.is_left()
    assert not (work / "mark").exists()


@pytest.mark.parametrize(
    "script",
    [_DEAF, _STOPPED, _STOPPED_CHILD],
    ids=["ignores the polite signal", "has stopped itself", "has a child that did both"],
)
def test_an_impolite_command_is_ended_too(arena: Arena, work: Path, gate: Gate, script: str) -> None:
    result = arena.run(shell(script), _LIMIT)

    assert result.outcome is Outcome.TIMED_OUT
    assert gate.is_left()
    assert not (work / "mark").exists()


def test_without_a_limit_it_runs_on(arena: Arena, gate: Gate) -> None:
    """It is ended by whoever started it, since nobody else does."""
    with arena.sandbox().watch(shell(_POLITE), every=0.02) as watch:
        for sample in watch:
            if sample.wall_seconds > 0.6:
                break
        lived = sample.wall_seconds > 0.6 and not gate.is_left(0)

    assert lived
    assert gate.is_left()


@pytest.mark.parametrize("seconds", ["0", str(HOLD_SECONDS)], ids=["after its end", "when the time is over"])
def test_a_daemon_does_not_outlive_the_run(arena: Arena, work: Path, gate: Gate, seconds: str) -> None:
    result = arena.run(python(_DAEMON, seconds), _LIMIT.replace("300ms", "1s"))

    assert result.outcome is (Outcome.EXITED if seconds == "0" else Outcome.TIMED_OUT)
    assert gate.is_left()
    assert not (work / "mark").exists()


def test_a_daemon_that_nobody_holds_lives_on(work: Path, gate: Gate) -> None:
    subprocess.run(python(_DAEMON, "0"), cwd=work, check=True)

    lives_on = not gate.is_left(0)
    os.kill(int((work / "daemon").read_text()), signal.SIGKILL)

    assert lives_on
    assert gate.is_left()
