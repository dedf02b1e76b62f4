"""A module that is kept and called: loaded once, instantiated when needed, bounded at each call."""

from __future__ import annotations

import time

from corral.model.errors import CorralError, PolicyError
from corral.wasi.answer import wrong_call
from corral.wasi.instance import ModuleInstance, prepare
from corral.wasi.machine import LimitReached, ModuleMeter
from corral.wasi.process import ModuleExit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from corral.wasi.task import Task
    from corral.wasi.tree import ModuleRefusal

_HOST = "host"
_INITIALIZE = "_initialize"
_NUMBERS = {"i32": (int, 1 << 32), "i64": (int, 1 << 64), "f32": (float, 0), "f64": (float, 0)}
#: Where the policy does not say: what a module prints is kept, so it has an end.
_MOST_OUTPUT = 1 << 20


class HostError(Exception):
    """A function of the embedding program raised; as text."""


class ServedModule:
    """`report` is told of what is refused; `offer` makes what stands for an import that is granted.

    Those are the functions of the host by name, and every function of the modules that are named.
    """

    def __init__(
        self,
        task: Task,
        binary: bytes,
        name: str,
        *,
        report: Callable[[ModuleRefusal], None],
        offer: Callable[[str, str], Callable[..., Any]],
        functions: Iterable[str] = (),
        modules: Iterable[str] = (),
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._task, self._report = task, report
        self._prepared = prepare(task, binary, name)
        granted, called = frozenset(functions), frozenset(modules)
        self._offers = {
            (each.module, each.name): offer(each.module, each.name)
            for each in self._prepared.module.imports
            if (each.module == _HOST and each.name in granted) or each.module in called or "*" in called
        }
        self.meter = ModuleMeter(task.bounds, cpu_clock)
        self._instance: ModuleInstance | None = None
        self._output: list[tuple[int, bytearray]] = []
        self._room = 0
        self._is_busy = False
        self._exports = {each.name: each.type for each in self._prepared.module.exports}
        self._signatures = {
            name: [str(each) for each in kind.params]
            for name, kind in self._exports.items()
            if hasattr(kind, "params")
        }
        self.meter.rest()
        self._new_instance()  # what nobody offers is an error now, not at the first call

    def describe(self) -> dict[str, Any]:
        """Imports, exports and memory, as plain values."""
        return {
            "imports": [[each.module, each.name, _kind(each.type)] for each in self._prepared.module.imports],
            "exports": {name: _kind(kind) for name, kind in self._exports.items()},
        }

    def call(self, name: str, arguments: list[Any], wall_seconds: float | None = None) -> dict[str, Any]:
        """Call a function: its value and what it printed, or what went wrong, as plain values."""
        if self._is_busy:
            return wrong_call("module-busy", f"{self._prepared.name} is called while it is being called")
        try:
            values = self._check(name, arguments)
        except CorralError as problem:
            return failure_of(problem)
        self._begin(wall_seconds)
        try:
            with self._prepared.ticker.ticking():
                return self._answer(self._current().call(name, *values))
        except CorralError as problem:
            self.reset()
            return failure_of(problem)
        except Exception as problem:
            answer = self._wrong(problem)
            self.reset()  # its state cannot be relied on any more
            return answer
        finally:
            self._is_busy = False

    def run(self, arguments: list[str], wall_seconds: float | None = None) -> dict[str, Any]:
        """Run a command from its beginning to its end, in an instance of its own."""
        if self._is_busy:
            return wrong_call("module-busy", f"{self._prepared.name} is called while it is being called")
        self._begin(wall_seconds)
        task = self._task.replace(arguments=tuple(arguments))
        instance = ModuleInstance(task, self._prepared, self.meter, report=self._report, offers=self._offers)
        try:
            start = instance.command(self._take)
            with self._prepared.ticker.ticking():
                start()
            return self._answer(None) | {"exit": 0}
        except CorralError as problem:
            return failure_of(problem)
        except Exception as problem:
            return self._wrong(problem)
        finally:
            instance.close()
            self._is_busy = False

    def _begin(self, wall_seconds: float | None) -> None:
        self._is_busy, self._output = True, []
        most = self._task.bounds.output_bytes
        self._room = _MOST_OUTPUT if most is None else most
        self.meter.begin(wall_seconds)

    def _check(self, name: str, arguments: list[Any]) -> list[Any]:
        kinds = self._signatures.get(name)
        if kinds is None:
            functions = self._signatures
            raise PolicyError(
                "module-export",
                f"{self._prepared.name} has no function {name!r}",
                why=f"it exports {', '.join(functions) or 'no function'}",
                fix="call one of these",
            )
        return check_arguments(name, kinds, arguments)

    def _new_instance(self) -> ModuleInstance:
        return ModuleInstance(
            self._task, self._prepared, self.meter, report=self._report, offers=self._offers
        )

    def _current(self) -> ModuleInstance:
        if self._instance is None:
            instance = self._new_instance()
            instance.start(self._take)
            self._instance = instance
            if _INITIALIZE in self._exports:
                instance.call(_INITIALIZE)
        return self._instance

    def _take(self, descriptor: int, data: bytes) -> int:
        self._room -= len(data)
        if self._room < 0:
            self.meter.reached = "output"
            raise LimitReached("output")
        if self._output and self._output[-1][0] == descriptor:
            self._output[-1][1].extend(data)
        elif data:  # what is no output must not take memory either
            self._output.append((descriptor, bytearray(data)))
        return len(data)

    def _answer(self, value: Any) -> dict[str, Any]:
        answer: dict[str, Any] = {"value": value}
        if self._output:
            answer["output"] = [[number, data.decode("latin-1")] for number, data in self._output]
        return answer

    def _wrong(self, problem: Exception) -> dict[str, Any]:
        if isinstance(problem, ModuleExit):
            return self._answer(None) | {"exit": problem.status}
        if isinstance(problem, LimitReached):
            cause = str(problem.__cause__ or "")
            return self._answer(None) | wrong_call("module-limit", problem.limit, cause)
        if isinstance(problem, HostError):
            return self._answer(None) | wrong_call("module-host-error", str(problem))
        return self._answer(None) | wrong_call("module-trap", _last_line(str(problem)), str(problem))

    def reset(self) -> None:
        """The next call has a new instance, with a memory of its own."""
        if self._instance is not None:
            self._instance.close()
            self._instance = None

    def fuel_left(self) -> int | None:
        """How much fuel the instance has, if it runs on fuel."""
        return self._instance.fuel_left() if self._instance is not None else self._task.bounds.fuel


def check_arguments(name: str, kinds: list[str], arguments: list[Any]) -> list[Any]:
    """Arguments as a function takes them. Raises PolicyError for the wrong number or type."""
    signature = f"{name}({', '.join(kinds)})"
    if len(arguments) != len(kinds):
        raise _argument_error(f"{signature} takes {len(kinds)} arguments, and was given {len(arguments)}")
    values = []
    for index, (kind, value) in enumerate(zip(kinds, arguments, strict=True), 1):
        if kind not in _NUMBERS:
            raise _argument_error(f"{signature}: argument {index} is {kind}, which cannot be passed")
        wanted, size = _NUMBERS[kind]
        if isinstance(value, bool) or not isinstance(value, int if wanted is int else (int, float)):
            raise _argument_error(f"{signature}: argument {index} is {value!r}, and no {kind}")
        if size and not -size // 2 <= value < size:
            raise _argument_error(f"{signature}: argument {index} is {value}, too large for {kind}")
        values.append(value - size if size and value >= size // 2 else wanted(value))
    return values


def _argument_error(why: str) -> PolicyError:
    return PolicyError("module-arguments", "the function was not called", why=why, fix="pass what it takes")


def _kind(kind: Any) -> str:
    """A type in words: `(i32, i32) -> i32`, `memory 1..4`, `global`, `table`."""
    if hasattr(kind, "params"):
        results = ", ".join(map(str, kind.results))
        return f"({', '.join(map(str, kind.params))}) -> {results or 'nothing'}"
    name = type(kind).__name__.removesuffix("Type").lower()
    limits = getattr(kind, "limits", None)
    if limits is None:
        return name
    return f"{name} {limits.min}..{'' if limits.max is None else limits.max}"


def failure_of(problem: CorralError) -> dict[str, Any]:
    told = [problem.code, problem.what, problem.why, problem.fix, problem.exit_status]
    return {"refused": told, "missing": getattr(problem, "missing", ())}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it trapped"
