"""limit.cpu-time: all processes together stay within their processor time."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.result import Outcome
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_CPU_TIME)

# More than an interpreter needs to start on a slow machine; less than a third of what is burnt. The control
# burns next to nothing: that nobody stops the whole of it unconfined is what the leaky backend shows.
_LIMIT = ["cpu:time:600ms"]
_BURNT_SECONDS, _CONTROL_SECONDS = 2.0, 0.1

_ONE = """
import time
while time.process_time() < {seconds}: pass
open('mark', 'w').close()
"""
# None of them has too much for itself, not even those that come one after the other.
_TOGETHER = """
import os, time
def burn():
    while time.process_time() < {seconds} / 8: pass
    os._exit(0)
for _ in range(8):
    if os.fork() == 0: burn()
    if os.wait()[1] != 0: os._exit(1)
open('mark', 'w').close()
"""
_DEAF = """
import signal, time
for number in (signal.SIGTERM, signal.SIGXCPU, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
while time.process_time() < {seconds}: pass
open('mark', 'w').close()
"""


@pytest.mark.parametrize("script", [_ONE, _TOGETHER, _DEAF], ids=["one process", "many", "one that is deaf"])
def test_a_tree_is_ended_when_its_processor_time_is_over(backend: Case, stage: Stage, script: str) -> None:
    mark = stage.work / "mark"

    done = attempt(
        backend,
        stage,
        python(script.format(seconds=_BURNT_SECONDS)),
        control=python(script.format(seconds=_CONTROL_SECONDS)),
        effect=lambda _: mark.exists(),
        reset=mark.unlink,
        capabilities=_LIMIT,
    )

    assert not done.worked
    assert done.result.outcome is Outcome.CPU_LIMIT
