"""Machine: wasmtime, set up so that what a module uses is bounded, and so that time really passes for it.

wasmtime looks at an epoch that somebody else must advance: a limit without a thread that ticks is no limit.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from functools import lru_cache

from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from corral.wasi.task import ModuleBounds

#: Below these, known holes are open: RUSTSEC-2026-0188, CVE-2026-34971, CVE-2026-34941.
LEAST_VERSION = (46, 0, 1)
TICK_SECONDS = 0.005
_IDLE_TICKS = 20
MOST_TABLES, MOST_ELEMENTS = 4, 100_000
_BYTES_PER_ELEMENT = 64  # generously: what a table takes belongs to the memory that is permitted
_STACK_BYTES = 1 << 20


class LimitReached(Exception):
    """A module was ended for what it used."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit  # "wall", "cpu-time" or "fuel"


def import_wasmtime() -> Any:
    """The package. Raises SetupError that says how to get it."""
    try:
        import wasmtime
    except ImportError as problem:
        raise SetupError(
            "wasm-missing",
            "WebAssembly modules cannot be run",
            why=f"the package wasmtime is not there: {problem}",
            fix="install corral with its extra: pip install 'corral[wasm]'",
        ) from problem
    version = wasmtime_version()
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    if numbers < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise SetupError(
            "wasm-outdated",
            f"wasmtime {version} is not used",
            why=f"it has known holes; {least} has not",
            fix="pip install --upgrade 'corral[wasm]'",
        )
    return wasmtime


@lru_cache(maxsize=1)
def wasmtime_version() -> str:
    """The version of the package that is imported, read from its name on the disk; `0` if it has none there.

    The standard library's way takes as long to import as wasmtime itself.
    """
    import wasmtime

    around = os.path.dirname(os.path.dirname(os.path.abspath(wasmtime.__file__)))
    prefix, suffix = "wasmtime-", ".dist-info"
    found = [name for name in os.listdir(around) if name.startswith(prefix) and name.endswith(suffix)]
    return found[0][len(prefix) : -len(suffix)] if len(found) == 1 else "0"


def make_engine(*, has_fuel: bool = False, is_repeatable: bool = False) -> Any:
    """An engine with nothing but what modules need: one memory, no threads, an epoch."""
    wasmtime = import_wasmtime()
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.consume_fuel = has_fuel
    config.wasm_threads = False
    config.shared_memory = False
    config.wasm_multi_memory = False  # INVARIANT: the limit is for each memory, so there is one
    config.wasm_memory64 = False
    config.wasm_gc = False  # its heap is in no limit of the store's
    config.max_wasm_stack = _STACK_BYTES
    if is_repeatable:
        config.cranelift_nan_canonicalization = True
        config.wasm_relaxed_simd_deterministic = True
    return wasmtime.Engine(config)


def make_store(engine: Any, bounds: ModuleBounds) -> Any:
    """A store that holds the limits of memory and fuel to the byte and to the unit."""
    wasmtime = import_wasmtime()
    store = wasmtime.Store(engine)
    memory = bounds.memory_bytes
    elements = MOST_ELEMENTS if memory is None else min(MOST_ELEMENTS, memory // _BYTES_PER_ELEMENT)
    store.set_limits(
        memory_size=-1 if memory is None else memory,
        table_elements=elements,
        instances=1,
        tables=MOST_TABLES,
        memories=1,
    )
    if bounds.fuel is not None:
        store.set_fuel(bounds.fuel)
    return store


class ModuleMeter:
    """Time that a module uses. `begin` before it runs; whoever ticks makes it look, `Ticker` for one."""

    def __init__(self, bounds: ModuleBounds, cpu_clock: Callable[[], float] = time.process_time) -> None:
        self._bounds = bounds
        self._cpu_clock = cpu_clock  # of the thread that runs the module, where it shares its process
        self._wall = self._cpu = 0.0
        self._wall_limit: float | None = None
        self._is_resting = False
        self.reached = ""
        self.begin()

    def begin(self, wall_seconds: float | None = None) -> None:
        """From now on it counts; perhaps with less time than usual."""
        self._wall_limit, self._is_resting = self._bounds.wall_seconds, False
        if wall_seconds is not None:
            self._wall_limit = min(wall_seconds, self._wall_limit or wall_seconds)
        self._wall, self._cpu, self.reached = time.monotonic(), self._cpu_clock(), ""

    def rest(self) -> None:
        """Until it begins again, nothing counts."""
        self._is_resting, self.reached = True, ""

    def begin_at(self, moment: float) -> None:
        """Wall time counts from a moment that is over."""
        self._wall = moment

    def look(self) -> str:
        """The limit that has been reached, if one has."""
        bounds = self._bounds
        if self._is_resting:
            return ""
        if self._wall_limit is not None and self.wall_seconds >= self._wall_limit:
            self.reached = self.reached or "wall"
        elif bounds.cpu_seconds is not None and self.cpu_seconds >= bounds.cpu_seconds:
            self.reached = self.reached or "cpu-time"
        return self.reached

    def seconds_left(self) -> float | None:
        """Until its time is over; None: nobody has said."""
        return None if self._wall_limit is None else max(0.0, self._wall_limit - self.wall_seconds)

    @property
    def wall_seconds(self) -> float:
        return time.monotonic() - self._wall

    @property
    def cpu_seconds(self) -> float:
        return self._cpu_clock() - self._cpu

    def share(self) -> None:
        """Wait until the module has had no more than its share of a processor. It has one at most."""
        cpus = self._bounds.cpus
        if cpus is None or cpus >= 1:
            return
        ahead = self.cpu_seconds / cpus - self.wall_seconds
        if ahead > 0:
            left = self._wall_limit
            time.sleep(ahead if left is None else max(0.0, min(ahead, left - self.wall_seconds)))

    def wait(self, seconds: float) -> None:
        """Sleep for the module, and no longer than it has time. Raises LimitReached."""
        left = self._wall_limit
        time.sleep(seconds if left is None else max(0.0, min(seconds, left - self.wall_seconds)))
        if self.look():
            raise LimitReached(self.reached)


def attach(store: Any, meter: ModuleMeter) -> None:
    """Have the meter asked at every tick while a module of this store runs."""
    from wasmtime import _ffi as ffi

    kinds = ffi.wasmtime_store_epoch_deadline_callback.__globals__["_wasmtime_store_epoch_deadline_callback"]
    callback_type, finalizer_type = kinds.argtypes[1], kinds.argtypes[3]

    def tick(_context: Any, _data: Any, delta: Any, kind: Any) -> int:
        meter.share()
        delta[0], kind[0] = 1, 0  # go on until the next tick
        if not meter.look():
            return 0
        error = ffi.wasmtime_error_new(ctypes.create_string_buffer(b"a limit was reached"))
        return ctypes.cast(error, ctypes.c_void_p).value or 0

    callback, finalizer = callback_type(tick), finalizer_type(0)
    store.corral_callback = callback  # it must live as long as the store
    ffi.wasmtime_store_epoch_deadline_callback(store.ptr(), callback, None, finalizer)
    store.set_epoch_deadline(1)


class Ticker:
    """Advances the epoch of an engine while something runs, by a thread: `with ticker.ticking()`."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._running = 0
        self._is_asleep = False
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None

    def ticking(self) -> Self:
        """For as long as the `with` block lasts."""
        return self

    def __enter__(self) -> None:
        with self._wake:
            self._running += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._tick, name="corral-wasm-ticker", daemon=True)
                self._thread.start()
            elif self._is_asleep:
                self._wake.notify()

    def __exit__(self, *_: object) -> None:
        with self._wake:
            self._running -= 1

    def _tick(self) -> None:
        """It goes to sleep a while after the last call: to wake it takes longer than a call."""
        idle = 0
        while True:
            time.sleep(TICK_SECONDS)
            idle = 0 if self._running else idle + 1
            if idle > _IDLE_TICKS:
                with self._wake:
                    self._is_asleep = True
                    while not self._running:
                        self._wake.wait()
                    self._is_asleep, idle = False, 0
            self._engine.increment_epoch()
