"""Calls about the module itself: arguments, variables, clocks, random numbers, waiting, its end."""

from __future__ import annotations

import os
import select
import struct
import time

from corral.model.feature import Feature
from corral.wasi import numbers
from corral.wasi.handles import WasiError
from corral.wasi.paths import PathCalls
from corral.wasi.tree import ModuleRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from corral.wasi.guest_memory import GuestMemory
    from corral.wasi.task import Task
    from corral.wasi.tree import Tree

_SUBSCRIPTION = struct.Struct("<QBxxxxxxx")
_CLOCK = struct.Struct("<IxxxxQQHxxxxxx")
_DESCRIPTOR = struct.Struct("<I")
_EVENT = struct.Struct("<QHBxxxxxQHxxxxxx")
_SUBSCRIPTION_BYTES = 48
_MOST_SUBSCRIPTIONS = 1024
_PIECE = 65_536
_CLOCKS = (
    time.CLOCK_REALTIME,
    time.CLOCK_MONOTONIC,
    time.CLOCK_PROCESS_CPUTIME_ID,
    time.CLOCK_THREAD_CPUTIME_ID,
)
_REALTIME, _MONOTONIC = 0, 1
#: What a frozen clock says: the first second of 2020, and a tick later each time it is asked.
_FROZEN_NS, _TICK_NS = 1_577_836_800_000_000_000, 1_000_000
_SIGNALS = {1: 1, 2: 2, 3: 3, 6: 6, 9: 9, 15: 15}


class ModuleExit(Exception):
    """The module has ended by itself."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class ProcessCalls(PathCalls):
    """Everything else of WASI preview 1."""

    def __init__(self, task: Task, tree: Tree, wait: Callable[[float], None] = time.sleep) -> None:
        super().__init__(task, tree)
        self._wait = wait
        self._frozen = _FROZEN_NS if task.clock == "frozen" else 0
        self._random: Random | None = None
        if task.seed is not None:
            from random import Random

            self._random = Random(task.seed)  # noqa: S311 - it is meant to be foretold

    def args_sizes_get(self, memory: GuestMemory, count: int, size: int) -> None:
        _tell_sizes(memory, self._arguments(), count, size)

    def args_get(self, memory: GuestMemory, pointers: int, place: int) -> None:
        _tell(memory, self._arguments(), pointers, place)

    def environ_sizes_get(self, memory: GuestMemory, count: int, size: int) -> None:
        _tell_sizes(memory, self._environment(), count, size)

    def environ_get(self, memory: GuestMemory, pointers: int, place: int) -> None:
        _tell(memory, self._environment(), pointers, place)

    def _arguments(self) -> list[bytes]:
        return [os.fsencode(text) + b"\0" for text in self.task.arguments]

    def _environment(self) -> list[bytes]:
        return [os.fsencode(f"{name}={value}") + b"\0" for name, value in self.task.environment]

    def clock_res_get(self, memory: GuestMemory, clock: int, result: int) -> None:
        memory.write_u64(result, _TICK_NS if self._frozen else int(time.clock_getres(_clock(clock)) * 1e9))

    def clock_time_get(self, memory: GuestMemory, clock: int, _precision: int, result: int) -> None:
        memory.write_u64(result, self._now(clock))

    def _now(self, clock: int) -> int:
        number = _clock(clock)
        if not self._frozen:
            return time.clock_gettime_ns(number)
        self._frozen += _TICK_NS
        return self._frozen if clock == _REALTIME else self._frozen - _FROZEN_NS

    def random_get(self, memory: GuestMemory, place: int, length: int) -> None:
        length &= 0xFFFF_FFFF
        memory.read(place + length - 1 if length else place, 1 if length else 0)
        for start in range(0, length, _PIECE):
            size = min(_PIECE, length - start)
            data = os.urandom(size) if self._random is None else self._random.randbytes(size)
            memory.write(place + start, data)

    def sched_yield(self, memory: GuestMemory) -> None:
        os.sched_yield()

    def proc_exit(self, memory: GuestMemory, status: int) -> None:
        raise ModuleExit(status & 0xFF)

    def proc_raise(self, memory: GuestMemory, number: int) -> None:
        raise ModuleExit(128 + _SIGNALS.get(number, 6))

    def poll_oneoff(self, memory: GuestMemory, wanted: int, events: int, count: int, result: int) -> None:
        """Wait for the first of several: a time, or a stream that is ready. Files always are."""
        count &= 0xFFFF_FFFF
        if not 0 < count <= _MOST_SUBSCRIPTIONS:
            raise WasiError(numbers.INVALID)
        raw = memory.read(wanted, count * _SUBSCRIPTION_BYTES)
        sleeps: list[tuple[int, float]] = []  # what the module calls it, and for how long
        ready: list[bytes] = []
        streams: dict[int, tuple[int, int]] = {}
        for start in range(0, len(raw), _SUBSCRIPTION_BYTES):
            name, kind = _SUBSCRIPTION.unpack_from(raw, start)
            if kind == 0:
                sleeps.append((name, self._span(raw, start)))
                continue
            if kind not in {1, 2}:
                raise WasiError(numbers.INVALID)
            (number,) = _DESCRIPTOR.unpack_from(raw, start + 16)
            try:
                handle = self.handles.file(number, reads=kind == 1, writes=kind == 2)
            except WasiError as problem:
                ready.append(_EVENT.pack(name, problem.number, kind, 0, 0))
                continue
            if handle.is_stream and kind == 1 and self.has_input:
                streams[handle.descriptor] = (name, kind)
            else:
                ready.append(_EVENT.pack(name, 0, kind, 1, 0))
        patience = 0.0 if ready else min((span for _, span in sleeps), default=None)
        ready += self._await(streams, patience)
        if not ready:
            ready = [_EVENT.pack(name, 0, 0, 0, 0) for name, span in sleeps if span <= (patience or 0.0)]
        memory.write(events, b"".join(ready))
        memory.write_u32(result, len(ready))

    def _span(self, raw: bytes, start: int) -> float:
        clock, timeout, _, flags = _CLOCK.unpack_from(raw, start + 16)
        if flags & 1:
            timeout = max(0, timeout - self._now(clock))
        elif clock not in {_REALTIME, _MONOTONIC}:
            raise WasiError(numbers.INVALID)
        return float(min(timeout / 1e9, 1e7))

    def _await(self, streams: dict[int, tuple[int, int]], patience: float | None) -> list[bytes]:
        if not streams:
            if self._frozen and patience:
                self._frozen += int(patience * 1e9)
            elif patience:
                self._wait(patience)
            return []
        found, _, _ = select.select(list(streams), [], [], patience)
        return [_EVENT.pack(streams[each][0], 0, streams[each][1], 1, 0) for each in found]

    def sock_accept(self, memory: GuestMemory, *_: int) -> None:
        raise ModuleRefusal(
            numbers.NOT_SUPPORTED, Feature.NET_NONE, "a socket", "modules have no sockets on this backend"
        )

    sock_recv = sock_send = sock_shutdown = sock_accept


def _clock(number: int) -> int:
    if not 0 <= number < len(_CLOCKS):
        raise WasiError(numbers.INVALID)
    return _CLOCKS[number]


def _tell_sizes(memory: GuestMemory, texts: list[bytes], count: int, size: int) -> None:
    memory.write_u32(count, len(texts))
    memory.write_u32(size, sum(map(len, texts)))


def _tell(memory: GuestMemory, texts: list[bytes], pointers: int, place: int) -> None:
    for index, text in enumerate(texts):
        memory.write_u32(pointers + 4 * index, place)
        memory.write(place, text)
        place += len(text)
