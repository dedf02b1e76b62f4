"""Session: a sandbox that is kept, for many commands. The method to read first is `Session.run`."""

from __future__ import annotations

import os
import posixpath
import threading
import time
from contextlib import contextmanager

from corral.attempt import quarantine_for
from corral.crossing import open_crossing
from corral.given import arguments_of, bytes_of, destinations_of
from corral.model.errors import PolicyError, SessionClosed, SetupError
from corral.model.plan import Command
from corral.planning.build import check_command
from corral.runtime.doors import Doors
from corral.runtime.job import Job
from corral.runtime.kept import Kept
from corral.runtime.lookout import Lookout
from corral.runtime.scratch import copies_of
from corral.runtime.streams import PipedStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from corral.background import Background
    from corral.live import LiveNetwork
    from corral.model.entry import FileEntry
    from corral.model.result import Result, UsageSample
    from corral.runtime.destinations import Stream, Target
    from corral.runtime.files.base import Files
    from corral.runtime.kept import Ends
    from corral.runtime.streams import InheritedStreams
    from corral.sandbox import Sandbox

_STATE = ".corral-state"
#: Failures of a start that say nothing about whether its backend works.
_NOT_THE_BACKENDS = frozenset({"path-changed", "exec", "streams", "scratch", "copies"})


class Session:
    """One sandbox, made once, in which commands run one after the other or at the same time.

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
        self._left: dict[Ends, threading.Thread] = {}
        self._background: list[Background] = []
        self._files: Files | None = None
        self._is_closed = False
        self._owner = os.getpid()
        self.id = os.urandom(8).hex()
        self.began = time.time()
        self._kept, self._lookout = self._make()

    def _make(self) -> tuple[Kept, Lookout | None]:
        try:
            return self._made()
        except SetupError as problem:
            if problem.code != "path-changed":
                raise
            self._sandbox._forget_ground()
            return self._made()

    def _made(self) -> tuple[Kept, Lookout | None]:
        explanation = self._sandbox._explain(Command((), self._sandbox.workspace, keeps=True))
        crossing = open_crossing(explanation, self._sandbox.network)
        plan = crossing.plan
        copies = copies_of(plan, crossing.launch)
        kept = Kept(
            plan, crossing.launch, within=self._sandbox._beneath(), border=crossing.border, copies=copies
        )
        has_to_look = plan.watches or plan.shields or plan.pins or plan.ground.denied
        # ORDER: before the mounts are made, so that what they cover is held from then on.
        lookout: Lookout | None = None
        try:
            lookout = Lookout(plan, quarantine_for(plan.run_id), copies) if has_to_look else None
            kept.start()
        except BaseException as problem:
            if crossing.border is not None:
                crossing.border.close()
            if lookout is not None:
                lookout.close()
            if isinstance(problem, SetupError) and problem.code not in _NOT_THE_BACKENDS:
                self._sandbox._forget_probe(explanation.launch.backend)
            raise
        return kept, lookout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def backend(self) -> str:
        """The backend that holds it."""
        return self._kept.launch.backend

    @property
    def pid(self) -> int:
        """The process that was started for the sandbox; when it ends, all is over. 0 if it has."""
        return self._kept.pid

    def lost(self) -> SetupError:
        """Why it takes no more commands, if nobody has closed it."""
        return self._kept.gone()

    @property
    def output_bytes(self) -> int | None:
        """How much one command may print."""
        return self._kept.plan.ground.limits.output_bytes

    @property
    def doors(self) -> Doors:
        """Which descriptors of a caller its commands do not get as they are."""
        return Doors(self._kept.plan, self._kept.launch)

    @property
    def is_open(self) -> bool:
        """Whether it still takes commands."""
        return not self._is_closed and self._kept.is_alive

    @property
    def network(self) -> LiveNetwork:
        """Who may be reached, from now on, and what has passed. Not the same after `reset`."""
        from corral.live import LiveNetwork

        kept = self._kept
        return LiveNetwork(kept.plan, kept.launch, kept.border)

    def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str = b"",
        stream: Stream | None = None,
        stdout: Target | None = None,
        stderr: Target | None = None,
        timeout: float | None = None,
        stateful: bool = False,
    ) -> Result:
        """Run a command and return what happened; see `Sandbox.run`.

        `cwd` is a path of the host in the workspace, or a path inside; `env` has further variables, and
        `timeout` can only shorten the policy's own. With `stateful` the command begins in the working
        directory and with the exported variables that the last such command ended with, one at a time; but
        `cwd` and `env` win.
        """
        output = destinations_of(stream, stdout, stderr)
        streams = PipedStreams(self.output_bytes, bytes_of(stdin), output, self._kept.open_null)
        if not stateful:
            return self.finish(
                self.prepare(arguments_of(command), streams, cwd=cwd, env=env, timeout=timeout)
            )
        with self.turn(command, cwd, env) as argv:
            return self.finish(self.prepare(argv, streams, cwd=cwd, env=env, timeout=timeout))

    def prepare(
        self,
        argv: tuple[str, ...],
        streams: InheritedStreams,
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        terminal: bool = False,
        is_background: bool = False,
        keeps: bool = True,
    ) -> Job:
        """Everything but the run itself: the caller may want to hold on to it, to pass signals on.

        Without `keeps` nothing that the command has started outlives it.
        """
        with self._lock:
            self._check_open()
            kept, lookout = self._kept, self._lookout
        directory = self._inside(cwd)
        check_command(Command(argv, directory))
        limit = None if is_background else kept.plan.ground.limits.wall_seconds
        wall = _shorter(limit, timeout)
        spec = kept.encode(
            argv,
            directory,
            env=tuple(_checked(env).items()) if env else (),
            wall_ms=0 if wall is None else max(1, int(wall * 1000)),
            terminal=terminal,
            keeps=keeps,
        )
        leave = self._leave if keeps else None
        return Job(kept, spec, streams, wall_seconds=wall, lookout=lookout, leave=leave)

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
            self._jobs.add(job)
        try:
            return job.run()
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
        """Start a command and come back at once; it runs until it ends, is ended, or the session is.

        The policy's limit of time does not count for it, unless `timeout` is given.
        """
        from corral.background import Background

        process = Background(self, arguments_of(command), cwd=cwd, env=env, stdin=stdin, timeout=timeout)
        with self._lock:
            self._background = [other for other in self._background if other.is_running] + [process]
        return process

    def processes(self) -> tuple[Background, ...]:
        """What was started with `start` and still runs."""
        with self._lock:
            return tuple(process for process in self._background if process.is_running)

    def shell(self, command: str | Sequence[str] = ("/bin/sh", "-i")) -> Result:
        """Run a command on a terminal of its own, relayed to the caller's: a shell, or what is given."""
        from corral.runtime.terminal import TerminalStreams

        env = {"TERM": os.environ.get("TERM", "dumb")}
        streams = TerminalStreams(self._kept.plan.ground.limits.output_bytes)
        return self.finish(self.prepare(arguments_of(command), streams, env=env, terminal=True))

    def read_file(self, path: str | os.PathLike[str], *, limit: int | None = None) -> bytes:
        """The content of a file, as commands of the session see it; at most `limit` bytes.

        This and what follows is done by corral itself, outside, and by no link it is led out of what the
        session shows. Paths are of the workspace, relative to it, or inside. Raises OSError as `open` does.
        """
        return self._file_access().read(self._inside(path), limit=limit)

    def write_file(
        self,
        path: str | os.PathLike[str],
        data: bytes | str,
        *,
        mode: int = 0o644,
        parents: bool = False,
    ) -> None:
        """Put content into a file, all of it or nothing, where commands of the session may write."""
        self._file_access().write(self._inside(path), bytes_of(data), mode=mode, parents=parents)

    def list_dir(self, path: str | os.PathLike[str] = ".") -> tuple[FileEntry, ...]:
        """What lies in a directory, by name."""
        return self._file_access().list(self._inside(path))

    def upload(self, source: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
        """Copy a file or a directory of the host into the session."""
        self._file_access().upload(source, self._inside(path))

    def download(self, path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        """Copy a file or a directory out of the session, to where nothing is yet."""
        self._file_access().download(self._inside(path), target)

    def _file_access(self) -> Files:
        with self._lock:
            self._check_open()
            if self._files is None:
                from corral.runtime.files.of import files_of

                self._files = files_of(self._kept, self._inside(None))
            return self._files

    def usage(self) -> UsageSample:
        """What all that runs in it has cost until now."""
        from corral.limits.tree import look_at_tree
        from corral.model.result import UsageSample

        with self._lock:
            self._check_open()
            kept = self._kept
        seconds = time.time() - self.began
        if kept.group is not None:
            counted = kept.group.usage()
            return UsageSample(seconds, kept.group.cpu_seconds(), counted.memory_bytes, counted.pids)
        counted = look_at_tree(kept.inner)
        spent = (counted.user_seconds or 0.0) + (counted.system_seconds or 0.0)
        return UsageSample(seconds, spent, counted.memory_bytes, counted.pids)

    def reset(self) -> None:
        """End everything that runs in it, forget what lies in its private areas, and begin anew."""
        with self._lock:
            self._check_open(alive=False)
            self._end()
            self._kept, self._lookout = self._make()

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

    def _end(self) -> None:
        for job in tuple(self._jobs):
            job.kill()
        self._kept.close()
        for thread in tuple(self._left.values()):
            thread.join()
        if self._lookout is not None:
            self._lookout.close()
        self._files = None

    def _leave(self, ends: Ends) -> None:
        """A command has ended and left something running: it is watched over until that ends."""
        from corral.runtime.leftover import watch_over

        lookout = self._lookout
        if lookout is not None:
            lookout.stay()

        def done() -> None:
            self._left.pop(ends, None)

        self._left[ends] = watch_over(ends, lookout, done)

    def _check_open(self, *, alive: bool = True) -> None:
        if self._is_closed or os.getpid() != self._owner:
            raise SessionClosed()
        if alive and not self._kept.is_alive:
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
        from corral.stateful import remember

        is_line = isinstance(command, str) and bool(command.strip())
        argv, line = ((), str(command)) if is_line else (arguments_of(command), "")
        areas = dict(self._kept.inside.env)
        state = f"{areas.get('TMPDIR', '/tmp')}/{_STATE}"
        return remember(argv, line, state, cwd=None if cwd is None else self._inside(cwd), env=env)


def _shorter(limit: float | None, timeout: float | None) -> float | None:
    if timeout is None:
        return limit
    if not timeout > 0:
        raise PolicyError(
            "timeout",
            f"a command cannot have {timeout:g} seconds",
            why="it would be over before it began",
            fix="give a number of seconds above zero, or leave it out",
        )
    return timeout if limit is None else min(limit, timeout)


def _checked(env: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise PolicyError(
                "environment-name",
                f"{name!r} cannot be passed to a program",
                why="a name is not empty and has no =, and neither it nor its value has a NUL",
                fix="give it another name",
            )
    return env
