"""Sandbox: a policy ready to run commands. The method to read first is `Sandbox.run`."""

from __future__ import annotations

import os
from _thread import allocate_lock  # `threading` costs a millisecond, and a lock is all we need

from corral.backends.registry import AUTO_NAME, BUILTIN, UNCONFINED, get_backend, names_for
from corral.directory import find_directory
from corral.host import RealHost, state_directory
from corral.model.decision import Decision, Reason
from corral.model.errors import PolicyError, SetupError
from corral.model.feature import RUNNER_FEATURES, Feature
from corral.model.plan import Command, StdioMode
from corral.model.policy import Policy
from corral.model.record import Record
from corral.planning.build import build, nested_repositories
from corral.planning.ground import build_ground
from corral.planning.select import select
from corral.policy.check import check_policy
from corral.policy.preset import DEFAULT_PRESET, load_preset, preset_backend
from corral.probes import forget, probe_remembered
from corral.runtime.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from corral.limits.ceiling import Ceiling
    from corral.limits.hierarchy import Hierarchy
    from corral.model.backend import Host
    from corral.model.endpoint import Endpoint
    from corral.model.fidelity import Fidelity
    from corral.model.launch import Launch
    from corral.model.plan import Ground, Plan
    from corral.model.probe import Probe
    from corral.model.result import Result
    from corral.runtime.destinations import Destinations, Stream, Target
    from corral.runtime.monitor import Monitor
    from corral.watch import Watch


class Explanation(Record):
    """Everything that would happen, up to the point where a process is started."""

    plan: Plan
    probe: Probe
    launch: Launch


class Sandbox:
    """Runs commands under one policy, in one workspace. Safe to use from several threads.

    `policy` is a Policy or the name of a preset; `backend` a name or "auto"; `waive` the features to
    give up, on record; `within` a ceiling over this and other sandboxes. Nothing is started before `run`.
    """

    def __init__(
        self,
        policy: Policy | str = DEFAULT_PRESET,
        *,
        backend: str = "auto",
        workspace: str | os.PathLike[str] | None = None,
        waive: Iterable[Feature | str] = (),
        within: Ceiling | None = None,
        host: Host | None = None,
    ) -> None:
        if isinstance(policy, str):
            self._policy = load_preset(policy)
            backend = preset_backend(policy) or backend if backend == AUTO_NAME else backend
        else:
            self._policy = policy
        check_policy(self._policy)
        self._host: Host = host if host is not None else RealHost()
        self._workspace = find_directory(workspace, self._host)
        self._backend = backend
        self._waived = frozenset(_feature(name) for name in waive)
        self._within = within
        self._lock = allocate_lock()
        self._ground: tuple[Ground, tuple[str, ...]] | None = None
        self._probes: dict[str, Probe] = {}

    @property
    def policy(self) -> Policy:
        """What commands may do."""
        return self._policy

    @property
    def is_unconfined(self) -> bool:
        """Whether commands run without any sandbox, because that was asked for by name."""
        return self._backend == UNCONFINED

    def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        stdin: bytes | str = b"",
        stream: Stream | None = None,
        stdout: Target | None = None,
        stderr: Target | None = None,
    ) -> Result:
        """Run a command and return what happened. A text is given to a shell, a sequence is not.

        `stream(name, data)` is called with every piece of output as it comes; `stdout` and `stderr` are
        paths or binary files to write it to. Then the result holds only the end of that output. What
        `stream` raises ends the run and is passed on.

        Raises PolicyError, UnenforceableError or SetupError if the command did not run; a command
        that ran and failed is a result like any other.
        """
        prepared = self.prepare(command, cwd=cwd, stdin=stdin)
        return self.start(prepared, _destinations(stream, stdout, stderr)).run()

    def watch(
        self,
        command: str | Sequence[str],
        *,
        every: float = 1.0,
        cwd: str | os.PathLike[str] | None = None,
        stdin: bytes | str = b"",
        stream: Stream | None = None,
        stdout: Target | None = None,
        stderr: Target | None = None,
    ) -> Watch:
        """Run a command in the background; what is returned tells every so many seconds what it costs.

        A run that is over sooner has no sample. Raises what `run` raises before a command starts; the rest
        is raised by `Watch.result`.
        """
        from corral.watch import Watch

        prepared = self.prepare(command, cwd=cwd, stdin=stdin)
        output = _destinations(stream, stdout, stderr)
        return Watch(lambda monitor: self.start(prepared, output, monitor), every)

    def explain(
        self, command: str | Sequence[str], *, cwd: str | os.PathLike[str] | None = None
    ) -> Explanation:
        """Say what `run` would do, without doing it."""
        return self._explain(self.prepare(command, cwd=cwd))

    def fidelity(
        self, command: str | Sequence[str] = ("true",), *, cwd: str | os.PathLike[str] | None = None
    ) -> Fidelity:
        """Say how much of the policy each backend of this host would enforce, clause by clause."""
        from corral.fidelity import build_fidelity  # a run never asks

        plan = self._plan(self.prepare(command, cwd=cwd))
        permitted = names_for(self._backend, self._host.platform)
        for name in permitted:
            get_backend(name)  # an unknown one is the caller's mistake
        with self._lock:
            return build_fidelity(plan, map(self._probed, BUILTIN), permitted)

    def prepare(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        stdin: bytes | str | None = b"",
        stdio: StdioMode = StdioMode.CAPTURE,
    ) -> Command:
        """Bring a command into the form that plans are made of."""
        argv = ("/bin/sh", "-c", command) if isinstance(command, str) else tuple(map(os.fspath, command))
        if isinstance(command, str) and not command.strip():
            argv = ()
        directory = self._workspace if cwd is None else find_directory(cwd, self._host)
        fed = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin
        return Command(argv, directory, fed, stdio)

    def start(
        self, command: Command, output: Destinations | None = None, monitor: Monitor | None = None
    ) -> Attempt:
        """Everything but the run itself: the caller may want to hold on to it, to pass signals on."""
        return Attempt(self, command, output, monitor)

    def decide_path(self, path: str, *, writes: bool = False) -> Decision:
        """Whether a command may read (or write) a path, and by which rule. Nothing is run or written."""
        from corral.planning.decide import decide_path

        if self._backend == UNCONFINED:
            return Decision(True, Reason.UNCONFINED, path)
        absolute = os.path.join(self._workspace, path)
        return decide_path(self._plan(self.prepare(("true",))), self._host, absolute, writes=writes)

    def decide_connection(self, endpoint: Endpoint | str) -> Decision:
        """Whether a command may connect to an endpoint (`https:pypi.org`), as far as the policy says."""
        from corral.model.endpoint import read_endpoint
        from corral.planning.decide import decide_connection

        if isinstance(endpoint, str):
            endpoint = read_endpoint(endpoint)

        if self._backend == UNCONFINED:
            return Decision(True, Reason.UNCONFINED, str(endpoint))
        return decide_connection(self._policy.net, endpoint)

    def probes(self) -> Iterator[Probe]:
        """Ask the backends that may be chosen, one after the other, each once."""
        yield from map(self._probed, names_for(self._backend, self._host.platform))

    def _probed(self, name: str) -> Probe:
        if name not in self._probes:
            self._probes[name] = self._probe(name)
        return self._probes[name]

    def _probe(self, name: str) -> Probe:
        backend = get_backend(name)
        if isinstance(self._host, RealHost):
            return probe_remembered(backend, self._host)
        return backend.probe(self._host)

    def _explain(self, command: Command) -> Explanation:
        plan = self._plan(command)
        with self._lock:
            probe = select(plan.requires - plan.waived, self.probes())
        return Explanation(plan, probe, get_backend(probe.backend).lower(plan, probe))

    def _plan(self, command: Command) -> Plan:
        ground, nested = self._current_ground()
        return build(
            self._policy,
            command,
            ground,
            self._host,
            run_id=os.urandom(8).hex(),
            nested=nested,
            waived=self._given_up(ground),
        )

    def _given_up(self, ground: Ground) -> frozenset[Feature]:
        if self._backend == UNCONFINED:  # asked for by name: everything is given up, and the record says so
            return self._waived | (ground.requires - RUNNER_FEATURES)
        return self._waived

    def _current_ground(self) -> tuple[Ground, tuple[str, ...]]:
        with self._lock:
            if self._ground is None:
                ground = build_ground(self._policy, self._workspace, self._host)
                protects = Feature.FS_PROTECT in ground.requires - self._given_up(ground)
                nested = nested_repositories(ground, self._host) if protects else ()
                self._ground = (ground, nested)
            return self._ground

    def _beneath(self) -> Hierarchy | None:
        """Where the groups of runs are made, if they have a ceiling."""
        if self._within is None:
            return None
        if self._within.hierarchy is None:
            raise PolicyError(
                "ceiling-closed",
                "the ceiling of the sandbox is not in use",
                why="it has been closed, or was never entered",
                fix="run commands inside the `with` block of the ceiling",
            )
        return self._within.hierarchy

    def _forget_probe(self, backend: str) -> None:
        with self._lock:
            self._probes.pop(backend, None)
        forget(backend)

    def _forget_ground(self) -> None:
        with self._lock:
            self._ground = None


#: Phases that the probe had been through: if they fail now, it is out of date.
_STALE_PROBE = frozenset({"launcher", "cgroup", "namespaces", "mounts", "net", "caps", "landlock", "seccomp"})


class Attempt:
    """One run that may be planned a second time, if the host changed between plan and launch."""

    def __init__(
        self, sandbox: Sandbox, command: Command, output: Destinations | None, monitor: Monitor | None
    ) -> None:
        self._sandbox = sandbox
        self._command = command
        self._output = output
        self._monitor = monitor
        self._run = self._planned()

    def _planned(self) -> Run:
        explanation = self._sandbox._explain(self._command)
        return Run(
            explanation.plan,
            explanation.launch,
            quarantine=_quarantine(explanation.plan.run_id),
            output=self._output,
            monitor=self._monitor,
            within=self._sandbox._beneath(),
        )

    def run(self) -> Result:
        try:
            return self._run.run()
        except SetupError as problem:
            if problem.code in _STALE_PROBE:
                self._sandbox._forget_probe(self._run.backend)
            if problem.code != "path-changed" or self._run.has_started:  # it may be of the caller's function
                raise
            self._sandbox._forget_ground()
            self._run = self._planned()
            return self._run.run()

    def send(self, number: int) -> None:
        """Pass a signal on to the command."""
        self._run.send(number)

    def kill(self) -> None:
        """Take the whole tree down."""
        self._run.kill()


def run(
    command: str | Sequence[str],
    *,
    policy: Policy | str = DEFAULT_PRESET,
    backend: str = "auto",
    workspace: str | os.PathLike[str] | None = None,
    waive: Iterable[Feature | str] = (),
    stdin: bytes | str = b"",
    stream: Stream | None = None,
    stdout: Target | None = None,
    stderr: Target | None = None,
) -> Result:
    """Run one command in a sandbox of its own. See `Sandbox` and `Sandbox.run`."""
    sandbox = Sandbox(policy, backend=backend, workspace=workspace, waive=waive)
    return sandbox.run(command, stdin=stdin, stream=stream, stdout=stdout, stderr=stderr)


def _destinations(stream: Stream | None, stdout: Target | None, stderr: Target | None) -> Destinations | None:
    if stream is None and stdout is None and stderr is None:
        return None
    from corral.runtime.destinations import Destinations

    return Destinations(stream, stdout, stderr)


def _feature(name: Feature | str) -> Feature:
    if isinstance(name, Feature):
        return name
    try:
        return Feature(name)
    except ValueError:
        raise PolicyError(
            "unknown-feature",
            f"there is no feature {name!r} to waive",
            why=f"the features are {', '.join(feature.value for feature in Feature)}",
            fix="name one of them",
        ) from None


def _quarantine(run_id: str) -> str:
    state = state_directory()
    return os.path.join(state, "quarantine", run_id) if state else ""
