"""memory:limit: the whole tree stays within its memory, in whatever portions it is taken."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.result import Outcome
from support.arena import HOLD_SECONDS, python, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.arena import Arena

_MIB = 1 << 20
_LIMIT = "memory:limit:64MiB"

# Whoever has more than permitted holds on to it until he is found, and would leave a mark in the end.
_ONE = """
import sys, time
held = bytearray(160 << 20)
time.sleep(float(sys.argv[1]))
open('mark', 'w').close()
"""
# When all have their share, each is asked whether it is still there: one that was ended to make room for
# another cannot answer.
_MANY = """
import os, sys, time
children = []
for _ in range(12):
    (asked, ask), (told, tell) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(ask)
        for earlier, _ in children: os.close(earlier)
        held = bytearray(20 << 20)
        os.write(tell, b'.')
        os.read(asked, 1)
        os.write(tell, b'.')
        os._exit(0)
    os.close(asked); os.close(tell)
    children.append((ask, told))
have = [os.read(told, 1) for _, told in children]
time.sleep(float(sys.argv[1]) if all(have) else 0)
for ask, _ in children:
    try: os.write(ask, b'?')
    except BrokenPipeError: pass
if not all(have) or not all([os.read(told, 1) for _, told in children]): sys.exit(1)
open('mark', 'w').close()
"""
_FILL = "head -c 160m /dev/zero > {area}/fill && sleep $1 && touch mark"


def _hold(arena: Arena) -> str:
    return "0" if arena.is_grouped else str(HOLD_SECONDS)


@pytest.mark.parametrize("script", [_ONE, _MANY], ids=["one process", "many small ones"])
def test_processes_do_not_get_more_than_permitted(arena: Arena, work: Path, script: str) -> None:
    result = arena.run(python(script, _hold(arena)), _LIMIT)

    assert result.outcome is Outcome.OUT_OF_MEMORY, (result, result.stderr)
    assert not (work / "mark").exists()
    if arena.is_grouped:
        assert result.usage.peak_memory_bytes <= 64 * _MIB


@pytest.mark.parametrize("script", [_ONE, _MANY], ids=["one process", "many small ones"])
def test_without_a_limit_they_get_it(arena: Arena, work: Path, script: str) -> None:
    result = arena.run(python(script, "0"))

    assert result.ok, result.stderr
    assert (work / "mark").exists()


@pytest.mark.parametrize("area", ["/tmp", "/dev/shm", "$HOME"])
def test_files_in_private_areas_are_memory(arena: Arena, work: Path, area: str) -> None:
    arena.needs(Feature.LIMIT_DISK)  # else the areas are on a disk
    result = arena.run(shell(_FILL.format(area=area), _hold(arena)), _LIMIT)

    assert result.outcome is Outcome.OUT_OF_MEMORY, (result, result.stderr)
    assert not (work / "mark").exists()


@pytest.mark.parametrize("area", ["/tmp", "/dev/shm", "$HOME"])
def test_without_a_limit_the_areas_take_it(arena: Arena, work: Path, area: str) -> None:
    arena.needs(Feature.LIMIT_DISK)
    result = arena.run(shell(_FILL.format(area=area), "0"))

    assert result.ok, result.stderr
    assert (work / "mark").exists()


def test_as_much_as_permitted_is_permitted(arena: Arena) -> None:
    result = arena.run(python("held = bytearray(100 << 20)"), "memory:limit:160MiB")

    assert result.ok, (result, result.stderr)
