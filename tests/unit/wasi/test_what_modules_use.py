"""Limits of a module, its clocks and its random numbers; and how it ends."""

from __future__ import annotations

import pytest

from corral.wasi.guest_memory import GuestMemory, MemoryFault
from support.module_runs import ModuleBounds, run_tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("wasmtime")


def test_a_loop_ends_when_its_time_is_over(tmp_path: Path) -> None:
    assert run_tool(("i",), tmp_path, bounds=ModuleBounds(wall_seconds=0.05)).limit == "wall"


def test_a_loop_ends_when_its_processor_time_is_used_up(tmp_path: Path) -> None:
    assert run_tool(("i",), tmp_path, bounds=ModuleBounds(cpu_seconds=0.05)).limit == "cpu-time"


def test_a_sleep_ends_when_its_time_is_over(tmp_path: Path) -> None:
    assert run_tool(("z",), tmp_path, bounds=ModuleBounds(wall_seconds=0.05)).limit == "wall"


def test_fuel_ends_a_loop_after_the_same_work_each_time(tmp_path: Path) -> None:
    assert run_tool(("i",), tmp_path, bounds=ModuleBounds(fuel=100_000)).limit == "fuel"


def test_a_share_of_a_processor_makes_it_wait(tmp_path: Path) -> None:
    """Half of one: by the time it has used 0.1 s of it, 0.2 s are over."""
    import time

    began = time.monotonic()
    done = run_tool(("i",), tmp_path, bounds=ModuleBounds(cpu_seconds=0.1, cpus=0.5))

    assert done.limit == "cpu-time" and time.monotonic() - began >= 0.19


@pytest.mark.parametrize("pages", [5, 16, 40])
def test_memory_is_exact_to_the_page(pages: int, tmp_path: Path) -> None:
    done = run_tool(("g",), tmp_path, bounds=ModuleBounds(memory_bytes=pages * 65_536 + 65_535))

    assert done.output == bytes((ord("A") + pages,))


def test_recursion_ends_in_a_trap(tmp_path: Path) -> None:
    assert "call stack exhausted" in run_tool(("R",), tmp_path).trap


def test_a_trap_names_the_functions_it_was_in(tmp_path: Path) -> None:
    trap = run_tool(("x",), tmp_path).trap

    assert "tool!fall_over" in trap and "tool!inner" in trap


def test_a_seed_and_a_frozen_clock_make_a_run_repeatable(tmp_path: Path) -> None:
    runs = [run_tool(("c",), tmp_path, seed=7, clock="frozen").output for _ in range(2)]

    assert runs[0] == runs[1] and len(runs[0]) == 24
    assert run_tool(("c",), tmp_path, seed=8, clock="frozen").output[:16] != runs[0][:16]
    assert run_tool(("c",), tmp_path).output != runs[0]


def test_only_given_variables_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "value")

    assert run_tool(("e",), tmp_path, environment=(("SEEN", "yes"),)).output == b"SEEN=yes\0"


def test_there_are_no_sockets_and_asking_is_told(tmp_path: Path) -> None:
    done = run_tool(("N",), tmp_path)

    assert done.status == 58 and done.features == ["net.none"]


class _Memory:
    """A memory of two pages that is not there: nothing may be read or written."""

    def data_ptr(self, _store: object) -> int:
        return 0

    def data_len(self, _store: object) -> int:
        return 131_072


@pytest.mark.parametrize(
    ("pointer", "length"),
    [(131_072, 1), (131_071, 2), (-1, 1), (-1, 2), (0, 131_073), (0xFFFF_FFFF, 0xFFFF_FFFF), (0, -1)],
)
def test_no_address_outside_of_its_memory_is_used(pointer: int, length: int) -> None:
    memory = GuestMemory(_Memory(), None)

    with pytest.raises(MemoryFault):
        memory.read(pointer, length)
    if length >= 0 and length < 1 << 20:
        with pytest.raises(MemoryFault):
            memory.write(pointer, b"x" * length)
