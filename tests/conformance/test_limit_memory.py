"""limit.memory: the whole tree together stays within its memory."""

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

_ONE = """
held = bytearray(192 << 20)
open('mark', 'w').close()
"""
# Four children that hold 48 MiB each, at the same time; the parent learns it through a pipe.
_FOUR = """
import os
ready, tell = os.pipe(); gate, release = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.close(release)
        held = bytearray(48 << 20)
        os.write(tell, b'.')
        os.read(gate, 1)
        os._exit(0)
os.close(tell)
got = b''
while len(got) < 4:
    piece = os.read(ready, 4)
    if not piece: break
    got += piece
if len(got) == 4: open('mark', 'w').close()
"""


def test_a_process_does_not_get_more_memory_than_permitted(backend: Case, stage: Stage) -> None:
    mark = stage.work / "mark"

    done = attempt(
        backend,
        stage,
        python(_ONE),
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
        python(_FOUR),
        effect=lambda _: mark.exists(),
        reset=mark.unlink,
        capabilities=[*_LIMIT, "time:limit:20s"],
    )

    assert not done.worked
