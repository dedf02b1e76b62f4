"""Sandbox: a policy ready to run commands. The method to read first is `Sandbox.run`."""

from __future__ import annotations

import os
from _thread import allocate_lock  # `threading` costs a millisecond, and a lock is all we need

from corral.backends.registry import AUTO_NAME, BUILTIN, UNCONFINED, check_order, get_backend, names_for
from corral.directory import find_directory
from corral.given import (
    REFUSE,
    RUN_UNCONFINED,
    arguments_of,
    bytes_of,
    check_companions,
    destinations_of,
    falls_back,
    features_of,
    narrow,
)
from corral.host import RealHost
from corral.model.arguments import texts_of
from corral.model.container import Container, check_container
from corral.model.decision import Decision, Reason
from corral.model.errors import PolicyError, UnenforceableError
from corral.model.feature import RUNNER_FEATURES, Feature
from corral.model.plan import Command, StdioMode
from corral.model.policy import FsAccess, Policy
from corral.model.record import Record
from corral.planning.build import Nested, build, find_held, nested_repositories
from corral.planning.defaults import hold_defaults
from corral.planning.ground import build_ground
from corral.planning.patterns import has_what_was_denied
from corral.planning.recall import Recall
from corral.planning.select import inside_already, select_launch
from corral.policy.check import check_policy
from corral.policy.preset import DEFAULT_PRESET, hidden_in_homes, load_preset, preset_backend
from corral.probes import forget, probe_remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from corral.attempt import Attempt
    from corral.limits.ceiling import Ceiling
    from corral.limits.hierarchy import Hierarchy
    from corral.model.backend import Host
    from corral.model.endpoint import Endpoint
    from corral.model.fidelity import Fidelity
    from corral.model.launch import Launch
    from corral.model.plan import Ground, Plan
    from corral.model.probe import Probe
    from corral.model.result import Result
    from corral.network.options import NetworkOptions
    from corral.planning.build import Held
    from corral.runtime.destinations import Destinations, Stream, Target
    from corral.runtime.monitor import Monitor
    from corral.session import Session
    from corral.watch import Watch


_OWN_CONTAINER = Container()


class Explanation(Record):
    """Everything that would happen, up to the point where a process is started."""

    plan: Plan
    probe: Probe
    launch: Launch
    refusal: UnenforceableError | None = None  # why it runs unconfined, by `fallback`, all the same


class Sandbox:
    """Runs commands under one policy, in one workspace. Safe to use from several threads.

    `policy` is a Policy or the name of a preset; `backend` a name or "auto", which chooses among `backends`
    in their order; `container` what container engines are told besides; `waive` the features to give up, on
    record; `within` a ceiling over this and other sandboxes; `network` what the gateway is told, where the
    network is limited. Nothing is started before `run`.
    With `fallback="unconfined"` a command runs WITHOUT any sandbox where no backend can enforce the policy.
    """

    def __init__(
        self,
        policy: Policy | str = DEFAULT_PRESET,
        *,
        backend: str = "auto",
        backends: Iterable[str] = (),
        workspace: str | os.PathLike[str] | None = None,
        waive: Iterable[Feature | str] = (),
        container: Container = _OWN_CONTAINER,
        fallback: str = REFUSE,
        within: Ceiling | None = None,
        network: NetworkOptions | None = None,
        host: Host | None = None,
    ) -> None:
        if not isinstance(policy, Policy):
            self._policy = load_preset(policy)
            backend = preset_backend(policy) or backend if backend == AUTO_NAME else backend
        else:
            self._policy = policy
        check_policy(self._policy)
        check_container(container)
        check_companions(within, network)
        self._order = texts_of("backends", backends, "backends=['native', 'podman']")
        check_order(self._order)
        self._container = container
        self._falls_back = falls_back(fallback)
        self._host: Host = host if host is not None else RealHost()
        self._workspace = find_directory(workspace, self._host)
        self._backend = backend
        self._waived = features_of(waive)
        self._within = within
        self._network = network
        self._lock = allocate_lock()
        self._ground: tuple[Ground, Nested] | None = None
        self._held = Recall()
        self._probes: dict[str, Probe] = {}

    @property
    def policy(self) -> Policy:
        """What commands may do."""
        return self._policy

    @property
    def waived(self) -> frozenset[Feature]:
        """What was given up, on record."""
        return self._waived

    @property
    def workspace(self) -> str:
        """The directory that commands work in."""
        return self._workspace

    @property
    def network(self) -> NetworkOptions | None:
        """What the gateway is told besides the policy, where the network is limited."""
        return self._network

    @property
    def is_unconfined(self) -> bool:
        """Whether commands run without any sandbox, because that was asked for by name."""
        return self._backend == UNCONFINED

    @property
    def falls_back(self) -> bool:
        """Whether commands run without any sandbox where no backend can enforce the policy."""
        return self._falls_back

    def with_policy(self, policy: Policy) -> Sandbox:
        """Another sandbox, the same in everything but what commands may do."""
        return Sandbox(
            policy,
            backend=self._backend,
            backends=self._order,
            workspace=self._workspace,
            waive=self._waived,
            container=self._container,
            fallback=RUN_UNCONFINED if self._falls_back else REFUSE,
            within=self._within,
            network=self._network,
            host=self._host,
        )

    def narrowed(self, timeout: float | None = None, env: Mapping[str, str] | None = None) -> Sandbox:
        """This sandbox, or the same with less time and further variables. Raises PolicyError."""
        if timeout is None and not env:
            return self
        return self.with_policy(narrow(self._policy, timeout, env))

    def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str = b"",
        timeout: float | None = None,
        stream: Stream | None = None,
        stdout: Target | None = None,
        stderr: Target | None = None,
    ) -> Result:
        """Run a command and return what happened. A text is given to a shell, a sequence is not.

        `env` has further variables, and `timeout` seconds that can only shorten the policy's own limit.
        `stream(name, data)` is called with every piece of output as it comes; `stdout` and `stderr` are
        paths or binary files to write it to. Then the result holds only the end of that output. What
        `stream` raises ends the run and is passed on.

        Raises PolicyError, UnenforceableError or SetupError if the command did not run; a command
        that ran and failed is a result like any other.
        """
        sandbox = self.narrowed(timeout, env)
        prepared = sandbox.prepare(command, cwd=cwd, stdin=stdin)
        return sandbox.start(prepared, destinations_of(stream, stdout, stderr)).run()

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
        output = destinations_of(stream, stdout, stderr)
        return Watch(lambda monitor: self.start(prepared, output, monitor), every)

    def session(self) -> Session:
        """Make a sandbox and keep it, for many commands; it ends with the `with` block it is used in."""
        from corral.session import Session

        return Session(self)

    def explain(
        self, command: str | Sequence[str], *, cwd: str | os.PathLike[str] | None = None
    ) -> Explanation:
        """Say what `run` would do, without doing it."""
        return self._explain(self.prepare(command, cwd=cwd))

    def explain_command(self, command: Command) -> Explanation:
        """The same, for a command that was prepared."""
        return self._explain(command)

    def through(self, wrap: Callable[[Host], Host], backends: Iterable[str]) -> Sandbox:
        """The same sandbox, that looks at the machine through another door, and asks none but these backends.

        It never falls back to running unconfined. Raises UnenforceableError if none of them may be asked.
        """
        permitted = tuple(backends)
        names = tuple(name for name in self._names() if name in permitted)
        if not names:
            raise UnenforceableError(
                "no-backend",
                f"none of the backends {', '.join(permitted)} may be used",
                why=f"only {', '.join(self._names())} may be chosen",
                fix=f"add --backend {permitted[0]}",
            )
        return Sandbox(
            self._policy,
            backends=names,
            workspace=self._workspace,
            waive=self._waived,
            container=self._container,
            host=wrap(self._host),
        )

    def refusal(self) -> UnenforceableError | None:
        """Why no backend of this host would enforce the policy; None if one would."""
        try:
            return self.explain(("true",)).refusal
        except UnenforceableError as problem:
            return problem

    def fidelity(
        self, command: str | Sequence[str] = ("true",), *, cwd: str | os.PathLike[str] | None = None
    ) -> Fidelity:
        """Say how much of the policy each backend of this host would enforce, clause by clause."""
        from corral.fidelity import build_fidelity  # a run never asks

        plan = self._plan(self.prepare(command, cwd=cwd))
        permitted = self._names()
        for name in permitted:
            get_backend(name)  # an unknown one is the caller's mistake
        with self._lock:
            return build_fidelity(plan, map(self._probed, BUILTIN), permitted, falls_back=self._falls_back)

    def notes(self) -> tuple[str, ...]:
        """What the result of every run would have to say: denials that hide nothing, searches given up."""
        return self._plan(self.prepare(("true",))).notes

    def prepare(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        stdin: bytes | str | None = b"",
        stdio: StdioMode = StdioMode.CAPTURE,
    ) -> Command:
        """Bring a command into the form that plans are made of."""
        directory = self._workspace if cwd is None else find_directory(cwd, self._host, "cwd")
        return Command(arguments_of(command), directory, None if stdin is None else bytes_of(stdin), stdio)

    def start(
        self, command: Command, output: Destinations | None = None, monitor: Monitor | None = None
    ) -> Attempt:
        """Everything but the run itself: the caller may want to hold on to it, to pass signals on."""
        from corral.attempt import Attempt

        return Attempt(self, command, output, monitor)

    def decide_path(self, path: str, *, writes: bool = False) -> Decision:
        """Whether a command may read (or write) a path, and by which rule. Nothing is run or written."""
        from corral.planning.decide import decide_path

        if self._backend == UNCONFINED:
            return Decision(True, Reason.UNCONFINED, path)
        absolute = os.path.join(self._workspace, path)
        return decide_path(self._plan(self.prepare(("true",))), self._host, absolute, writes=writes)

    def decide_connection(self, endpoint: Endpoint | str) -> Decision:
        """Whether a command may connect to an endpoint (`https:example.org`), as far as the policy says."""
        from corral.model.connection import decide_connection
        from corral.model.endpoint import read_endpoint

        if isinstance(endpoint, str):
            endpoint = read_endpoint(endpoint)
        if self._backend == UNCONFINED:
            return Decision(True, Reason.UNCONFINED, str(endpoint))
        return decide_connection(self._policy.net, endpoint)

    def probes(self) -> Iterator[Probe]:
        """Ask the backends that may be chosen, one after the other, each once."""
        yield from map(self._probed, self._names())

    def _names(self) -> tuple[str, ...]:
        return names_for(self._backend, self._host.platform, self._order)

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
        try:
            with self._lock:
                probe, launch = select_launch(
                    plan.requires - plan.waived, self.probes(), lambda probe: _lower(plan, probe)
                )
        except UnenforceableError as problem:
            self._forget_failures()
            if not self._falls_back or problem.code != "unenforceable":
                raise inside_already(problem, self._host.environment()) from None
            return self._explain_unconfined(command, problem)
        return Explanation(hold_defaults(plan, probe), probe, launch)

    def _explain_unconfined(self, command: Command, refusal: UnenforceableError) -> Explanation:
        """What `fallback` permits: the command as it is, and everything that would confine it waived."""
        plan = self._plan(command, unconfined=True)
        with self._lock:
            probe = self._probed(UNCONFINED)
        return Explanation(hold_defaults(plan, probe), probe, _lower(plan, probe), refusal)

    def _plan(self, command: Command, *, unconfined: bool = False) -> Plan:
        ground, nested = self._current_ground()
        waived = self._given_up(ground, unconfined=unconfined)

        def find(host: Host) -> Held:
            return find_held(self._policy, ground, host, nested=nested, waived=waived)

        with self._lock:  # ORDER: after the ground, which it follows from, and which forgets it
            held = find(self._host) if unconfined else self._held.find(self._host, find)
        return build(
            self._policy,
            command,
            ground,
            self._host,
            run_id=os.urandom(8).hex(),
            nested=nested,
            waived=waived,
            container=self._container,
            held=held,
        )

    def _given_up(self, ground: Ground, *, unconfined: bool = False) -> frozenset[Feature]:
        if self._backend == UNCONFINED or unconfined:  # everything is given up, and the record says so
            return self._waived | (ground.requires - RUNNER_FEATURES)
        return self._waived

    def _current_ground(self) -> tuple[Ground, Nested]:
        with self._lock:
            if self._ground is None or has_what_was_denied(self._ground[0], self._host):
                ground = build_ground(self._policy, self._workspace, self._host, hidden_in_homes())
                if isinstance(self._host, RealHost):
                    writable = (g.target.path for g in ground.grants if g.access is FsAccess.WRITE)
                    self._host.distrust((self._workspace, *writable))
                protects = Feature.FS_PROTECT in ground.requires - self._given_up(ground)
                nested = nested_repositories(ground, self._host) if protects else Nested()
                self._ground = (ground, nested)
                self._held = Recall()
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

    def _forget_failures(self) -> None:
        """What does not work now may work for the next command."""
        with self._lock:
            self._probes = {name: probe for name, probe in self._probes.items() if probe.available}

    def _forget_ground(self) -> None:
        with self._lock:
            self._ground = None


def _lower(plan: Plan, probe: Probe) -> Launch:
    return get_backend(probe.backend).lower(hold_defaults(plan, probe), probe)


def run(
    command: str | Sequence[str],
    *,
    policy: Policy | str = DEFAULT_PRESET,
    backend: str = "auto",
    workspace: str | os.PathLike[str] | None = None,
    waive: Iterable[Feature | str] = (),
    container: Container = _OWN_CONTAINER,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | str = b"",
    timeout: float | None = None,
    stream: Stream | None = None,
    stdout: Target | None = None,
    stderr: Target | None = None,
) -> Result:
    """Run one command in a sandbox of its own. See `Sandbox` and `Sandbox.run`."""
    made = Sandbox(policy, backend=backend, workspace=workspace, waive=waive, container=container)
    sandbox = made.narrowed(timeout, env)
    return sandbox.run(command, cwd=cwd, stdin=stdin, stream=stream, stdout=stdout, stderr=stderr)
