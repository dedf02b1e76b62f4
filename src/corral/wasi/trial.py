"""Try the machine: a module that never ends must end, and one that wants too much memory must not get it."""

from __future__ import annotations

from corral.wasi.instance import ModuleInstance, prepare
from corral.wasi.machine import LimitReached, ModuleMeter, import_wasmtime, wasmtime_version
from corral.wasi.task import ModuleBounds, Task

_MODULE = b"""(module (memory (export "memory") 1)
  (func (export "spin") (loop $again (br $again)))
  (func (export "grow") (result i32) (memory.grow (i32.const 1))))"""


def try_machine() -> str:
    """`wasmtime VERSION bounded`, or what went wrong."""
    wasmtime, version = import_wasmtime(), wasmtime_version()
    task = Task(bounds=ModuleBounds(memory_bytes=65_536, wall_seconds=0.02))
    prepared = prepare(task, bytes(wasmtime.wat2wasm(_MODULE)), "trial")
    meter = ModuleMeter(task.bounds)
    instance = ModuleInstance(task, prepared, meter, report=lambda _: None)
    with prepared.ticker.ticking():
        instance.start()
        if instance.call("grow") != -1:
            return f"wasmtime {version} gave more memory than permitted"
        meter.begin()
        try:
            instance.call("spin")
        except LimitReached:
            return f"wasmtime {version} bounded"
    return f"wasmtime {version} does not end"
