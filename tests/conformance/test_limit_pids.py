"""limit.pids: all processes together stay within their number."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_PIDS)

_LIMIT = ["pids:limit:12"]

# Never more than forty, which all end when their parent does: no bomb, even where nothing holds it. Whoever
# looks only now and then has a moment to find too many; then nobody is left who could make the mark.
_FORK = """
import os, time
gate, release = os.pipe()
for number in range(40):
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        os.close(release)
        {child}
        os.read(gate, 1)
        os._exit(0)
    open(f'child-{{number}}', 'w').close()
else:
    time.sleep({seconds})
    open('mark', 'w').close()
"""
_LOOK_SECONDS = 2


@pytest.mark.parametrize("child", ["pass", "os.setsid()"], ids=["one session", "sessions of their own"])
def test_no_more_processes_run_than_permitted(backend: Case, stage: Stage, child: str) -> None:
    """Each process that could be started has left a file, and the mark says that there were too many."""
    mark = stage.work / "mark"

    def count() -> int:
        return len(list(stage.work.glob("child-*")))

    def reset() -> None:
        for path in (mark, *stage.work.glob("child-*")):
            path.unlink()

    done = attempt(
        backend,
        stage,
        python(_FORK.format(child=child, seconds=_LOOK_SECONDS)),
        control=python(_FORK.format(child=child, seconds=0)),
        effect=lambda _: mark.exists(),
        reset=reset,
        capabilities=_LIMIT,
    )

    assert not done.worked
    assert count() > 0
