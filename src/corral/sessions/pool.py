"""Pool: a fresh sandbox for every command, made before the command comes. Read `PooledRun.run` first."""

from __future__ import annotations

import atexit
import os
import threading

from corral.model.errors import PolicyError, SetupError
from corral.model.record import Record
from corral.pipeline.arguments import arguments_of, read_options
from corral.policy.preset import DEFAULT_PRESET
from corral.sandbox import Sandbox
from corral.sessions.fifo_semaphore import FifoSemaphore, Permit
from corral.sessions.freshness import Surroundings
from corral.sessions.session import Session
from corral.sessions.stock import SandboxStock, stands
from corral.streams.streams import PipedStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self, Unpack

    from corral.model.container import Container
    from corral.model.policy import Policy
    from corral.model.result import Result
    from corral.pipeline.arguments import RunOptions
    from corral.pipeline.call_options import KeptOptions, PoolOptions
    from corral.runtime.launcher.job import Job
    from corral.sessions.stock import Ready

_LEAST_PARALLEL = 8
#: What a sandbox says that does not fit the host any more, or is gone.
_UNFIT = frozenset({"session-stale", "path-changed", "session-lost"})


class PoolStats(Record):
    """What a pool is doing, and what it has done."""

    ready: int  # sandboxes that wait for a command
    running: int  # commands that run now
    waiting: int  # callers that wait for their turn
    ending: int  # used sandboxes that are not gone yet
    made: int  # sandboxes, from the beginning on
    used: int  # of these, those that were given a command
    late: int  # commands that found none ready, and waited until one was made
    dead: int  # sandboxes that ended by themselves before they were used
    stale: int  # sandboxes that no longer fitted the host
    expired: int  # sandboxes that waited for too long
    failed: int  # sandboxes that could not be made in the background


class Pool:
    """Runs every command in a fresh sandbox that nothing else uses.

    `sandbox` is a Sandbox, a Policy or the name of a preset. The pool keeps `size` sandboxes ready, replaces
    one that has waited for `idle_seconds`, and runs up to `max_parallel` commands at a time (`size`, at least
    8); further callers wait, in order. Safe to use from several threads. It ends with `close`, or with the
    `with` block.

    What a command may do is what it might do by `Sandbox.run` at the same moment: a sandbox that does not fit
    the host any more is thrown away, and a new one is made.
    """

    def __init__(
        self,
        sandbox: Sandbox | Policy | str = DEFAULT_PRESET,
        *,
        size: int = 4,
        max_parallel: int | None = None,
        idle_seconds: float = 300.0,
    ) -> None:
        most = max(size, _LEAST_PARALLEL) if max_parallel is None else max_parallel
        _check_above_zero(size=size, max_parallel=most, idle_seconds=idle_seconds)
        self.sandbox = sandbox if isinstance(sandbox, Sandbox) else Sandbox(sandbox)
        _check_many(self.sandbox.planner.container)
        self._surroundings = Surroundings(self.sandbox.planner.host)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._active: set[PooledRun] = set()
        self._used = self._late = 0
        self._is_closed = False
        self._turns = FifoSemaphore(most)
        self._stock = SandboxStock(
            self._make, size=size, idle_seconds=idle_seconds, most_ending=max(most, size)
        )
        atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, command: str | Sequence[str], **options: Unpack[PoolOptions]) -> Result:
        """Run a command in a fresh sandbox and return what happened; see `Session.run`.

        When it returns, nothing that the command has started runs any more. `timeout` is for the command;
        `wait` is how many seconds to stand in line at most, after which SetupError (`pool-busy`) is raised.
        """
        return self.prepare(command, **options).run()

    def prepare(
        self, command: str | Sequence[str], *, wait: float | None = None, **options: Unpack[KeptOptions]
    ) -> PooledRun:
        """Everything but the run itself: the caller may want to hold on to it, to end it."""
        return PooledRun(self, arguments_of(command), read_options(**options), wait)

    def session(self) -> Session:
        """A fresh sandbox to keep. The caller closes it; it does not count as a run."""
        self._check_open()
        ready = self._take()
        if ready.freshness.further_environment(self._surroundings) != {} or not stands(ready.session):
            self._stock.end(ready.session)
            self._distrust()
            ready = self._stock.make()
        self._count_used()
        return ready.session

    def fill(self, timeout: float | None = None) -> bool:
        """Wait until `size` sandboxes are ready; False if that takes too long.

        Raises what stands in the way of making one.
        """
        self._check_open()
        return self._stock.wait_until_full(timeout)

    def stats(self) -> PoolStats:
        """What it is doing, and what it has done."""
        counts = self._stock.counts
        ready, ending = self._stock.sizes()
        return PoolStats(
            ready=ready,
            running=self._turns.taken,
            waiting=self._turns.waiting,
            ending=ending,
            made=counts.made,
            used=self._used,
            late=self._late,
            dead=counts.dead,
            stale=counts.stale,
            expired=counts.expired,
            failed=counts.failed,
        )

    def close(self) -> None:
        """End everything: commands are killed, callers that wait get an error. Returns when all is gone."""
        if os.getpid() != self._process:
            return  # INVARIANT: a forked process never touches what is its parent's
        with self._lock:  # again, after an interrupt, it goes on where it was
            self._is_closed = True
            for run in self._active:
                run.kill()
        self._turns.close()
        with self._lock:
            while self._active:
                self._idle.wait()
        atexit.unregister(self.close)
        self._stock.close()

    def _make(self) -> Session:
        return Session(self.sandbox)

    def _take(self) -> Ready:
        """A sandbox that fits the host as it is now, as far as can be told before a command starts."""
        _ = self.sandbox.within  # raises if the ceiling has been closed
        ready = self._stock.take()
        if ready is not None and ready.freshness.changed():
            self._stock.end(ready.session)
            self._distrust()
            ready = None
        if ready is not None:
            return ready
        with self._lock:
            self._late += 1
        return self._stock.make()

    def _distrust(self) -> None:
        self.sandbox.planner.forget_resolved()
        self._stock.distrust()

    def _count_used(self) -> None:
        with self._lock:
            self._used += 1

    def _enter(self, run: PooledRun) -> None:
        with self._lock:
            self._check_open()
            self._active.add(run)

    def _leave(self, run: PooledRun) -> None:
        with self._lock:
            self._active.discard(run)
            if self._is_closed:
                self._idle.notify_all()

    def _check_open(self) -> None:
        if os.getpid() != self._process:
            raise SetupError(
                "pool-forked",
                "the pool belongs to another process",
                why="this process was forked from the one that made it, and its sandboxes would be shared",
                fix="make a separate pool in every process, after the fork",
            )
        if self._is_closed:
            raise _closed()


class PooledRun:
    """One command. `kill` may be called from another thread, at any time."""

    def __init__(self, pool: Pool, argv: tuple[str, ...], options: RunOptions, wait: float | None) -> None:
        self._pool, self._argv, self._options, self._wait = pool, argv, options, wait
        self._turn = Permit()
        self._job: Job | None = None
        self._is_unwanted = False

    def kill(self) -> None:
        """End the command and everything that it has started; if it has not begun, it never does."""
        self._is_unwanted = True
        self._pool._turns.withdraw(self._turn)
        job = self._job  # ORDER: after the flag is set; `_run_in` does it the other way round
        if job is not None:
            job.kill()

    def run(self) -> Result:
        """Wait for a turn, take a sandbox and do it. Raises SetupError if the command was not started."""
        pool = self._pool
        pool._check_open()
        if not pool._turns.take(self._turn, self._wait):
            raise _closed() if pool._is_closed else self._not_begun()
        try:
            pool._enter(self)
            try:
                return self._try()
            finally:
                pool._leave(self)
        finally:
            pool._turns.give()

    def _try(self) -> Result:
        """A sandbox that turns out to be unfit before it was told of the command is replaced."""
        pool = self._pool
        ready = pool._take()
        for is_last in (False, False, True):
            try:
                further = ready.freshness.further_environment(pool._surroundings)
                if further is not None:
                    return self._run_in(ready, further)
            except SetupError as problem:
                if is_last or problem.code not in _UNFIT or problem.ran or self._is_requested:
                    raise
            finally:
                pool._stock.end(ready.session)
            pool._distrust()
            ready = pool._stock.make()
        raise AssertionError("the last one returns, or raises")

    @property
    def _is_requested(self) -> bool:
        """INVARIANT: a command that a sandbox was told of may have run, and is never given to another."""
        return self._job is not None and self._job.is_requested

    def _run_in(self, ready: Ready, further: dict[str, str]) -> Result:
        session = ready.session
        options = self._options
        env = {**further, **(options.env or {})}
        streams = PipedStreams(session.output_bytes, options.stdin, options.output, session._kept.open_null)
        job = session.prepare_on(
            streams,
            self._argv,
            cwd=options.cwd,
            env=env,
            timeout=options.timeout,
            keeps=False,
        )
        job.listen(options.on_event)
        self._job = job
        if self._is_unwanted:
            raise self._not_begun()
        self._pool._count_used()
        return session.finish(job)

    def _not_begun(self) -> SetupError:
        if self._is_unwanted:
            return SetupError(
                "cancelled",
                "the command was ended before it began",
                why="somebody has called `kill`",
                fix="run it again, if it is wanted after all",
            )
        waited = self._wait or 0
        return SetupError(
            "pool-busy",
            "timed out waiting for a free sandbox",
            why=f"as many commands as permitted ran for {waited:g} seconds, and others were first",
            fix="wait longer, or give the pool a larger `max_parallel`",
        )


def _closed() -> SetupError:
    return SetupError(
        "pool-closed",
        "the pool accepts no more commands",
        why="it has been closed",
        fix="make a new one, or run commands inside its `with` block",
    )


def _check_above_zero(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise PolicyError(
                "pool-size",
                f"a pool cannot have {name}={number:g}",
                why="no command would ever run in it",
                fix="give a number above zero, or leave it out",
            )


def _check_many(container: Container) -> None:
    """Of a container with a name there can be one, and one for each command is too many to keep."""
    said = "name" if container.name else "keep" if container.keep else ""
    if said:
        raise PolicyError(
            "container-setting",
            f"a pool cannot have `container.{said}`",
            why="it makes many containers beforehand, one for each command",
            fix=f"leave out `{said}`, or run the command with `Sandbox.run`",
        )
