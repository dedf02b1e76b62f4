"""The process that runs one module, in the place of the launcher: it reads a task and says what happens.

It is started as a script, without site-packages. Its descriptors are those of the launcher: 3 has the task,
on 4 it reports in the launcher's words, and when 5 ends it ends too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from corral.wasi.machine import ModuleMeter
    from corral.wasi.task import Task
    from corral.wasi.tree import ModuleRefusal

_TASK, _STATUS, _LIFELINE = 3, 4, 5
_PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
#: What a shell shows for a program that aborts; wasmtime's own tool ends so as well.
TRAPPED = 134
#: After a limit, before the process is ended whatever it does: in a call of the host nobody looks at epochs.
_PATIENCE_SECONDS = 0.2
_MOST_REPORTED = 200
_lock = threading.Lock()


def _say(line: str) -> None:
    data = f"{line}\n".encode("utf-8", "replace")
    with _lock:
        while data:
            data = data[os.write(_STATUS, data) :]


def _end(*lines: str) -> NoReturn:
    """Say how it ended, what it cost, and be gone: no other thread has anything to add."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    times = f"{int(used.ru_utime * 1e6)} {int(used.ru_stime * 1e6)}"
    usage = f"usage {times} {used.ru_maxrss} {used.ru_inblock} {used.ru_oublock} 1"
    _say("\n".join((*lines, usage)))
    os._exit(0)


def _watch_lifeline() -> None:
    os.read(_LIFELINE, 1)  # nobody writes but to end it
    try:
        _end(f"signalled {int(signal.SIGKILL)}")
    finally:  # whoever would hear of it may be gone
        os._exit(1)


def _watch_signals() -> None:
    number = signal.sigwait(_PASSED_ON)
    _end(f"signalled {int(number)}")


def _watch_limits(meter: ModuleMeter) -> None:
    """The epoch ends a module that computes; this one ends whatever does not come back from a call."""
    since = 0.0
    while True:
        time.sleep(0.02)
        if not meter.look():
            since = 0.0
            continue
        since = since or time.monotonic()
        if time.monotonic() - since >= _PATIENCE_SECONDS:
            _end(*_limit_lines(meter.reached))


def _limit_lines(limit: str) -> tuple[str, ...]:
    if limit == "wall":
        return "timed-out", f"signalled {int(signal.SIGKILL)}"
    return f"limit {limit}", f"signalled {int(signal.SIGKILL)}"


class _Reports:
    """Violations, each once."""

    def __init__(self) -> None:
        self._told: set[tuple[str, ...]] = set()

    def __call__(self, refusal: ModuleRefusal) -> None:
        import json

        told = (refusal.feature.value, refusal.subject, refusal.detail, refusal.hint)
        if told not in self._told and len(self._told) < _MOST_REPORTED:
            self._told.add(told)
            _say(f"violation {json.dumps(told)}")


def main() -> None:
    """Run the module of the task on descriptor 3."""
    began = time.monotonic()
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    threading.Thread(target=_watch_lifeline, daemon=True).start()
    from corral.model.errors import CorralError
    from corral.wasi.task import decode

    with open(_TASK, "rb") as file:
        task = decode(file.read())
    for descriptor in (_STATUS, _LIFELINE):
        os.set_inheritable(descriptor, False)
    try:
        _run(task, began)
    except CorralError as problem:
        import json

        told = (problem.code, problem.what, problem.why, problem.fix, problem.exit_status)
        _say(f"failed module 0 {json.dumps(told)}")
        os._exit(1)


def _run(task: Task, began: float) -> None:
    from corral.model.errors import CorralError
    from corral.wasi.instance import ModuleInstance, prepare
    from corral.wasi.machine import LimitReached, ModuleMeter
    from corral.wasi.process import ModuleExit

    meter = ModuleMeter(task.bounds)
    meter.begin_at(began)
    threading.Thread(target=_watch_limits, args=(meter,), daemon=True).start()
    prepared = prepare(task)
    instance = ModuleInstance(task, prepared, meter, report=_Reports())
    start = instance.command()
    threading.Thread(target=_watch_signals, daemon=True).start()
    _say("started")
    try:
        with prepared.ticker.ticking():
            start()
    except ModuleExit as ended:
        _end(f"exited {ended.status}")
    except CorralError:
        raise
    except LimitReached as reached:
        _trapped(instance, str(reached.__cause__ or ""))
        _end(*_limit_lines(reached.limit))
    except Exception as problem:  # a trap, or what a function of the host raised
        _trapped(instance, str(problem))
        _end(*instance.suspicions(), f"exited {TRAPPED}")
    _end("exited 0")


def _trapped(instance: Any, message: str) -> None:
    """Tell whoever reads stderr where it happened."""
    text = instance.explain_trap(message)
    if text:
        data = text.encode("utf-8", "replace")
        try:
            os.write(2, data)
        except OSError:
            return


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.path[:0] = sys.argv[1:3]
    if sys.argv[3:] == ["--probe"]:
        from corral.wasi.trial import try_machine

        sys.stdout.write(f"{try_machine()}\n")
    elif sys.argv[3:] == ["--serve"]:
        from corral.wasi.worker import serve

        serve(_watch_lifeline, _watch_limits)
    else:
        main()
