"""cpu:limit and cpu:time: the whole tree stays within its share, and within its time.

Shares have an upper bound only: on a machine with other work to do nobody gets what he may have.
"""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.result import Outcome
from support.arena import python
from support.spinning import MOST_SHARE, PLENTY_SHARE, SHARE, SPIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.arena import Arena

_SPINNERS = "4"
_TIME = "cpu:time:800ms"
# Its children need so much processor time each, and the mark is made when all have had it.
_BURN = """
import os, sys, time
for _ in range(4):
    if os.fork() == 0:
        while time.process_time() < 0.5: pass
        os._exit(0)
if all([os.wait()[1] == 0 for _ in range(4)]): open('mark', 'w').close()
"""
_BURN_UNSEEN = f"""
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        exec({_BURN!r})
        os._exit(0)
    os._exit(0)
import time
time.sleep(45)
"""
_SLEEP = """
import time
began = time.monotonic()
time.sleep(0.5)
print(time.monotonic() - began)
"""


@pytest.mark.parametrize("spinners", ["1", _SPINNERS], ids=["one process", "several"])
def test_a_busy_tree_takes_no_more_than_its_share(arena: Arena, spinners: str) -> None:
    result = arena.run(python(SPIN, spinners), SHARE)

    assert result.ok, result.stderr
    assert float(result.stdout) < MOST_SHARE
    if arena.is_grouped:  # without a group what init did counts as well, and init itself is never stopped
        assert result.usage.cpu_seconds / result.usage.wall_seconds < MOST_SHARE


def test_without_a_limit_it_takes_more(arena: Arena) -> None:
    arena.needs(Feature.LIMIT_CPU)
    result = arena.run(python(SPIN, _SPINNERS))

    assert float(result.stdout) > PLENTY_SHARE


def test_a_sleeping_command_is_neither_slow_nor_busy(arena: Arena) -> None:
    result = arena.run(python(_SLEEP), SHARE)

    assert result.ok, result.stderr
    assert 0.5 <= float(result.stdout) < 5
    assert result.usage.wall_seconds < 20
    assert result.usage.cpu_seconds < 1.0


@pytest.mark.parametrize("script", [_BURN, _BURN_UNSEEN], ids=["in the open", "as a daemon"])
def test_a_tree_is_ended_when_its_processor_time_is_over(arena: Arena, work: Path, script: str) -> None:
    result = arena.run(python(script), _TIME)

    assert result.outcome is Outcome.CPU_LIMIT, (result, result.stderr)
    assert not (work / "mark").exists()
    assert result.usage.cpu_seconds < 1.3


def test_without_a_limit_it_has_its_time(arena: Arena, work: Path) -> None:
    arena.needs(Feature.LIMIT_CPU_TIME)
    result = arena.run(python(_BURN))

    assert result.ok, result.stderr
    assert (work / "mark").exists()
    assert result.usage.cpu_seconds >= 1.8


def test_time_that_is_slept_away_does_not_count(arena: Arena) -> None:
    result = arena.run(python(_SLEEP), _TIME)

    assert result.ok, (result, result.stderr)
