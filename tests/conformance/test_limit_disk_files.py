"""limit.disk-files: the private areas together stay within their number of files."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_DISK_FILES)

# Fills every area, in a directory of its own, and tells by the size of a file how many files there were.
# However a backend shares the limit out among them, together they take all of it and no more.
_SCRIPT = """
import os, shutil, sys, tempfile
areas = ('/tmp', '/var/tmp', '/dev/shm', os.environ['HOME'])
places = [tempfile.mkdtemp(dir=area) for area in areas]
failed = False
for place in places:
    try:
        for number in range(60): open(f'{place}/{number}', 'w').close()
    except OSError: failed = True
with open('filled', 'w') as filled:
    for place in places: filled.write('.' * len(os.listdir(place)))
for place in places: shutil.rmtree(place)
sys.exit(failed)
"""


def test_private_areas_hold_no_more_files_than_permitted(backend: Case, stage: Stage) -> None:
    filled, most = stage.work / "filled", 80

    done = attempt(
        backend,
        stage,
        python(_SCRIPT),
        effect=lambda _: filled.exists() and filled.stat().st_size > most,
        reset=filled.unlink,
        capabilities=["disk:files:80"],
    )

    assert not done.worked
    assert 0.8 * most <= filled.stat().st_size


def test_directories_count_as_well(backend: Case, stage: Stage) -> None:
    made = stage.work / "made"
    script = """
import os, tempfile
place, depth = tempfile.mkdtemp(), 0
try:
    for depth in range(200):
        os.mkdir(f'{place}/{depth}')
except OSError: pass
with open('made', 'w') as made: made.write('.' * len(os.listdir(place)))
for name in os.listdir(place): os.rmdir(f'{place}/{name}')
os.rmdir(place)
"""

    done = attempt(
        backend,
        stage,
        python(script),
        effect=lambda _: made.exists() and made.stat().st_size > 80,
        reset=made.unlink,
        capabilities=["disk:files:80"],
    )

    assert not done.worked
