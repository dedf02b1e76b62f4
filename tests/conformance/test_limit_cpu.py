"""limit.cpu: the whole tree together stays within its share of the processors."""

from __future__ import annotations

import time

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_CPU)

# So much processor time is needed. With a share of 15 % it takes more than six times as long as without one.
_BURN = """
import time
while time.process_time() < 0.3: pass
print('done')
"""
_BURN_TWICE = """
import os, time
children = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        while time.process_time() < 0.2: pass
        os._exit(0)
    children.append(pid)
for pid in children: os.waitpid(pid, 0)
print('done')
"""
_LIMIT = ["cpu:limit:15%"]
#: At full speed it takes as long as unconfined, give or take what else the machine does.
_FULL_SPEED = 2.5


@pytest.mark.parametrize("script", [_BURN, _BURN_TWICE], ids=["one process", "two processes"])
def test_a_busy_command_takes_no_more_than_its_share(backend: Case, stage: Stage, script: str) -> None:
    began = time.monotonic()
    unconfined: list[float] = []

    def is_quick(output: bytes) -> bool:
        """Whether the work was done at full speed, which the control has shown."""
        took = time.monotonic() - began
        if b"done" in output and not unconfined:
            unconfined.append(took)
        return b"done" in output and took < _FULL_SPEED * unconfined[0]

    def restart() -> None:
        nonlocal began
        began = time.monotonic()

    done = attempt(backend, stage, python(script), effect=is_quick, reset=restart, capabilities=_LIMIT)

    assert not done.worked
    assert b"done" in done.result.stdout_bytes
