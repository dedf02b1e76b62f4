"""SeparateSession: a session where no sandbox can be kept, as on macOS. What is kept is the home.

Every command is a run of its own, planned when it starts: a sandbox of its own, a process of its own, and
limits of its own. The private home and temporary directory are made once and stay for the next command, and
with them the working directory and variables of stateful commands. Nothing that a command has started
outlives it, but for what `start` has.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import threading
import time
from typing import TYPE_CHECKING, NoReturn, cast

from corral.model.errors import CorralError, SessionClosed, SetupError
from corral.model.plan import Command, StdioMode
from corral.pipeline.arguments import arguments_of, read_options
from corral.pipeline.planned_run import PlannedRun
from corral.runtime.scratch import Scratch
from corral.sessions.background import Background
from corral.sessions.session import Session
from corral.sessions.stateful import remember
from corral.streams.destinations import Destinations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from corral.model.result import Result, UsageSample
    from corral.pipeline.call_options import KeptOptions
    from corral.protected_names.session_guard import SessionGuard
    from corral.runtime.launcher.job import Job
    from corral.sandbox import Sandbox
    from corral.sandbox_files.base import Files
    from corral.sessions.live_network import LiveNetwork
    from corral.streams.doors import Doors
    from corral.streams.streams import InheritedStreams

_STATE = ".corral-state"


class SeparateSession(Session):
    """See `Session`; what needs a kept sandbox raises SetupError (`not-kept`)."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._lock = threading.RLock()
        self._runs_lock = threading.Lock()  # whoever ends runs holds the other until they are over
        self._stateful = threading.Lock()
        self._runs: set[PlannedRun] = set()
        self._background = []
        self._is_closed, self._owner = False, os.getpid()
        self.id, self.began, self.made_anew = os.urandom(8).hex(), time.time(), 0
        self._make_home()

    def _make_home(self) -> None:
        """Raises what planning raises: what could never run has no session either."""
        launch = self._sandbox.explain(("true",)).launch
        if launch.spec is not None or not launch.profile:
            raise _not_kept(launch.backend, "each command has its own, and no home is kept for the next")
        self._backend, self._home = launch.backend, launch.scratch
        self._scratch = Scratch(launch.replace(profile=None))
        self._scratch.__enter__()

    @property
    def backend(self) -> str:
        return self._backend

    @property
    def pid(self) -> int:
        """No process is kept."""
        return 0

    @property
    def is_open(self) -> bool:
        return not self._is_closed

    def is_lost(self) -> bool:
        return False

    def lost(self) -> SetupError:
        return _not_kept(self._backend, "every command has its own sandbox")

    @property
    def output_bytes(self) -> int | None:
        return self._sandbox.policy.limits.output_bytes

    @property
    def doors(self) -> Doors:
        self._refuse("files of the caller's are given to its own launcher")

    @property
    def network(self) -> LiveNetwork:
        self._refuse("every command has a network of its own, which ends with it")

    def prepare(self, command: str | Sequence[str], **options: Unpack[KeptOptions]) -> Job:
        read = read_options(**options)
        sandbox = self._sandbox.narrowed(read.timeout, read.env)
        planned = self._planned(
            sandbox, arguments_of(command), read.cwd, stdin=read.stdin, output=read.output
        )
        planned.listen(read.on_event)
        return cast("Job", planned)

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
        self._refuse("streams of the caller's own are given to its launcher")

    def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str = b"",
        timeout: float | None = None,
    ) -> Background:
        argv = arguments_of(command)
        process = _SeparateBackground(self, argv, cwd=cwd, env=env, stdin=stdin, timeout=timeout)
        with self._lock:
            self._background = [other for other in self._background if other.is_running] + [process]
        return process

    def prepare_endless(
        self, argv: tuple[str, ...], output: Destinations, stdin: bytes, *, limits: KeptOptions
    ) -> Job:
        """The policy's limit of time is not for what is started to go on."""
        policy = self._sandbox.policy
        endless = policy.replace(limits=policy.limits.replace(wall_seconds=None))
        sandbox = self._sandbox.with_policy(endless).narrowed(limits.get("timeout"), limits.get("env"))
        return cast("Job", self._planned(sandbox, argv, limits.get("cwd"), stdin=stdin, output=output))

    def _planned(
        self,
        sandbox: Sandbox,
        argv: tuple[str, ...],
        cwd: str | os.PathLike[str] | None,
        *,
        stdin: bytes | None = None,
        output: Destinations | None = None,
        stdio: StdioMode = StdioMode.CAPTURE,
    ) -> PlannedRun:
        with self._lock:
            self._check_open()
            home = self._home
        recorder = self._sandbox.recorder
        return PlannedRun(
            sandbox.planner,
            Command(argv, self._inside(cwd), stdin, stdio, kept_home=home),
            options=sandbox.network,
            within=sandbox.within,
            output=output,
            recorder=None if recorder is None else recorder.in_session(self.id),
        )

    def finish(self, job: Job) -> Result:
        planned = cast("PlannedRun", job)
        with self._runs_lock:
            if self._is_closed:
                raise SessionClosed()
            self._runs.add(planned)
        try:
            return planned.run()
        finally:
            with self._runs_lock:
                self._runs.discard(planned)

    def shell(self, command: str | Sequence[str] = ("/bin/sh", "-i")) -> Result:
        sandbox = self._sandbox.narrowed(None, {"TERM": os.environ.get("TERM", "dumb")})
        argv = arguments_of(command)
        return self.finish(cast("Job", self._planned(sandbox, argv, None, stdio=StdioMode.TERMINAL)))

    def _file_access(self, watch: Callable[[SessionGuard], object] | None = None) -> Files:
        self._refuse("its workspace is an ordinary directory, and its home is gone with it")

    def usage(self) -> UsageSample:
        self._refuse("nothing counts for several commands here; each result has its own usage")

    def reset(self) -> None:
        with self._lock:
            self._check_open()
            self._end()
            self._make_home()

    def _end(self) -> None:
        with self._runs_lock:
            running = tuple(self._runs)
        for planned in running:
            planned.kill()
        for process in tuple(self._background):
            _await(process)
        self._scratch.__exit__(None, None, None)

    def _check_open(self, *, alive: bool = True) -> None:
        if self._is_closed or os.getpid() != self._owner:
            raise SessionClosed()

    def _inside(self, cwd: str | os.PathLike[str] | None) -> str:
        workspace = self._sandbox.workspace
        return workspace if cwd is None else posixpath.normpath(posixpath.join(workspace, os.fspath(cwd)))

    def _remembered(
        self,
        command: str | Sequence[str],
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
    ) -> tuple[str, ...]:
        is_line = isinstance(command, str) and bool(command.strip())
        argv, line = ((), str(command)) if is_line else (arguments_of(command), "")
        inside = None if cwd is None else self._inside(cwd)
        return remember(argv, line, f"{self._home}/{_STATE}", cwd=inside, env=env)

    def _refuse(self, why: str) -> NoReturn:
        raise _not_kept(self._backend, why)


class _SeparateBackground(Background):
    """A run of its own, that goes on while the caller does other things."""

    def _prepare(
        self,
        stdin: bytes,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        timeout: float | None,
    ) -> Job:
        session = cast("SeparateSession", self._session)
        output = Destinations(self._take, None, None)
        return session.prepare_endless(
            self.argv, output, stdin, limits={"cwd": cwd, "env": env, "timeout": timeout}
        )


def _await(process: Background) -> None:
    """It was told to end; what it raises is for whoever waits for it."""
    with contextlib.suppress(CorralError, OSError):
        process.wait()


def _not_kept(backend: str, why: str) -> SetupError:
    return SetupError(
        "not-kept",
        f"the backend {backend} cannot keep a sandbox",
        why=why,
        fix="run commands by themselves, or use corral on Linux for this; docs/macos.md says what works",
    )
