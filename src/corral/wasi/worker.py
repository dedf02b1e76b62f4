"""The process that keeps a module for its caller: calls come on stdin, answers go to what was its stdout."""

from __future__ import annotations

import os
import signal
import threading

from corral.model.errors import CorralError
from corral.wasi.answer import FrameError, receive, receive_bytes, send
from corral.wasi.loading import MOST_BYTES
from corral.wasi.served_module import HostError, ServedModule, failure_of
from corral.wasi.task import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from corral.wasi.machine import ModuleMeter
    from corral.wasi.tree import ModuleRefusal

_TASK = 3


def serve(watch_lifeline: Callable[[], None], watch_limits: Callable[[ModuleMeter], None]) -> None:
    """Until nobody is there any more."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
    threading.Thread(target=watch_lifeline, daemon=True).start()
    calls, answers = _take_stdio()
    with open(_TASK, "rb") as file:
        task = decode(file.read())
    try:
        name, functions, modules = receive(calls)
        binary = receive_bytes(calls, MOST_BYTES)
        module = ServedModule(
            task,
            binary,
            name,
            report=lambda refusal: _report(answers, refusal),
            offer=lambda source, each: _forwarding(calls, answers, source, each),
            functions=functions,
            modules=modules,
        )
        send(answers, {"ready": module.describe()})
    except CorralError as problem:
        send(answers, failure_of(problem))
        return
    threading.Thread(target=watch_limits, args=(module.meter,), daemon=True).start()
    _answer_calls(module, calls, answers)


def _answer_calls(module: ServedModule, calls: int, answers: int) -> None:
    while True:
        try:
            request = receive(calls)
        except (FrameError, OSError):
            return
        if request.get("reset"):
            module.reset()
            send(answers, {"value": None})
            continue
        if "run" in request:
            answer = module.run(request["run"], request.get("wall"))
        else:
            answer = module.call(request["name"], request["arguments"], request.get("wall"))
        fuel = module.fuel_left()
        if fuel is not None:
            answer["fuel"] = fuel
        module.meter.rest()
        send(answers, answer)


def _take_stdio() -> tuple[int, int]:
    """The two ends; what else would be printed or read goes nowhere."""
    calls, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return calls, answers


def _report(answers: int, refusal: ModuleRefusal) -> None:
    send(answers, {"violation": [refusal.feature.value, refusal.subject, refusal.detail, refusal.hint]})


def _forwarding(calls: int, answers: int, module: str, name: str) -> Callable[..., Any]:
    """A function that the caller's process carries out."""

    def forward(_caller: Any, *arguments: Any) -> Any:
        send(answers, {"host": [module, name], "arguments": list(arguments)})
        answer = receive(calls)
        if "raised" in answer:
            raise HostError(answer["raised"])
        return answer.get("value")

    return forward
