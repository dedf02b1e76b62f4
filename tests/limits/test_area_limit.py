"""disk:limit and disk:files: the private areas together stay within their size and number of files."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.result import Outcome
from support.arena import python, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.arena import Arena

_MIB = 1 << 20

# What the areas took is brought to the workspace, where the host can look at it.
_FILL = """
for area in /tmp /dev/shm /var/tmp "$HOME"; do
    head -c 12m /dev/zero > $area/fill || failed=1
done
cat /tmp/fill /dev/shm/fill /var/tmp/fill "$HOME/fill" > filled
[ -z "$failed" ]
"""
_MANY = """
import os
try:
    for area in ('/tmp', '/dev/shm'):
        for number in range(100):
            open(f'{area}/{number}', 'w').close()
finally:
    for area in ('/tmp', '/dev/shm'):
        for name in os.listdir(area):
            if name.isdigit(): open(f'made-{area[1:4]}-{name}', 'w').close()
"""


@pytest.fixture(autouse=True)
def _areas_are_counted(arena: Arena) -> None:
    arena.needs(Feature.LIMIT_DISK)


def test_the_areas_together_hold_no_more_than_permitted(arena: Arena, work: Path) -> None:
    result = arena.run(shell(_FILL), "disk:limit:16MiB")

    assert result.outcome is Outcome.DISK_LIMIT, (result, result.stderr)
    assert 15 * _MIB < (work / "filled").stat().st_size <= 16 * _MIB


def test_without_a_limit_they_hold_more(arena: Arena, work: Path) -> None:
    result = arena.run(shell(_FILL))

    assert result.ok, result.stderr
    assert (work / "filled").stat().st_size == 48 * _MIB


def test_the_areas_together_hold_no_more_files_than_permitted(arena: Arena, work: Path) -> None:
    result = arena.run(python(_MANY), "disk:files:50")

    assert result.outcome is Outcome.DISK_LIMIT, (result, result.stderr)
    assert 40 <= len(list(work.glob("made-*"))) <= 50


def test_without_a_limit_they_hold_more_files(arena: Arena, work: Path) -> None:
    result = arena.run(python(_MANY))

    assert result.ok, result.stderr
    assert len(list(work.glob("made-*"))) == 200


def test_a_command_that_copes_with_full_areas_has_not_failed(arena: Arena) -> None:
    result = arena.run(shell("head -c 12m /dev/zero > /tmp/fill || rm /tmp/fill"), "disk:limit:4MiB")

    assert result.ok, (result, result.stderr)


@pytest.mark.parametrize("size", ["2MiB", "200MiB"])
def test_full_areas_and_full_memory_are_told_apart(arena: Arena, size: str) -> None:
    """Whichever is less is met first."""
    fill = shell("head -c 250m /dev/zero > /tmp/fill && sleep 45")
    result = arena.run(fill, "memory:limit:64MiB", f"disk:limit:{size}")

    assert result.outcome is (Outcome.DISK_LIMIT if size == "2MiB" else Outcome.OUT_OF_MEMORY)
