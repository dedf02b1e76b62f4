"""limit.cpu: all processes together stay within their share of the processors."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python
from support.spinning import MOST_SHARE, PLENTY_SHARE, SHARE, SPIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_CPU)

# Processor time over time that has passed, both measured inside: a machine with other work to do makes both
# legs slower, but lets nobody have more than his share.
_CHILDREN = f"import sys\nsys.argv = ['', '4']\n{SPIN}"
_DAEMON = f"""
import os, sys
sys.argv = ['', '4']
told, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.dup2(tell, 1)
        exec({SPIN!r})
        sys.stdout.flush()
    os._exit(0)
os.close(tell)
os.wait()
print(os.read(told, 100).decode())
"""


@pytest.mark.parametrize("script", [_CHILDREN, _DAEMON], ids=["children", "daemons"])
def test_a_busy_tree_takes_no_more_than_its_share(backend: Case, stage: Stage, script: str) -> None:
    done = attempt(
        backend,
        stage,
        python(script),
        effect=lambda output: _share(output) > MOST_SHARE,
        capabilities=[SHARE],
    )

    assert not done.worked
    assert 0 < _share(done.result.stdout_bytes) < MOST_SHARE < PLENTY_SHARE


def _share(output: bytes) -> float:
    """What the script says last, of itself; nothing if it says nothing."""
    words = output.split()[1:]
    return float(words[-1]) if words else 0.0
