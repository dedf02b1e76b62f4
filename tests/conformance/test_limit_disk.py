"""limit.disk: the private areas together stay within their size and number of files."""

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

# Fills two areas, in a directory of its own, and brings what they took to the workspace, where it is seen.
_BEGIN = """
import os, shutil, sys, tempfile
places = [tempfile.mkdtemp(dir=area) for area in ('/tmp', '/dev/shm')]
failed = False
"""
_END = """
for place in places: shutil.rmtree(place)
sys.exit(failed)
"""
_SIZE = f"""{_BEGIN}
for place in places:
    try:
        with open(place + '/fill', 'wb', buffering=0) as file:
            for _ in range(6): file.write(bytes(1 << 20))
    except OSError: failed = True
with open('filled', 'wb') as filled:
    for place in places:
        with open(place + '/fill', 'rb') as file: filled.write(file.read())
{_END}"""
_FILES = f"""{_BEGIN}
for place in places:
    try:
        for number in range(60): open(f'{{place}}/{{number}}', 'w').close()
    except OSError: failed = True
with open('filled', 'w') as filled:
    for place in places: filled.write('.' * len(os.listdir(place)))
{_END}"""


@pytest.mark.parametrize(
    ("script", "limit", "most"),
    [(_SIZE, "disk:limit:8MiB", 8 * _MIB), (_FILES, "disk:files:80", 80)],
    ids=["size", "number of files"],
)
def test_private_areas_hold_no_more_than_permitted(
    backend: Case, stage: Stage, script: str, limit: str, most: int
) -> None:
    filled = stage.work / "filled"

    done = attempt(
        backend,
        stage,
        python(script),
        effect=lambda _: _size(filled) > most,
        reset=filled.unlink,
        capabilities=[limit],
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
