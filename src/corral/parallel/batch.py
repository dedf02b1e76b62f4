"""Batch: many commands, one after the other or some at a time; and the handle by which they are ended."""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import FIRST_COMPLETED, CancelledError, wait

from corral.model.errors import CallError, CorralError, PolicyError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Executor, Future
    from typing import Any, Protocol

    from corral.model.result import Result
    from corral.parallel.progress import Tell

    class Begun(Protocol):
        """One command that is planned and not yet run."""

        def run(self) -> Result:
            """Run it to its end. After `kill`, whenever that came, it ends at once."""

        def kill(self) -> None:
            """Take the whole tree down; from any thread, at any time."""

    #: All that an executor needs of whatever runs commands: a sandbox today, a pool or a session as well.
    Begin = Callable[["Step"], Begun]

    class Signal(Protocol):
        """A threading.Event, or whatever can say that it is enough."""

        def is_set(self) -> bool: ...

    StepLike = str | Sequence[Any] | Mapping[str, Any]

#: What a step may say besides its command; the arguments of `Sandbox.run`.
HOW = frozenset({"cwd", "stdin", "stream", "stdout", "stderr", "on_event"})
#: How often a caller's own signal is looked at. What ends by itself is seen at once.
_LOOK_SECONDS = 0.05


_LONGEST_WAIT_SECONDS = 0.5


class Step(Record):
    """One command of a batch: a text for a shell, or the arguments of a program."""

    command: str | tuple[str, ...]
    how: Mapping[str, Any]


def read_step(step: StepLike) -> Step:
    """A step in any of its forms. Raises PolicyError.

    "make test"                                   a text for a shell
    ["make", "test"]                              a program and its arguments
    ("make", ["test"])                            the same
    {"command": "make", "args": ["test"]}         the same; cwd, stdin, stream, stdout, stderr, on_event
    """
    if isinstance(step, str):
        return Step(step, {})
    if hasattr(step, "keys"):
        return _read_mapping(step)
    parts = list(step)
    if len(parts) == 2 and isinstance(parts[1], list | tuple):
        return make_step(parts[0], parts[1])
    return make_step(parts, None)


def make_step(command: str | Sequence[Any], args: Iterable[Any] | None, how: Mapping[str, Any] = {}) -> Step:
    """A command with arguments of its own is never given to a shell, not even with an empty list of them."""
    if args is None and isinstance(command, str):
        return Step(command, how)
    if isinstance(args, str | bytes):
        raise _not_a_step(f"{args!r} is one text", "give the arguments as a list: ['-l', '-a']")
    parts = [command] if isinstance(command, str | os.PathLike) else list(command)
    try:
        return Step(tuple(os.fspath(part) for part in (*parts, *(args or ()))), how)
    except TypeError as problem:
        raise _not_a_step(str(problem), "commands and arguments are texts or paths") from None


def _read_mapping(step: Any) -> Step:
    unknown = sorted(map(str, set(step) - HOW - {"command", "args"}))
    if unknown or "command" not in step:
        why = f"a step has no {unknown[0]!r}" if unknown else "it has no 'command'"
        raise _not_a_step(why, f"write 'command', 'args', and of {', '.join(sorted(HOW))} what is needed")
    return make_step(step["command"], step.get("args"), {key: step[key] for key in step if key in HOW})


def _not_a_step(why: str, fix: str) -> PolicyError:
    return PolicyError("step-syntax", "this is not a step that could be run", why=why, fix=fix)


class CancelHandle:
    """Holds together what is under way, so that all of it can be ended, begun or not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: set[Begun] = set()
        self.is_cut = False

    def run(self, begin: Callable[[], Begun]) -> Result:
        """Run a command to its end, if it is still wanted. Raises CallError if it is not."""
        if self.is_cut:
            raise not_started()
        begun = begin()
        with self._lock:
            if self.is_cut:
                raise not_started()
            self._begun.add(begun)
        try:
            return begun.run()
        finally:
            with self._lock:
                self._begun.discard(begun)

    def cut(self) -> None:
        """End what runs; what comes later does not begin."""
        with self._lock:
            self.is_cut = True
            begun = tuple(self._begun)
        for one in begun:
            one.kill()


def not_started() -> CallError:
    """What stands for a step or a call that never began."""
    return CallError(
        "cancelled",
        "it was cancelled before it began",
        why="the caller asked for this, or another step could not be run",
        fix="run it again, if it is still wanted",
    )


def run_sequence(
    steps: Sequence[Step], run: Callable[[Step], Result], *, stop_on_failure: bool, return_errors: bool
) -> list[Any]:
    """One after the other; the list has what was run, and so is shorter where something stopped it."""
    found: list[Any] = []
    for number, step in enumerate(steps):
        try:
            found.append(run(step))
        except CorralError as error:
            if not return_errors:
                error.add_note(f"in step {number + 1} of {len(steps)}")
                raise
            found.append(error)
        if stop_on_failure and not getattr(found[-1], "ok", False):
            break
    return found


class Parallel:
    """One batch of steps, at most so many at a time. Used once."""

    def __init__(
        self, threads: Executor, handle: CancelHandle, begin: Begin, at_once: int, *, return_errors: bool
    ) -> None:
        self._threads = threads
        self._handle = handle
        self._begin = begin
        self._at_once = at_once
        self._return_errors = return_errors
        self._running: dict[Future[Result], int] = {}
        self._found: dict[int, Result | CorralError] = {}
        self._error: CorralError | None = None  # what stopped it

    def run(self, steps: Sequence[Step], tell: Tell, cancel: Signal | None) -> list[Any]:
        """The results in the order of the steps. INVARIANT: nothing of it runs any more when this is left."""
        waiting = deque(enumerate(steps))
        try:
            while waiting or self._running:
                if cancel is not None and cancel.is_set():
                    self._handle.cut()
                if self._handle.is_cut:
                    waiting.clear()
                while waiting and len(self._running) < self._at_once:
                    self._start(*waiting.popleft())
                tell(len(self._found), self._failures(), len(self._running), len(steps))
                self._collect(_LOOK_SECONDS if cancel is not None else None)
            tell(len(self._found), self._failures(), 0, len(steps))
        except BaseException:  # an interrupt of the caller's, or what a function of his raised
            self._handle.cut()
            wait(self._running)
            raise
        return self._results(len(steps))

    def _start(self, number: int, step: Step) -> None:
        try:
            future = self._threads.submit(self._handle.run, lambda: self._begin(step))
        except RuntimeError:  # the executor was shut down
            if not self._handle.is_cut:
                raise
            self._found[number] = not_started()
        else:
            self._running[future] = number

    def _collect(self, patience: float | None) -> None:
        # An interrupt that comes right before a wait is raised after it: it must not be a long one.
        longest = _LONGEST_WAIT_SECONDS if patience is None else patience
        for future in wait(self._running, longest, FIRST_COMPLETED).done:
            number = self._running.pop(future)
            try:
                self._found[number] = future.result()
            except CancelledError:
                self._found[number] = not_started()
            except CorralError as error:
                self._found[number] = error
                if not self._return_errors and self._error is None:
                    error.add_note(f"in step {number + 1}")
                    self._error = error
                    self._handle.cut()

    def _failures(self) -> int:
        return sum(not getattr(found, "ok", False) for found in self._found.values())

    def _results(self, count: int) -> list[Any]:
        if not self._return_errors and (self._error is not None or self._handle.is_cut):
            raise self._error or not_started()
        return [self._found.get(number) or not_started() for number in range(count)]
