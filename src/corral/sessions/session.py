"""Session: a sandbox that is kept, for many commands. The method to read first is `Session.run`."""

from __future__ import annotations

import os
import posixpath
import threading
import time
from contextlib import contextmanager, nullcontext

from corral.model.errors import SessionClosed, SetupError
from corral.model.plan import Command
from corral.pipeline.arguments import arguments_of, read_options, seconds_of, variables_of
from corral.pipeline.planned_run import quarantine_for
from corral.planning.build import check_command
from corral.runtime.launcher.job import Job
from corral.sessions.recorded import run_recorded
from corral.sessions.session_files import SessionFiles
from corral.sessions.successor import Handover, busy, make_server, quarantined
from corral.streams.doors import Doors
from corral.streams.streams import PipedStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self, Unpack

    from corral.model.event import Event
    from corral.model.result import Result, UsageSample
    from corral.pipeline.call_options import KeptOptions
    from corral.protected_names.session_guard import SessionGuard
    from corral.runtime.launcher.freeze import Frozen
    from corral.runtime.launcher.job import Target as Sandboxed
    from corral.runtime.launcher.server import JobPipes, SandboxServer
    from corral.sandbox import Sandbox
    from corral.sandbox_files.base import Files
    from corral.sessions.background import Background
    from corral.sessions.live_network import LiveNetwork
    from corral.streams.streams import InheritedStreams

_STATE = ".corral-state"
#: For those who watch over what was ended with its sandbox.
_END_SECONDS = 15.0


class Session(SessionFiles):
    """One sandbox, made once, in which commands run one after another or at the same time.

    What they leave stays for the next: files, what lies in the private areas, servers that run on. Limits of
    memory, processors, processes and disk hold for all of them together, and every command that runs counts
    as one process more; of time and output for each one. Processor time is counted from the start of a
    command, with all that runs beside it.
    Safe to use from several threads. It ends with `close`, or with the `with` block, and everything in it.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._lock = threading.RLock()
        self._stateful = threading.Lock()
        self._jobs: set[Job] = set()
        self._left: dict[JobPipes, threading.Thread] = {}
        self._background: list[Background] = []
        self._files: Files | None = None
        self._is_closed, self._owner = False, os.getpid()
        self.id, self.began = os.urandom(8).hex(), time.time()
        self._handover = Handover()
        self._is_waiting = False  # for a successor: the sandbox before it is gone
        self._unfit: SetupError | None = None  # why there can be none, until `reset`
        self.made_anew = 0  # how often, because the host has changed
        self._frozen: Frozen | None = None  # everything in it, where the policy wants that
        self._kept, self._guard = make_server(sandbox, self._handover)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def backend(self) -> str:
        """The backend that enforces its policy."""
        return self._kept.launch.backend

    @property
    def pid(self) -> int:
        """The process that was started for the sandbox; when it ends, all is over. 0 if it has."""
        return self._kept.pid

    def is_lost(self) -> bool:
        """Whether it has ended by itself; one that makes a successor for its sandbox has not."""
        with self._lock:
            return not self._is_waiting and not self._kept.is_alive

    def lost(self) -> SetupError:
        """Why it takes no more commands, if nobody has closed it."""
        return self._kept.gone()

    @property
    def output_bytes(self) -> int | None:
        """How much one command may print."""
        return self._kept.plan.resolved.limits.output_bytes

    @property
    def doors(self) -> Doors:
        """Which descriptors of a caller its commands do not get as they are."""
        return Doors(self._kept.plan, self._kept.launch)

    @property
    def is_open(self) -> bool:
        """Whether it still accepts commands."""
        return not self._is_closed and (self._kept.is_alive or self._is_waiting)

    @property
    def network(self) -> LiveNetwork:
        """Which hosts may be reached from now on, and the traffic. Another object after `reset`."""
        from corral.sessions.live_network import LiveNetwork

        kept = self._kept
        return LiveNetwork(kept.plan, kept.launch, kept.network or self._handover.network)

    def run(
        self, command: str | Sequence[str], *, stateful: bool = False, **options: Unpack[KeptOptions]
    ) -> Result:
        """Run a command and return what happened; the options are those of `Sandbox.run`.

        `cwd` is a path of the host in the workspace, or a path inside; `env` has further variables, and
        `timeout` can only shorten the policy's own. With `stateful` the command begins in the working
        directory and with the exported variables that the last such command ended with, one at a time; but
        `cwd` and `env` win.
        """
        turn = (
            self.turn(command, options.get("cwd"), options.get("env")) if stateful else nullcontext(command)
        )
        with turn as taken:
            return self.finish(self.prepare(taken, **options))

    def prepare(self, command: str | Sequence[str], **options: Unpack[KeptOptions]) -> Job:
        """Everything but the run itself, which `finish` does: the caller may want to hold on to it."""
        read = read_options(**options)
        job = self.prepare_on(
            PipedStreams(self.output_bytes, read.stdin, read.output, self._open_null),
            arguments_of(command),
            cwd=read.cwd,
            env=read.env,
            timeout=read.timeout,
        )
        job.listen(read.on_event)
        return job

    def prepare_on(
        self,
        streams: InheritedStreams,
        argv: tuple[str, ...],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        terminal: bool = False,
        is_background: bool = False,
        keeps: bool = True,
    ) -> Job:
        """The same on streams of the caller's own, for a command as the kernel takes it.

        Without `keeps` nothing that the command has started outlives it.
        """
        with self._lock:
            self._check_open()
            kept, guard = self._kept, self._guard
            notes = (*kept.starter.take_notes(), *self._handover.take_notes())
        directory = self._inside(cwd)
        check_command(Command(argv, directory))
        limit = None if is_background else kept.plan.resolved.limits.wall_seconds
        wall = seconds_of(limit, timeout)
        variables = tuple(variables_of(env).items())
        wall_ms = 0 if wall is None else max(1, int(wall * 1000))

        def encode(kept: SandboxServer) -> bytes:
            return kept.encode(
                argv, directory, env=variables, wall_ms=wall_ms, terminal=terminal, keeps=keeps
            )

        def succeed(job: Job, stale: SetupError) -> Sandboxed:
            with self._lock:
                if job.kept is self._kept and not self._is_waiting:  # else another command has begun it
                    self._succeed(stale)
                self._check_open()
                notes = (*self._kept.starter.take_notes(), *self._handover.take_notes())
                return self._kept, self._guard, encode(self._kept), notes

        return Job(
            kept,
            encode(kept),
            streams,
            wall_seconds=wall,
            guard=guard,
            leave=self._leave if keeps else None,
            succeed=succeed if keeps else None,  # a pool takes another one
            isolate=self._isolate if keeps else None,
            is_background=is_background,
            notes=notes,
            argv=argv,
            directory=directory,
            quarantine=quarantine_for(kept.plan.run_id),
        )

    @contextmanager
    def turn(
        self,
        command: str | Sequence[str],
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Iterator[tuple[str, ...]]:
        """What to run for a stateful command, while it is its turn: they run one at a time."""
        with self._stateful:
            yield self._remembered(command, cwd, env)

    def finish(self, job: Job) -> Result:
        """Run what was prepared."""
        with self._lock:
            if self._is_closed:
                raise SessionClosed()
            if self._frozen is not None and self._unfit is not None:  # since it was prepared
                raise self._unfit
            self._jobs.add(job)
        try:
            return run_recorded(job, self._sandbox.recorder, self.id)
        finally:
            with self._lock:
                self._jobs.discard(job)

    def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str = b"",
        timeout: float | None = None,
    ) -> Background:
        """Start a command and return at once; it runs until it ends, is ended, or the session ends.

        The policy's limit of time does not count for it, unless `timeout` is given.
        """
        from corral.sessions.background import Background

        process = Background(self, arguments_of(command), cwd=cwd, env=env, stdin=stdin, timeout=timeout)
        with self._lock:
            self._background = [other for other in self._background if other.is_running] + [process]
        return process

    def processes(self) -> tuple[Background, ...]:
        """The commands started with `start` that are still running."""
        with self._lock:
            return tuple(process for process in self._background if process.is_running)

    def shell(self, command: str | Sequence[str] = ("/bin/sh", "-i")) -> Result:
        """Run a command on a terminal of its own, relayed to the caller's: a shell, or what is given."""
        from corral.streams.terminal import TerminalStreams

        env = {"TERM": os.environ.get("TERM", "dumb")}
        streams = TerminalStreams(self._kept.plan.resolved.limits.output_bytes)
        return self.finish(self.prepare_on(streams, arguments_of(command), env=env, terminal=True))

    def usage(self) -> UsageSample:
        """What everything in it has used so far."""
        from corral.sessions.session_usage import sample_usage

        with self._lock:
            self._check_open()
            kept = self._kept
        return sample_usage(kept, self.began)

    def reset(self) -> None:
        """End everything that runs in it, discard its private areas, and start again."""
        with self._lock:
            self._check_open(alive=False)
            self._end()
            self._unfit = None
            self._is_waiting = True
            self._replace()

    def close(self) -> None:
        """End it, and everything that runs in it. Returns when all is gone.

        A process that was forked has copies of its descriptors, and it is not its to end.
        """
        if os.getpid() != self._owner:
            self._is_closed = True
            return
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._end()

    def _isolate(self, event: Event) -> bool:
        """Freeze everything in it, until it is reset or closed; nothing else runs there."""
        from corral.runtime.launcher.freeze import freeze_kept

        with self._lock:
            if self._frozen is None:
                try:
                    self._frozen = freeze_kept(self._kept)
                except OSError:
                    return False
                self._unfit = quarantined(event)
            for job in tuple(self._jobs):
                job.stop_waiting()
        return True

    def _end(self) -> None:
        for job in tuple(self._jobs):
            job.kill()
        if self._frozen is not None:
            self._frozen.kill()
            self._frozen = None
        self._kept.close()
        for thread in tuple(self._left.values()):
            thread.join()
        if self._guard is not None:
            self._guard.close()
        self._handover.drop()
        self._files = None

    def _succeed(self, stale: SetupError) -> None:
        """Make a successor of a sandbox that does not fit the host any more.

        TRUST: what a command leaves running could change what the host has just put in a protected place, and
        nothing covers that in the old sandbox. So it is ended. A command that somebody waits for goes on
        until its end, as a single run does; until then there is no successor.
        """
        self._check_open(alive=False)
        guard = self._guard
        assert guard is not None
        if not guard.retire():
            raise busy(stale)
        background = [job for job in self._jobs if job.is_background and job.is_requested]
        self._handover.take(self._kept, ended=len(background) + len(self._left))
        for job in background:
            job.kill()
        self._kept.close()
        for thread in tuple(self._left.values()):
            thread.join()
        self._files = None
        self._is_waiting = True
        self._await_idle(guard)
        self._replace()
        self.made_anew += 1

    def _await_idle(self, guard: SessionGuard) -> None:
        """INVARIANT: no plan is made before it is sure that nothing is left of what the commands planted."""
        deadline = time.monotonic() + _END_SECONDS
        while not guard.is_idle and time.monotonic() < deadline:
            time.sleep(0.002)  # seldom, and not for long: everything has ended
        try:
            if not guard.is_idle:
                raise busy(self._kept.gone())
            guard.retire()
        except SetupError as problem:
            self._unfit = problem
            raise
        finally:
            self._handover.untold += guard.close()

    def _replace(self) -> None:
        """Raises what making a sandbox raises; then the next command tries again."""
        self._sandbox.planner.forget_resolved()  # what the host has made since may hold a repository
        self._kept, self._guard = make_server(self._sandbox, self._handover)
        self._is_waiting = False

    def _file_access(self, watch: Callable[[SessionGuard], object] | None = None) -> Files:
        with self._lock:
            self._check_open(alive=self._frozen is None or watch is not None)
            if self._frozen is None:  # else to be looked at
                self._watch(watch or (lambda guard: guard.check()))
            return self._opened_files()

    def _watch(self, watch: Callable[[SessionGuard], object]) -> None:
        """TRUST: what is denied and was made since the last command is hidden by nothing yet."""
        try:
            if self._guard is not None:
                watch(self._guard)
        except SetupError as stale:
            if stale.code != "session-stale":
                raise
            self._succeed(stale)
            if self._guard is not None:
                watch(self._guard)

    def _opened_files(self) -> Files:
        if self._files is None:
            from corral.sandbox_files.opening import files_of

            self._files = files_of(self._kept, self._inside(None))
        return self._files

    def _open_null(self) -> int:
        return self._kept.open_null()

    def _leave(self, ends: JobPipes) -> None:
        """A command has ended and left something running: it is watched over until that ends."""
        from corral.runtime.launcher.orphans import watch_orphans

        guard = self._guard
        if guard is not None:
            guard.stay()

        def done() -> None:
            self._left.pop(ends, None)

        self._left[ends] = watch_orphans(ends, guard, done)

    def _check_open(self, *, alive: bool = True) -> None:
        if self._is_closed or os.getpid() != self._owner:
            raise SessionClosed()
        if not alive:
            return
        if self._unfit is not None:
            raise self._unfit
        if self._is_waiting:
            self._replace()
        if not self._kept.is_alive:
            raise self._kept.gone()

    def _inside(self, cwd: str | os.PathLike[str] | None) -> str:
        """A working directory as it is called inside."""
        workspace = self._sandbox.workspace
        path = workspace if cwd is None else posixpath.normpath(posixpath.join(workspace, os.fspath(cwd)))
        for outside, inside in self._kept.inside.places:
            if path == outside or path.startswith(f"{outside}/"):
                return inside + path[len(outside) :]
        return path

    def _remembered(
        self,
        command: str | Sequence[str],
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
    ) -> tuple[str, ...]:
        from corral.sessions.stateful import remember

        is_line = isinstance(command, str) and bool(command.strip())
        argv, line = ((), str(command)) if is_line else (arguments_of(command), "")
        areas = dict(self._kept.inside.env)
        state = f"{areas.get('TMPDIR', '/tmp')}/{_STATE}"
        return remember(argv, line, state, cwd=None if cwd is None else self._inside(cwd), env=env)
