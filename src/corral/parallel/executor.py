"""SandboxExecutor: commands and Python functions, one or many, each in a sandbox of its own."""

from __future__ import annotations

import os
import sys
from concurrent.futures import Executor, ThreadPoolExecutor
from threading import Lock
from typing import overload

from corral.model.errors import CallError
from corral.parallel.batch import CancelHandle, Parallel, make_step, read_step, run_sequence
from corral.parallel.calls.codec import Bounds
from corral.parallel.progress import Teller
from corral.policy.preset import DEFAULT_PRESET
from corral.sandbox import Sandbox
from corral.streams.destinations import Destinations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Any, Literal, ParamSpec, TypeVar, Unpack

    from corral.model.errors import CorralError
    from corral.model.event import Listener
    from corral.model.policy import Policy
    from corral.model.result import Result
    from corral.parallel.batch import Begun, Signal, Step, StepLike
    from corral.parallel.functions import Call, Functions
    from corral.parallel.progress import Progress
    from corral.pipeline.arguments import SandboxOptions
    from corral.streams.destinations import Stream, Target

    P = ParamSpec("P")
    T = TypeVar("T")


class SandboxExecutor(Executor):
    """Runs commands with `execute` and its two sisters, Python functions with `submit` and `map`.

    `policy` is a Sandbox, or what a Sandbox is made of, with the same further arguments. At most
    `max_workers` commands of batches and functions run at a time. A result of a function takes
    `max_result_bytes` at most; `output` is called, by any thread, with what functions print, which else
    nobody sees.

    `shutdown(cancel_futures=True)`, `kill` and an interrupt that leaves the `with` block end what runs.
    """

    def __init__(
        self,
        policy: Sandbox | Policy | str = DEFAULT_PRESET,
        *,
        max_workers: int | None = None,
        max_result_bytes: int | None = None,
        output: Callable[[bytes], object] | None = None,
        **options: Unpack[SandboxOptions],
    ) -> None:
        if isinstance(policy, Sandbox):
            if options:
                raise TypeError(f"a Sandbox is given, and so {', '.join(sorted(options))} cannot be")
            self._sandbox = policy
        else:
            self._sandbox = Sandbox(policy, **options)
        self._at_once = _processors() if max_workers is None else max_workers
        self._threads = ThreadPoolExecutor(self._at_once, "corral-executor")
        self._bounds = Bounds() if max_result_bytes is None else Bounds(max_result_bytes)
        self._output = output
        self._lock = Lock()
        self._live: dict[CancelHandle, Future[Any] | None] = {}  # the future of a call; commands have none
        self._functions: Functions | None = None

    @property
    def sandbox(self) -> Sandbox:
        """Where commands run. Functions run in the same, with the caller's Python to be read besides."""
        return self._sandbox

    def execute(
        self,
        command: str | Sequence[str],
        args: Iterable[str] | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        stdin: bytes | str = b"",
        stream: Stream | None = None,
        stdout: Target | None = None,
        stderr: Target | None = None,
        on_event: Listener | None = None,
    ) -> Result:
        """Run one command and return what happened, as `Sandbox.run` does; in the thread of the caller.

        With `args`, be it an empty list, the command is a program. Without, a text is given to a shell.
        """
        how = {"cwd": cwd, "stdin": stdin, "stream": stream, "stdout": stdout, "stderr": stderr}
        return self._run(make_step(command, args, {**how, "on_event": on_event}))

    @overload
    def execute_sequence(
        self,
        steps: Iterable[StepLike],
        *,
        stop_on_failure: bool = ...,
        return_errors: Literal[False] = ...,
    ) -> list[Result]: ...
    @overload
    def execute_sequence(
        self, steps: Iterable[StepLike], *, stop_on_failure: bool = ..., return_errors: bool
    ) -> list[Result | CorralError]: ...

    def execute_sequence(
        self, steps: Iterable[StepLike], *, stop_on_failure: bool = True, return_errors: bool = False
    ) -> list[Any]:
        """Run commands one after another. The list has the results of those that ran.

        The first that does not succeed is the last, unless `stop_on_failure` is false. What keeps corral from
        running a step is raised; with `return_errors` it stands in the list, as a step that failed.
        """
        read = [read_step(step) for step in steps]
        handle = self._hold()  # one for all: whoever kills it does not want the next step either
        try:
            return run_sequence(
                read,
                lambda step: handle.run(lambda: self._begin(step)),
                stop_on_failure=stop_on_failure,
                return_errors=return_errors,
            )
        finally:
            self._let_go(handle)

    @overload
    def execute_parallel(
        self,
        steps: Iterable[StepLike],
        *,
        max_parallel: int | None = ...,
        progress: Callable[[Progress], object] | bool | None = ...,
        cancel: Signal | None = ...,
        return_errors: Literal[False] = ...,
    ) -> list[Result]: ...
    @overload
    def execute_parallel(
        self,
        steps: Iterable[StepLike],
        *,
        max_parallel: int | None = ...,
        progress: Callable[[Progress], object] | bool | None = ...,
        cancel: Signal | None = ...,
        return_errors: bool,
    ) -> list[Result | CorralError]: ...

    def execute_parallel(
        self,
        steps: Iterable[StepLike],
        *,
        max_parallel: int | None = None,
        progress: Callable[[Progress], object] | bool | None = None,
        cancel: Signal | None = None,
        return_errors: bool = False,
    ) -> list[Any]:
        """Run commands at the same time, at most `max_parallel`, and return their results in order.

        A command that fails is a result. What keeps corral from running a step ends the others and is raised;
        with `return_errors` it stands in its place in the list, and the others go on. `progress` is called
        with a Progress, or True: then a terminal on stderr shows a line. When `cancel`, such as a
        threading.Event, is set, what runs is killed and nothing else begins; that is a CallError, or with
        `return_errors` one for each step that did not begin.
        """
        at_once = self._at_once if max_parallel is None else max_parallel
        if at_once < 1:
            raise ValueError("max_parallel must be at least 1")
        read, teller, handle = [read_step(step) for step in steps], Teller(progress), self._hold()
        try:
            batch = Parallel(self._threads, handle, self._begin, at_once, return_errors=return_errors)
            return batch.run(read, teller.tell, cancel)
        finally:
            teller.close()
            self._let_go(handle)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a Python function in a fresh sandboxed worker, and return a Future for what it returns.

        The function is found by its name, as with multiprocessing's `spawn`: no lambda, nothing that is
        defined inside a function. Arguments and result are plain values. Raises PolicyError for
        what cannot be sent; the Future raises RemoteError for what the function raised, and CallError if it
        gave no result.
        """
        with self._lock:
            if self._functions is None:
                from corral.parallel.functions import Functions  # who runs commands only never needs it

                self._functions = Functions(self._sandbox, self._bounds, self._output)
            functions = self._functions
        call, handle = functions.prepare(fn, args, kwargs), self._hold()
        try:
            future: Future[Any] = self._threads.submit(self._call, functions.sandbox, call, handle)
        except BaseException:
            self._let_go(handle)
            raise
        with self._lock:
            self._live[handle] = future
        future.add_done_callback(lambda _: self._let_go(handle))  # at once, if it is done already
        return future

    def kill(self) -> None:
        """End everything that is running, and cancel what is waiting. The executor can be used again."""
        with self._lock:
            live = tuple(self._live.items())
        for handle, future in live:
            if future is None or not future.cancel():  # it runs
                handle.cut()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept nothing more. With `cancel_futures`, waiting calls are cancelled, running ones killed."""
        if cancel_futures:
            self.kill()  # first, so that a batch under way is cancelled and does not find its threads gone
        self._threads.shutdown(wait=False, cancel_futures=cancel_futures)
        if cancel_futures:
            self.kill()  # what has come in between
        self._threads.shutdown(wait=wait)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        # Whoever interrupts a program does not want to wait for what it has started.
        is_interrupt = value is not None and not isinstance(value, Exception)
        self.shutdown(cancel_futures=is_interrupt)
        return False

    def _begin(self, step: Step) -> Begun:
        return _begin(self._sandbox, step)

    def _run(self, step: Step) -> Result:
        handle = self._hold()
        try:
            return handle.run(lambda: self._begin(step))
        finally:
            self._let_go(handle)

    def _call(self, sandbox: Sandbox, call: Call, handle: CancelHandle) -> object:
        how = {"stdin": call.stdin, "stream": call.answer.take}
        step = make_step(call.argv, None, how)
        result = handle.run(lambda: _begin(sandbox, step))
        if handle.is_cut and not result.ok:
            raise CallError(
                "call-ended",
                "the worker was ended by the executor",
                why="it was killed, or shut down with `cancel_futures`",
                fix="submit the call again, if it is still wanted",
                result=result,
            )
        return call.answer.conclude(result)

    def _hold(self) -> CancelHandle:
        handle = CancelHandle()
        with self._lock:
            self._live[handle] = None
        return handle

    def _let_go(self, handle: CancelHandle) -> None:
        with self._lock:
            self._live.pop(handle, None)


def detect_best_sandbox(
    policy: Policy | str = DEFAULT_PRESET, *, workspace: str | os.PathLike[str] | None = None
) -> str:
    """The backend that `auto` would choose for a policy here. Raises UnenforceableError if there is none."""
    return Sandbox(policy, workspace=workspace).explain(("true",)).launch.backend


def _begin(sandbox: Sandbox, step: Step) -> Begun:
    """Plan a step, so that it can be killed from the moment it runs."""
    how = step.how
    command = sandbox.read_command(step.command, cwd=how.get("cwd"), stdin=how.get("stdin", b""))
    targets = (how.get("stream"), how.get("stdout"), how.get("stderr"))
    output = Destinations(*targets) if any(target is not None for target in targets) else None
    planned = sandbox.prepare(command, output)
    planned.listen(how.get("on_event"))
    return planned


def _processors() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
