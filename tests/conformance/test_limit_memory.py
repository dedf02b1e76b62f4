"""limit.memory: all processes together stay within their memory."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.result import Outcome
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_MEMORY)

_LIMIT = ["memory:limit:96MiB"]
_LOOK_SECONDS = 2

# Whoever looks only now and then has a moment to find too much; then nobody is left who could make the mark.
_ONE = """
import time
held = bytearray(192 << 20)
time.sleep({seconds})
open('mark', 'w').close()
"""
# Four children that hold 48 MiB each. When all have it, each is asked whether it is still there: one that the
# kernel ended to make room for another has said that it had it, and cannot answer.
_FOUR = """
import os, time
children = []
for _ in range(4):
    (asked, ask), (told, tell) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(ask)
        for earlier, _ in children: os.close(earlier)
        held = bytearray(48 << 20)
        os.write(tell, b'.')
        os.read(asked, 1)
        os.write(tell, b'.')
        os.read(asked, 1)
        os._exit(0)
    os.close(asked); os.close(tell)
    children.append((ask, told))
have = [os.read(told, 1) for _, told in children]
if all(have): time.sleep({seconds})
for ask, _ in children:
    try: os.write(ask, b'?')
    except BrokenPipeError: pass
if all(have) and all([os.read(told, 1) for _, told in children]):
    open('mark', 'w').close()
"""


def test_a_process_does_not_get_more_memory_than_permitted(backend: Case, stage: Stage) -> None:
    mark = stage.work / "mark"

    done = attempt(
        backend,
        stage,
        python(_ONE.format(seconds=_LOOK_SECONDS)),
        control=python(_ONE.format(seconds=0)),
        effect=lambda _: mark.exists(),
        reset=mark.unlink,
        capabilities=_LIMIT,
    )

    assert not done.worked
    assert done.result.outcome is Outcome.OUT_OF_MEMORY


def test_processes_together_do_not_get_more_memory_than_permitted(backend: Case, stage: Stage) -> None:
    mark = stage.work / "mark"

    done = attempt(
        backend,
        stage,
        python(_FOUR.format(seconds=_LOOK_SECONDS)),
        control=python(_FOUR.format(seconds=0)),
        effect=lambda _: mark.exists(),
        reset=mark.unlink,
        capabilities=_LIMIT,
    )

    assert not done.worked
