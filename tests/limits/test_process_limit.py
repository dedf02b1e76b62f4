"""pids:limit: no more processes and threads than permitted, however they are made."""

from __future__ import annotations

import pytest

from corral.model.enforcer import RLIMIT, SUPERVISOR
from corral.model.feature import Feature
from corral.model.result import Outcome
from support.arena import HOLD_SECONDS, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.model.result import Result
    from support.arena import Arena

_LIMIT = 24
_PIDS = f"pids:limit:{_LIMIT}"

# A bomb of seven stages, so of 128 processes, and never of more. Each says that it is there, and who could
# not fork says so for all that are missing in consequence. Everyone waits for the first, who waits for all.
_BOMB = """
import os, sys, time
told, tell = os.pipe()
gate, release = os.pipe()
first = os.getpid()
for stage in range(7):
    try:
        if os.fork() == 0: open(f'born-{os.getpid()}', 'w').close()
    except OSError:
        os.write(tell, b'x' * 2 ** (6 - stage))
if os.getpid() != first:
    os.close(release)
    os.write(tell, b'.')
    os.read(gate, 1)
    os._exit(0)
heard = b''
while len(heard) < 127: heard += os.read(told, 127)
time.sleep(float(sys.argv[1]))
if b'x' in heard: sys.exit(1)
open('mark', 'w').close()
"""
_RAISED = """
import resource
for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE):
    try: resource.setrlimit(kind, (4096, 4096))
    except (OSError, ValueError): pass
    try: resource.prlimit(0, kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError): pass
"""
_THREADS = """
import sys, threading, time
is_over = threading.Event()
try:
    for _ in range(80): threading.Thread(target=is_over.wait, daemon=True).start()
    time.sleep(float(sys.argv[1]))
    open('mark', 'w').close()
except RuntimeError:
    sys.exit(1)
"""


def _hold(arena: Arena) -> str:
    """Where the launcher looks for itself, what is too much may last until it has looked."""
    return str(HOLD_SECONDS if arena.holder(Feature.LIMIT_PIDS) == SUPERVISOR else 0)


def _is_right(arena: Arena, result: Result) -> bool:
    if arena.holder(Feature.LIMIT_PIDS) == RLIMIT:  # it has no counter
        return result.outcome is Outcome.EXITED and result.exit_code == 1
    return result.outcome is Outcome.PIDS_LIMIT


@pytest.mark.parametrize("prelude", ["", _RAISED], ids=["as it is", "after raising its own limits"])
def test_a_fork_bomb_is_held(arena: Arena, work: Path, prelude: str) -> None:
    result = arena.run(python(prelude + _BOMB, _hold(arena)), _PIDS)

    assert _is_right(arena, result), (result, result.stderr)
    assert not (work / "mark").exists()
    if arena.holder(Feature.LIMIT_PIDS) != SUPERVISOR:
        assert len(list(work.glob("born-*"))) < _LIMIT


def test_a_default_holds_a_fork_bomb_or_is_on_record(arena: Arena, work: Path) -> None:
    """It is no reason to refuse a command, and never silently not there."""
    result = arena.run(python(_BOMB, "0"), f"pids:default:{_LIMIT}")

    if Feature.LIMIT_PIDS in arena.probe.enforces:
        assert _is_right(arena, result), (result, result.stderr)
        assert not (work / "mark").exists()
        assert Feature.LIMIT_PIDS in result.enforcement.enforced
    else:
        assert (work / "mark").exists()
        assert result.enforcement.unheld == ((Feature.LIMIT_PIDS, str(_LIMIT)),)


def test_without_a_limit_the_bomb_goes_off(arena: Arena, work: Path) -> None:
    result = arena.run(python(_BOMB, "0"))

    assert result.ok, result.stderr
    assert (work / "mark").exists()


def test_threads_are_held(arena: Arena, work: Path) -> None:
    result = arena.run(python(_THREADS, _hold(arena)), _PIDS)

    assert _is_right(arena, result), (result, result.stderr)
    assert not (work / "mark").exists()


def test_without_a_limit_all_threads_run(arena: Arena, work: Path) -> None:
    result = arena.run(python(_THREADS, "0"))

    assert result.ok, result.stderr
    assert (work / "mark").exists()


def test_as_many_as_permitted_are_permitted(arena: Arena) -> None:
    """The launcher's own processes do not count: the command and its children are all there are."""
    script = f"""
import os, time
gate, release = os.pipe()
for _ in range({_LIMIT - 1}):
    if os.fork() == 0:
        os.close(release); os.read(gate, 1); os._exit(0)
os.close(release)
for _ in range({_LIMIT - 1}): os.wait()
"""
    result = arena.run(python(script), _PIDS)

    assert result.ok, (result, result.stderr)
    if result.usage.peak_pids is not None:
        assert result.usage.peak_pids == _LIMIT
