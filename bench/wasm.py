"""Measure WebAssembly modules: calls, new instances, a numeric kernel, limits, and Python.

`python bench/wasm.py` prints the tables, `--record` puts them into docs/wasm.md as well; `--quick` only looks
whether everything can be measured at all. Python is measured where there is one for WASI (docs/wasm.md).
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import wasmtime

import corral
from corral.host.modules import find_python
from corral.wasm.module_sandbox import ModuleSandbox
from corral.wasm.python import PythonSandbox
from document import measure_and_tell
from goals import Goal
from report import goal_lines, table

MODULE = """(module (memory (export "memory") 2)
  (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
  (func (export "grow") (result i32)
    (loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) (memory.size))
  (func (export "spin") (loop $again (br $again)))
  ;; One step for each turn of the loop: the worst case for whoever looks at something at every turn.
  (func (export "steps") (param $n i32) (result f64) (local $i i32) (local $sum f64)
    (loop $again
      (local.set $sum (f64.add (local.get $sum)
        (f64.div (f64.const 1) (f64.convert_i32_u (i32.add (local.get $i) (i32.const 1))))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $i) (local.get $n))))
    (local.get $sum))
  ;; A product of two matrices of 64 x 64, so many times; eight steps for each turn, as compilers unroll it.
  (func (export "kernel") (param $n i32) (result f64)
    (local $i i32) (local $j i32) (local $k i32) (local $a i32) (local $b i32) (local $sum f64)
    (loop $times
      (local.set $i (i32.const 0))
      (loop $rows
        (local.set $j (i32.const 0))
        (loop $columns
          (local.set $k (i32.const 8))
          (local.set $sum (f64.const 0))
          (local.set $a (i32.shl (local.get $i) (i32.const 9)))
          (local.set $b (i32.shl (local.get $j) (i32.const 3)))
          (loop $inner
            (local.set $sum (f64.add (local.get $sum)
              (f64.mul (f64.load offset=0 (local.get $a)) (f64.load offset=32768 (local.get $b)))))
            (local.set $sum (f64.add (local.get $sum)
              (f64.mul (f64.load offset=8 (local.get $a)) (f64.load offset=33280 (local.get $b)))))
            (local.set $sum (f64.add (local.get $sum)
              (f64.mul (f64.load offset=16 (local.get $a)) (f64.load offset=33792 (local.get $b)))))
            (local.set $sum (f64.add (local.get $sum)
              (f64.mul (f64.load offset=24 (local.get $a)) (f64.load offset=34304 (local.get $b)))))
            (local.set $sum (f64.add (local.get $sum)
              (f64.mul (f64.load offset=32 (local.get $a)) (f64.load offset=34816 (local.get $b)))))
            (local.set $sum (f64.add (local.get $sum)
              (f64.mul (f64.load offset=40 (local.get $a)) (f64.load offset=35328 (local.get $b)))))
            (local.set $sum (f64.add (local.get $sum)
              (f64.mul (f64.load offset=48 (local.get $a)) (f64.load offset=35840 (local.get $b)))))
            (local.set $sum (f64.add (local.get $sum)
              (f64.mul (f64.load offset=56 (local.get $a)) (f64.load offset=36352 (local.get $b)))))
            (local.set $a (i32.add (local.get $a) (i32.const 64)))
            (local.set $b (i32.add (local.get $b) (i32.const 4096)))
            (br_if $inner (local.tee $k (i32.sub (local.get $k) (i32.const 1)))))
          (f64.store offset=65536
            (i32.add (i32.shl (local.get $i) (i32.const 9)) (i32.shl (local.get $j) (i32.const 3)))
            (local.get $sum))
          (br_if $columns
            (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 1))) (i32.const 64))))
        (br_if $rows (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 64))))
      (br_if $times (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum)))"""
CALLS, FRESH, ROUNDS, PRODUCTS, SCRIPTS, LIMIT_SECONDS = 3000, 300, 15, 400, 15, 2.0
QUICK = (30, 5, 2, 2, 2, 0.3)
STEPS_FOR_EACH = 50_000
PAGES = 16


class Found(NamedTuple):
    """Medians; microseconds for calls, seconds for the rest."""

    engine: float
    inline: float
    worker: float
    fresh: float
    kernel: tuple[float, ...]  # wasmtime's own, with epochs, with fuel
    steps: tuple[float, ...]
    pages: int
    fuel_difference: int
    wall: float  # how much longer than the limit, as a share of it
    cpu: float
    python: float | None


def _median(act: Callable[[], object], count: int) -> float:
    spent = []
    for _ in range(count):
        began = time.perf_counter()
        act()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def _open(inline: bool, *limits: str, **options: object) -> ModuleSandbox:
    policy = corral.build_policy("strict", ["time:limit:10m", *limits])
    return ModuleSandbox(MODULE.encode(), policy=policy, inline=inline, **options)


def _direct() -> Callable[..., object]:
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    exports = wasmtime.Instance(store, wasmtime.Module(engine, MODULE), []).exports(store)
    return lambda name, *arguments: exports[name](store, *arguments)


def _kernels(name: str, rounds: int, count: int) -> tuple[float, ...]:
    """The three by turns, so that whatever else the machine does meets all of them; the best of each."""
    direct, epochs, fuel = _direct(), _open(True).call, _open(True, fuel=1 << 50).call
    best = [float("inf")] * 3
    for _ in range(rounds):
        for index, call in enumerate((direct, epochs, fuel)):
            began = time.thread_time()  # of the processor: others may want it as well
            call(name, count)
            best[index] = min(best[index], time.thread_time() - began)
    return tuple(best)


def _late(limit: str, seconds: float, clock: Callable[[], float]) -> float:
    """By how much a loop was ended after its limit, as a share of that."""
    with _open(True, f"{limit}:{seconds * 1000:.0f}ms") as module:
        module.call("add", 1, 2)
        began = clock()
        try:
            module.call("spin")
        except corral.ModuleTrap:
            return (clock() - began) / seconds - 1
    return float("inf")


def _python(scripts: int) -> float | None:
    if not os.path.exists(find_python()):
        return None
    with PythonSandbox() as sandbox:
        sandbox.run("print(1)")
        return _median(lambda: sandbox.run("print(1)"), scripts)


def measure(*, quick: bool) -> Found:
    calls, fresh, rounds, products, scripts, seconds = (
        QUICK if quick else (CALLS, FRESH, ROUNDS, PRODUCTS, SCRIPTS, LIMIT_SECONDS)
    )
    direct = _direct()
    with _open(True, f"memory:limit:{PAGES * 64}KiB") as inline, _open(False) as worker:
        inline.call("add", 1, 2)
        worker.call("add", 1, 2)
        pages = inline.call("grow")
        found = (
            _median(lambda: direct("add", 1, 2), calls) * 1e6,
            _median(lambda: inline.call("add", 1, 2), calls) * 1e6,
            _median(lambda: worker.call("add", 1, 2), calls) * 1e6,
            _median(lambda: (inline.reset(), inline.call("add", 1, 2)), fresh),
        )
    left = []
    for _ in range(2):
        with _open(True, fuel=1_000_000) as module:
            module.call("steps", 1000)
            left.append(module.fuel_left or 0)
    return Found(
        *found,
        _kernels("kernel", rounds, products),
        _kernels("steps", rounds, products * STEPS_FOR_EACH),
        pages,
        abs(left[0] - left[1]),
        _late("time:limit", seconds, time.monotonic),
        _late("cpu:time", seconds, time.thread_time),
        _python(scripts),
    )


def judge(found: Found) -> list[Goal]:
    """What was promised."""
    return [
        Goal("a warm call, inline: <= 20 us more than the engine's own", 20, found.inline - found.engine),
        Goal("a warm call in a worker: <= 0.3 ms", 0.3, found.worker / 1000),
        Goal("a new instance of a loaded module: <= 1 ms", 1, found.fresh * 1000),
        Goal(
            "a numeric kernel with epochs: <= 1.10 x wasmtime's own", 1.1, found.kernel[1] / found.kernel[0]
        ),
        Goal("memory: pages too many or too few", 0, abs(found.pages - PAGES)),
        Goal("fuel: difference of two equal runs", 0, found.fuel_difference),
        Goal("wall time: ended <= 5 % after the limit", 5, found.wall * 100),
        Goal("processor time: ended <= 5 % after the limit", 5, found.cpu * 100),
        Goal(
            "Python: the second script <= 150 ms", 150, None if found.python is None else found.python * 1000
        ),
    ]


def render(found: Found, judged: list[Goal]) -> Iterator[str]:
    yield from goal_lines(judged)
    yield ""
    cells = []
    for title, times in (("a product of matrices", found.kernel), ("one step for each turn", found.steps)):
        for way, value in zip(("wasmtime's own", "with epochs", "with fuel"), times, strict=True):
            cells.append((f"{title}: {way}", f"{value * 1000:.0f}", f"{value / times[0]:.2f}"))
    yield from table(("Numeric kernel, best of several", "ms", "Ratio"), cells, {1, 2})


def main() -> int:
    return measure_and_tell(str(__doc__), measure, judge, render, document="wasm.md", part="wasm")


if __name__ == "__main__":
    sys.exit(main())
