"""Run modules in this process: what they may do is said by a task, and judged on the host."""

from __future__ import annotations

import os
from pathlib import Path

import corral.selftest
from corral.wasi.instance import ModuleInstance, prepare
from corral.wasi.machine import LimitReached, ModuleMeter
from corral.wasi.process import ModuleExit
from corral.wasi.task import READ, WRITE, GuestPlace, HeldPaths, ModuleBounds, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.wasi.tree import RefusedCall

TOOL = Path(corral.selftest.__file__).parent / "tool.wat"
NOTHING_HELD, UNBOUNDED = HeldPaths(), ModuleBounds()
_prepared: dict[tuple[object, ...], object] = {}


class Ended:
    """What became of a module."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.limit = ""
        self.trap = ""
        self.output = b""
        self.refused: list[RefusedCall] = []

    @property
    def features(self) -> list[str]:
        return [refusal.feature.value for refusal in self.refused]


def place(directory: Path, access: str = WRITE, path: str = "") -> GuestPlace:
    """A directory of the host, under its own name or another one."""
    return GuestPlace(path or str(directory), str(directory), access)


def run_tool(
    words: tuple[str, ...],
    work: Path,
    *,
    places: tuple[GuestPlace, ...] | None = None,
    held: HeldPaths = NOTHING_HELD,
    bounds: ModuleBounds = UNBOUNDED,
    **task: object,
) -> Ended:
    """The module for tests with these words, in a directory that is writable unless places say otherwise."""
    made = Task(
        module=str(TOOL),
        arguments=("tool", *words),
        places=(place(work),) if places is None else places,
        held=held,
        directory=str(work),
        bounds=bounds,
        **task,
    )
    key = (bounds.fuel is not None, made.seed is not None)
    if key not in _prepared:
        _prepared[key] = prepare(made)
    prepared, ended = _prepared[key], Ended()
    instance = ModuleInstance(made, prepared, ModuleMeter(bounds), report=ended.refused.append)

    def take(_stream: int, data: bytes) -> int:
        ended.output += data
        return len(data)

    try:
        with prepared.ticker.ticking():
            instance.start(take)
            instance.call("_start")
        ended.status = 0
    except ModuleExit as left:
        ended.status = left.status
    except LimitReached as reached:
        ended.limit = reached.limit
    except Exception as trap:
        ended.trap = str(trap)
    finally:
        instance.close()
    if not ended.output.startswith(b"alive\n"):
        raise RuntimeError(f"the module never ran: {ended.trap or ended.status}")
    ended.output = ended.output.removeprefix(b"alive\n")
    return ended


def run_unconfined(words: tuple[str, ...], work: Path, root: Path) -> bytes:
    """The control: the same module with wasmtime's own functions, and a wider directory to write in."""
    import wasmtime

    engine = wasmtime.Engine()
    linker, store, wasi = wasmtime.Linker(engine), wasmtime.Store(engine), wasmtime.WasiConfig()
    linker.define_wasi()
    wasi.argv = ["tool", *words]
    wasi.preopen_dir(str(root), ".")
    printed = bytearray()
    wasi.stdout_custom = lambda data: printed.extend(data)
    store.set_wasi(wasi)
    here = os.getcwd()
    os.chdir(work)
    try:
        instance = linker.instantiate(store, wasmtime.Module(engine, TOOL.read_text()))
        instance.exports(store)["_start"](store)
    except wasmtime.ExitTrap:
        pass
    finally:
        os.chdir(here)
    return bytes(printed)


__all__ = [
    "READ",
    "TOOL",
    "WRITE",
    "Ended",
    "HeldPaths",
    "ModuleBounds",
    "place",
    "run_tool",
    "run_unconfined",
]
