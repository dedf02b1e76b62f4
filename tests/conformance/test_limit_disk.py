"""limit.disk: the private areas together stay within their size."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.result import Outcome
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_DISK)

_MIB = 1 << 20

# Fills every area, in a directory of its own, and brings what they took to the workspace, where it is seen.
# However a backend shares the limit out among them, together they take all of it and no more.
_SCRIPT = """
import os, shutil, sys, tempfile
areas = ('/tmp', '/var/tmp', '/dev/shm', os.environ['HOME'])
places = [tempfile.mkdtemp(dir=area) for area in areas]
failed = False
for place in places:
    try:
        with open(place + '/fill', 'wb', buffering=0) as file:
            for _ in range(6): file.write(bytes(1 << 20))
    except OSError: failed = True
with open('filled', 'wb') as filled:
    for place in places:
        with open(place + '/fill', 'rb') as file: filled.write(file.read())
for place in places: shutil.rmtree(place)
sys.exit(failed)
"""


def test_private_areas_hold_no_more_than_permitted(backend: Case, stage: Stage) -> None:
    filled, most = stage.work / "filled", 8 * _MIB

    done = attempt(
        backend,
        stage,
        python(_SCRIPT),
        effect=lambda _: _size(filled) > most,
        reset=filled.unlink,
        capabilities=["disk:limit:8MiB"],
    )

    assert not done.worked
    assert 0.8 * most <= _size(filled)


def test_a_command_that_fails_in_full_areas_has_met_the_limit(backend: Case, stage: Stage) -> None:
    """What counts is that they are full when it ends: it leaves the file that did not fit."""
    script = """
import os, sys, tempfile
descriptor, name = tempfile.mkstemp(dir='/tmp')
for _ in range(12):
    try: os.write(descriptor, bytes(1 << 20))
    except OSError: sys.exit(1)
os.unlink(name)
open('filled', 'w').close()
"""
    filled = stage.work / "filled"

    done = attempt(
        backend,
        stage,
        python(script),
        effect=lambda _: filled.exists(),
        reset=filled.unlink,
        capabilities=["disk:limit:8MiB"],
    )

    assert not done.worked
    assert done.result.outcome is Outcome.DISK_LIMIT


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
