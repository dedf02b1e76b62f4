"""Where a module runs: in a worker process, or in the caller's own."""

from __future__ import annotations

import contextlib
import os
import select
import time

from corral.model.errors import SetupError
from corral.model.feature import Feature
from corral.model.violation import Evidence, Violation
from corral.wasi.answer import FrameError, receive, send, send_bytes, wrong_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from corral.model.launch import Launch
    from corral.runtime.starter import Process
    from corral.wasi.task import Task
    from corral.wasi.tree import ModuleRefusal
    from corral.wasm.offers import Offered

    Hear = Callable[[Violation], None]

#: After a call's own time, before a worker that says nothing is ended.
_PATIENCE_SECONDS = 5.0
_START_SECONDS = 120.0


class ModulePlace:
    """Calls a module. What goes wrong inside comes back as plain values."""

    def __init__(
        self, launch: Launch, task: Task, binary: bytes, *, name: str, offered: Offered, hear: Hear
    ) -> None:
        self._launch, self._task, self._binary, self._name = launch, task, binary, name
        self._offered, self._hear = offered, hear
        self.description: dict[str, Any] = {}
        self._start()

    def _start(self) -> None:
        raise NotImplementedError

    def call(self, function: str, arguments: list[Any], seconds: float | None) -> dict[str, Any]:
        raise NotImplementedError

    def run(self, arguments: list[str], seconds: float | None) -> dict[str, Any]:
        raise NotImplementedError

    def reset(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class InlinePlace(ModulePlace):
    """In the caller's process and thread."""

    def _start(self) -> None:
        from corral.wasi.loading import MissingImport
        from corral.wasi.served_module import HostError, ServedModule

        def offer(module: str, name: str) -> Callable[..., Any]:
            def carry_out(_caller: Any, *arguments: Any) -> Any:
                try:
                    left = self._module.meter.seconds_left()
                    return self._offered.carry_out(module, name, list(arguments), left)
                except Exception as problem:
                    raise HostError(f"{type(problem).__name__}: {problem}") from problem

            return carry_out

        functions, modules = self._offered.names()
        try:
            self._module = ServedModule(
                self._task,
                self._binary,
                self._name,
                report=self._report,
                offer=offer,
                functions=functions,
                modules=modules,
                cpu_clock=time.thread_time,
            )
        except MissingImport as problem:
            _tell_missing(problem.missing, self._hear)
            raise
        self.description = self._module.describe()

    def _report(self, refusal: ModuleRefusal) -> None:
        self._hear(_violation(refusal.feature.value, refusal.subject, refusal.detail, refusal.hint))

    def call(self, function: str, arguments: list[Any], seconds: float | None) -> dict[str, Any]:
        answer = self._module.call(function, arguments, seconds)
        if self._task.bounds.fuel is not None:
            answer["fuel"] = self._module.fuel_left()
        return answer

    def run(self, arguments: list[str], seconds: float | None) -> dict[str, Any]:
        return self._module.run(arguments, seconds)

    def reset(self) -> None:
        self._module.reset()

    def close(self) -> None:
        self._module.reset()


class WorkerPlace(ModulePlace):
    """In a process that ends with the caller's. One that was ended is started anew by the next call."""

    _process: Process | None = None

    def _start(self) -> None:
        from corral.runtime.launcher.spawn import spawn

        calls, self._calls = os.pipe()
        self._answers, answers = os.pipe()
        launch = self._launch.replace(argv=(*self._launch.argv, "--serve"))
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            self._process = spawn(launch, self._task.encode(), (calls, answers, null))
        finally:
            for descriptor in (calls, answers, null):
                os.close(descriptor)
        self._poller = select.poll()
        self._poller.register(self._answers, select.POLLIN)
        try:
            send(self._calls, [self._name, *map(list, self._offered.names())])
            send_bytes(self._calls, self._binary)
            answer = self._receive(time.monotonic() + _START_SECONDS)
        except (OSError, FrameError) as problem:
            self.close()
            raise SetupError(
                "module-worker",
                "the worker for the module did not start",
                why=str(problem),
                fix="run `corral doctor`",
            ) from problem
        if "ready" not in answer:
            self.close()
            raise _refusal(answer, self._hear)
        self.description = answer["ready"]

    def call(self, function: str, arguments: list[Any], seconds: float | None) -> dict[str, Any]:
        return self._ask({"name": function, "arguments": arguments}, seconds)

    def run(self, arguments: list[str], seconds: float | None) -> dict[str, Any]:
        return self._ask({"run": arguments}, seconds)

    def _ask(self, request: dict[str, Any], seconds: float | None) -> dict[str, Any]:
        if self._process is None:
            self._start()
        limit = self._task.bounds.wall_seconds
        known = [each for each in (limit, seconds) if each is not None]
        until = time.monotonic() + min(known) if known else None
        try:
            send(self._calls, {**request, "wall": seconds})
            return self._converse(until)
        except (OSError, FrameError):
            return self._ended()
        except (TypeError, ValueError) as problem:  # before anything was sent
            told = ["module-arguments", "the function was not called", str(problem), "pass numbers", 2]
            return {"refused": told}
        except BaseException:
            self.close()  # what it would answer now belongs to no call
            raise

    def _converse(self, until: float | None) -> dict[str, Any]:
        """Carry out what the module calls, until it answers itself."""
        patience = None if until is None else until + _PATIENCE_SECONDS
        while True:
            answer = self._receive(patience)
            if "violation" in answer:
                self._hear(_violation(*answer["violation"]))
            elif "host" in answer:
                module, name = answer["host"]
                left = None if until is None else max(0.0, until - time.monotonic())
                send(self._calls, self._carry_out(module, name, answer["arguments"], left))
            else:
                return answer

    def _carry_out(self, module: str, name: str, arguments: list[Any], left: float | None) -> dict[str, Any]:
        try:
            value = self._offered.carry_out(module, name, arguments, left)
        except Exception as problem:
            return {"raised": f"{type(problem).__name__}: {problem}"}
        is_number = isinstance(value, (int, float)) or value is None
        return {"value": value} if is_number else {"raised": f"it returned {type(value).__name__}, no number"}

    def _receive(self, until: float | None) -> dict[str, Any]:
        if not self._poller.poll(None if until is None else max(0.0, until - time.monotonic()) * 1000):
            raise FrameError("it does not answer")
        answer = receive(self._answers)
        if not isinstance(answer, dict):
            raise FrameError("it answers nonsense")
        return answer

    def _ended(self) -> dict[str, Any]:
        """The worker is gone: what it was ended for, in its own last words."""
        words = b""
        if self._process is not None:
            os.set_blocking(self._process.status, False)
            with contextlib.suppress(BlockingIOError):
                words = os.read(self._process.status, 65_536)
        self.close()
        if b"timed-out" in words:
            return wrong_call("module-limit", "wall")
        if b"limit " in words:
            limit = words.partition(b"limit ")[2].split(b"\n")[0].decode("ascii", "replace")
            return wrong_call("module-limit", limit)
        return wrong_call("module-worker", "its process has ended: a fault of the engine, or it was killed")

    def reset(self) -> None:
        if self._process is not None:
            send(self._calls, {"reset": True})
            self._receive(None)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        os.close(process.lifeline)
        os.waitpid(process.pid, 0)
        for descriptor in (process.status, self._calls, self._answers):
            os.close(descriptor)


def _violation(feature: str, subject: str, detail: str, hint: str) -> Violation:
    return Violation(Feature(feature), subject, Evidence.OBSERVED, detail, hint, is_prevented=True)


def _tell_missing(missing: Iterable[tuple[str, str]], hear: Hear) -> None:
    from corral.wasm.offers import capability_for

    for module, name in missing:
        subject, hint = f"{module}.{name}", capability_for(module, name)
        hear(_violation(Feature.IPC_PRIVATE.value, subject, "no capability lets the module call it", hint))


def _refusal(answer: dict[str, Any], hear: Hear) -> Exception:
    import json

    from corral.runtime.module_report import explain_module

    _tell_missing(answer.get("missing", ()), hear)
    return explain_module(json.dumps(answer.get("refused")))
