"""Sandbox.watch: samples while it runs, the result afterwards, and an end for whoever leaves."""

from __future__ import annotations

import itertools

import pytest

from corral.model.errors import SetupError
from corral.model.result import Outcome
from support.arena import python, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.arena import Arena
    from support.gates import Gate

_MIB = 1 << 20
# It takes more when it is told to, so that no sample can come too late.
_GROW = """
import os, time
held = []
for number in range(3):
    held.append(bytearray(20 << 20))
    while not os.path.exists(f'go-{number}'): time.sleep(0.005)
"""
#: Without a group the kernel tells in ticks, which are rounded for each process.
_TICKS_SECONDS = 0.025
_STAY = "exec 9>gate; setsid sleep 600 & touch here; sleep 600"


def test_memory_grows_from_sample_to_sample(arena: Arena, work: Path) -> None:
    seen: list[int] = []
    with arena.sandbox("memory:limit:256MiB").watch(python(_GROW), every=0.01) as watch:
        for sample in watch:
            assert sample.memory_bytes is not None
            if len(seen) < 3 and sample.memory_bytes > (len(seen) + 1) * 20 * _MIB:
                seen.append(sample.memory_bytes)
                (work / f"go-{len(seen) - 1}").touch()
        result = watch.result()

    assert len(seen) == 3
    assert seen == sorted(seen)
    assert max(seen) < 160 * _MIB
    assert result.ok, result.stderr


def test_samples_come_in_order_and_tell_what_is_spent(arena: Arena) -> None:
    script = "import time\nwhile time.process_time() < 0.4: pass"
    with arena.sandbox().watch(python(script), every=0.02) as watch:
        samples = list(watch)

    walls = [sample.wall_seconds for sample in samples]
    spent = [sample.cpu_seconds for sample in samples]
    assert samples
    assert walls == sorted(set(walls))
    assert all(later > earlier - _TICKS_SECONDS for earlier, later in itertools.pairwise(spent))
    assert 0.2 < spent[-1] <= watch.result().usage.cpu_seconds + 0.05
    assert {sample.pids for sample in samples} <= {0, 1, 2}  # it may be looked at before or after its time
    assert list(watch) == []


def test_who_leaves_ends_the_run(arena: Arena, work: Path, gate: Gate) -> None:
    with arena.sandbox().watch(shell(_STAY), every=0.01) as watch:
        next(sample for sample in watch if (work / "here").exists())

    assert gate.is_left()
    assert watch.result().outcome is Outcome.SIGNALLED


def test_who_leaves_by_an_error_ends_the_run(arena: Arena, work: Path, gate: Gate) -> None:
    sandbox = arena.sandbox()
    with pytest.raises(LookupError), sandbox.watch(shell(_STAY), every=0.01) as watch:
        next(sample for sample in watch if (work / "here").exists())
        raise LookupError

    assert gate.is_left()


def test_a_run_that_exceeds_its_limit_ends_the_samples(arena: Arena) -> None:
    script = "import time; held = bytearray(200 << 20); time.sleep(45)"
    with arena.sandbox("memory:limit:64MiB").watch(python(script), every=0.01) as watch:
        samples = list(itertools.islice(watch, 3000))

    assert watch.result().outcome is Outcome.OUT_OF_MEMORY
    assert len(samples) < 3000


def test_what_run_would_raise_is_raised_by_the_result(arena: Arena) -> None:
    with arena.sandbox().watch(["/no/such/command"], every=0.01) as watch:
        with pytest.raises(SetupError) as raised:
            watch.result()

    assert raised.value.code == "exec"


def test_what_the_stream_raises_is_raised_by_the_result(arena: Arena, gate: Gate) -> None:
    def refuse(name: str, data: bytes) -> None:
        raise LookupError(name)

    script = shell("exec 9>gate; echo something; sleep 600")
    with arena.sandbox().watch(script, every=0.01, stream=refuse) as watch, pytest.raises(LookupError):
        watch.result()

    assert gate.is_left()
