"""An instance of a module: linked to what it may call, bounded, and called."""

from __future__ import annotations

import json

from corral.model.feature import Feature
from corral.model.record import Record
from corral.model.violation import Evidence
from corral.wasi.imports import define_wasi
from corral.wasi.loading import bad_module, check_imports, compile_module, read_module, to_binary
from corral.wasi.machine import (
    LimitReached,
    ModuleMeter,
    Ticker,
    attach,
    import_wasmtime,
    make_engine,
    make_store,
)
from corral.wasi.process import ProcessCalls
from corral.wasi.tree import Tree, TreeChanged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from corral.wasi.task import Task
    from corral.wasi.tree import ModuleRefusal

    #: (module, name) of an import -> what is called for it.
    Offers = Mapping[tuple[str, str], Callable[..., Any]]

_START = "_start"
#: A module that fails with this much of its memory in use has probably asked for more in vain.
_NEARLY_ALL = 0.9


class Prepared(Record):
    """A compiled module, with its engine and what makes time pass for it."""

    engine: Any
    module: Any
    ticker: Any
    name: str


def prepare(task: Task, binary: bytes | None = None, name: str = "") -> Prepared:
    """Compile the module of a task. Raises PolicyError or SetupError."""
    name = name or task.module
    if binary is None:
        binary = to_binary(read_module(task.module), name)
    has_fuel, is_repeatable = task.bounds.fuel is not None, task.seed is not None
    engine = make_engine(has_fuel=has_fuel, is_repeatable=is_repeatable)
    key = f"fuel={has_fuel} repeatable={is_repeatable}"
    return Prepared(engine, compile_module(engine, binary, name, task.cache, key), Ticker(engine), name)


class ModuleInstance:
    """Runs in one thread. `report` is told at once of what is refused."""

    def __init__(
        self,
        task: Task,
        prepared: Prepared,
        meter: ModuleMeter,
        *,
        report: Callable[[ModuleRefusal], None],
        offers: Offers | None = None,
    ) -> None:
        check_imports(prepared.module, prepared.name, (offers or {}).keys())
        self._task, self._prepared, self._meter = task, prepared, meter
        self._report, self._offers = report, offers or {}
        self._wasmtime = import_wasmtime()
        self._store: Any = None
        self._instance: Any = None
        self._exports: dict[str, Any] = {}  # to look them up takes longer than to call them
        self._calls: ProcessCalls | None = None

    def start(self, write_stream: Callable[[int, bytes], int] | None = None) -> None:
        """Link it, and run what it begins with. Raises PolicyError, LimitReached, or what a call raises."""
        wasmtime = import_wasmtime()
        self._store = make_store(self._prepared.engine, self._task.bounds)
        attach(self._store, self._meter)
        try:
            tree = Tree(self._task.places, self._task.held, self._task.links)
        except (OSError, TreeChanged) as problem:
            raise bad_module(
                "path-changed", "a granted path is not what it was", str(problem), "run it again"
            ) from problem
        self._calls = ProcessCalls(self._task, tree, self._meter.wait)
        if write_stream is not None:
            self._calls.keep_streams(write_stream)
        linker = wasmtime.Linker(self._prepared.engine)
        define_wasi(linker, self._calls, self._report, self._prepared.module.imports)
        for each in self._prepared.module.imports:
            offer = self._offers.get((each.module, each.name))
            if offer is not None:
                linker.define_func(each.module, each.name, each.type, offer, True)
        try:
            self._instance = self._bounded(lambda: linker.instantiate(self._store, self._prepared.module))
            self._exports = dict(self._instance.exports(self._store))
        except wasmtime.WasmtimeError as problem:
            raise bad_module(
                "module-limits",
                f"{self._prepared.name} cannot be set up within its limits",
                str(problem).strip().splitlines()[-1].strip()[:300],
                "raise memory:limit, or build the module with a smaller memory or table",
            ) from problem

    def command(self, write_stream: Callable[[int, bytes], int] | None = None) -> Callable[[], None]:
        """What runs a WASI command from its beginning to its end. Raises PolicyError if it is none."""
        exports = {each.name: each.type for each in self._prepared.module.exports}
        if not isinstance(exports.get(_START), import_wasmtime().FuncType):
            raise bad_module(
                "module-export",
                f"{self._prepared.name} is not a command",
                f"it has no function {_START}; it exports {', '.join(exports) or 'nothing'}",
                "build it as a command, or call one of its functions: corral module call",
            )

        def run() -> None:
            self.start(write_stream)
            self.call(_START)

        return run

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function that it exports. Raises LimitReached, wasmtime's Trap, or what the host raised."""
        function = self._exports[name]
        return self._bounded(lambda: function(self._store, *arguments))

    def _bounded(self, action: Callable[[], Any]) -> Any:
        self._store.set_epoch_deadline(1)
        wasmtime = self._wasmtime
        try:
            return action()
        except wasmtime.WasmtimeError as problem:
            if self._meter.reached:
                raise LimitReached(self._meter.reached) from problem
            raise
        except wasmtime.Trap as trap:
            if trap.trap_code is wasmtime.TrapCode.OUT_OF_FUEL:
                raise LimitReached("fuel") from trap
            raise

    def fuel_left(self) -> int | None:
        """How much fuel it has left, if it runs on fuel."""
        return None if self._task.bounds.fuel is None else int(self._store.get_fuel())

    def memory_bytes(self) -> int:
        """The size of its memory, as far as it is exported."""
        if self._instance is None:
            return 0
        memory: Any = self._exports.get("memory")
        return int(memory.data_len(self._store)) if hasattr(memory, "data_len") else 0

    def suspicions(self) -> tuple[str, ...]:
        """For a module that failed: what may have been the reason, as a line of the status pipe."""
        most, used = self._task.bounds.memory_bytes, self.memory_bytes()
        if most is None or used < most * _NEARLY_ALL:
            return ()
        detail = f"it failed with {used} of {most} bytes in use"
        told = (Feature.LIMIT_MEMORY.value, "the command", detail, "", Evidence.INFERRED.value)
        return (f"violation {json.dumps(told)}",)

    def explain_trap(self, message: str) -> str:
        """What to print for a trap: wasmtime's words with the names of functions."""
        lines = [line for line in message.splitlines() if line.strip()]
        return "".join(f"corral: {line}\n" for line in lines[:64])

    def close(self) -> None:
        """Close its files; it cannot be called any more."""
        if self._calls is not None:
            self._calls.handles.close_all()
            self._calls.tree.close()
            self._calls = None
