"""Sandbox: a policy ready to run commands. The method to read first is `Sandbox.run`."""

from __future__ import annotations

import os

from corral.backends.registry import AUTO_NAME, BUILTIN, UNCONFINED, check_order
from corral.host.directory import find_directory
from corral.host.real import RealHost
from corral.model.arguments import texts_of
from corral.model.container import Container, check_container
from corral.model.decision import Decision, Reason
from corral.model.errors import UnenforceableError
from corral.model.plan import Command, StdioMode
from corral.model.policy import NetMode, Policy
from corral.pipeline.arguments import (
    REFUSE,
    RUN_UNCONFINED,
    arguments_of,
    bytes_of,
    check_companions,
    check_waived,
    destinations_of,
    falls_back,
    features_of,
    narrow,
)
from corral.pipeline.planner import Planner
from corral.policy.check import check_policy
from corral.policy.preset import DEFAULT_PRESET, load_preset, preset_backend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from corral.audit.recorder import AuditSink, Recorder
    from corral.limits.ceiling import Ceiling
    from corral.limits.hierarchy import Hierarchy
    from corral.model.backend import Host
    from corral.model.event import Listener
    from corral.model.feature import Feature
    from corral.model.fidelity import Fidelity
    from corral.model.network.endpoint import Endpoint
    from corral.model.network.traffic import NetEvent
    from corral.model.plan import TrialLayers
    from corral.model.probe import Probe
    from corral.model.result import Result
    from corral.network.options import NetworkOptions
    from corral.pipeline.live_run import Watch
    from corral.pipeline.planned_run import PlannedRun
    from corral.pipeline.planner import Explanation
    from corral.runtime.monitor import Monitor
    from corral.sessions.session import Session
    from corral.sessions.trial import Trial
    from corral.streams.destinations import Destinations, Stream, Target


_OWN_CONTAINER = Container()


class Sandbox:
    """Runs commands under one policy, in one workspace. Safe to use from several threads.

    `policy` is a Policy or the name of a preset; `backend` a name or "auto", which chooses among `backends`
    in their order; `container` what container engines are told besides; `waive` the features to give up, on
    record; `require` those without which nothing runs, besides the policy's own; `within` a ceiling over this
    and other sandboxes; `network` what the gateway is told, where the network is limited; `audit` is told of
    every run: an AuditLog, another sink, or a function that is given one record at a time. Nothing is started
    before `run`.
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
        require: Iterable[Feature | str] = (),
        container: Container = _OWN_CONTAINER,
        fallback: str = REFUSE,
        within: Ceiling | None = None,
        network: NetworkOptions | None = None,
        host: Host | None = None,
        audit: AuditSink | Callable[[Mapping[str, object]], object] | Recorder | None = None,
    ) -> None:
        if not isinstance(policy, Policy):
            self._policy = load_preset(policy)
            backend = preset_backend(policy) or backend if backend == AUTO_NAME else backend
        else:
            self._policy = policy
        if required := features_of("require", require):
            self._policy = self._policy.replace(requires=self._policy.requires | required)
        waived = features_of("waive", waive)
        check_policy(self._policy)
        check_waived(self._policy, waived)
        check_container(container)
        check_companions(within, network)
        order = texts_of("backends", backends, "backends=['native', 'podman']")
        check_order(order)
        real: Host = host if host is not None else RealHost()
        self._within = within
        self._network = network
        #: What records runs; None: nothing does.
        self.recorder: Recorder | None = None
        if audit is not None:
            from corral.audit.recorder import as_recorder

            self.recorder = as_recorder(audit)
        #: What a command becomes on this host; for those who run commands for a sandbox.
        self.planner = Planner(
            self._policy,
            find_directory(workspace, real),
            real,
            backend=backend,
            order=order,
            waived=waived,
            container=container,
            falls_back=falls_back(fallback),
        )

    @property
    def policy(self) -> Policy:
        """What commands may do."""
        return self._policy

    @property
    def waived(self) -> frozenset[Feature]:
        """The features that were waived."""
        return self.planner.waived

    @property
    def workspace(self) -> str:
        """The directory that commands work in."""
        return self.planner.workspace

    @property
    def network(self) -> NetworkOptions | None:
        """Options of the gateway besides the policy, where the network is limited."""
        return self._network

    @property
    def is_unconfined(self) -> bool:
        """Whether commands run without any sandbox, because that was asked for by name."""
        return self.planner.backend == UNCONFINED

    @property
    def falls_back(self) -> bool:
        """Whether commands run without any sandbox where no backend can enforce the policy."""
        return self.planner.falls_back

    def with_policy(self, policy: Policy) -> Sandbox:
        """Another sandbox, the same in everything but what commands may do."""
        other = Sandbox(
            policy,
            backend=self.planner.backend,
            backends=self.planner.order,
            workspace=self.planner.workspace,
            waive=self.planner.waived,
            container=self.planner.container,
            fallback=RUN_UNCONFINED if self.planner.falls_back else REFUSE,
            within=self._within,
            network=self._network,
            host=self.planner.host,
            audit=self.recorder,
        )
        other.planner.trial = self.planner.trial  # INVARIANT: no copy writes where this one does not
        other.planner.passes_by = self.planner.passes_by
        return other

    def on_trial(self, layers: TrialLayers, renew: Callable[[], TrialLayers] | None = None) -> Sandbox:
        """The same sandbox, all of whose commands write in a layer over the workspace.

        `renew` gives the layers of a sandbox that a session has instead of another one.
        """
        other = self.with_policy(self._policy)
        other.planner.share(self.planner)
        other.planner.trial, other.planner.renew_trial = layers, renew
        return other

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
        on_event: Listener | None = None,
    ) -> Result:
        """Run a command and return what happened. A string goes to a shell, a sequence does not.

        `env` has further variables, and `timeout` seconds that can only shorten the policy's own limit.
        `stream(name, data)` is called with every piece of output as it comes; `stdout` and `stderr` are
        paths or binary files to write it to. Then the result holds only the end of that output. What
        `stream` raises ends the run and is passed on. `on_event(event)` is told at once what corral refuses,
        removes or ends, each kind once, perhaps in another thread; the result has all of it.

        Raises PolicyError, UnenforceableError or SetupError if the command did not run; a command
        that ran and failed is a result like any other.
        """
        sandbox = self.narrowed(timeout, env)
        prepared = sandbox.read_command(command, cwd=cwd, stdin=stdin)
        planned = sandbox.prepare(prepared, destinations_of(stream, stdout, stderr))
        planned.listen(on_event)
        return planned.run()

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
        from corral.pipeline.live_run import Watch

        prepared = self.read_command(command, cwd=cwd, stdin=stdin)
        output = destinations_of(stream, stdout, stderr)
        return Watch(lambda monitor: self.prepare(prepared, output, monitor), every)

    def session(self) -> Session:
        """Make a sandbox and keep it, for many commands; it ends with the `with` block it is used in."""
        if self.planner.host.platform == "linux":
            from corral.sessions.session import Session

            return Session(self)
        from corral.sessions.separate_session import SeparateSession

        return SeparateSession(self)

    def trial(self, *, size: str | int | None = None, files: int | None = None) -> Trial:
        """Try commands on the workspace without changing it; what they wrote can be looked at and applied.

        With `size` ("500M") or `files` it is kept in memory while commands run, and may hold that much. It is
        thrown away at the end of the `with` block it is used in, unless `keep` is called.
        """
        from corral.sessions.trial import begin_trial
        from corral.trials.record import layer_size

        return begin_trial(self, size=layer_size(size, files))

    def try_each(
        self,
        commands: Iterable[str | Sequence[str]],
        *,
        size: str | int | None = None,
        files: int | None = None,
    ) -> list[tuple[Trial, Result]]:
        """Run commands side by side, each in its own trial of the same workspace, to choose from.

        The trials are the caller's: apply what is wanted, and discard the others.
        """
        from corral.sessions.trial import try_each
        from corral.trials.record import layer_size

        return try_each(self, tuple(commands), layer_size(size, files))

    def explain(
        self, command: str | Sequence[str], *, cwd: str | os.PathLike[str] | None = None
    ) -> Explanation:
        """Say what `run` would do, without doing it."""
        return self.planner.explain(self.read_command(command, cwd=cwd))

    def through(self, wrap: Callable[[Host], Host], backends: Iterable[str]) -> Sandbox:
        """The same sandbox, that looks at the machine through another door, and asks none but these backends.

        It never falls back to running unconfined. Raises UnenforceableError if none of them may be asked.
        """
        permitted = tuple(backends)
        names = tuple(name for name in self.planner.names if name in permitted)
        if not names:
            raise UnenforceableError(
                "no-backend",
                f"none of the backends {', '.join(permitted)} may be used",
                why=f"only {', '.join(self.planner.names)} may be chosen",
                fix=f"add --backend {permitted[0]}",
            )
        other = Sandbox(
            self._policy,
            backends=names,
            workspace=self.planner.workspace,
            waive=self.planner.waived,
            container=self.planner.container,
            host=wrap(self.planner.host),
            audit=self.recorder,
        )
        other.planner.trial = self.planner.trial
        return other

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
        return self.planner.fidelity(self.read_command(command, cwd=cwd), BUILTIN)

    def notes(self) -> tuple[str, ...]:
        """What the result of every run would have to say: denials that hide nothing, searches given up."""
        return self.planner.plan(self.read_command(("true",))).notes

    def read_command(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        stdin: bytes | str | None = b"",
        stdio: StdioMode = StdioMode.CAPTURE,
    ) -> Command:
        """Bring a command into the form that plans are made of."""
        host, workspace = self.planner.host, self.planner.workspace
        directory = workspace if cwd is None else find_directory(cwd, host, "cwd")
        return Command(arguments_of(command), directory, None if stdin is None else bytes_of(stdin), stdio)

    def hearing(self, on_network: Callable[[NetEvent], None]) -> Sandbox:
        """The same sandbox; somebody hears of every decision about its network, where that is limited."""
        if self._policy.net.mode is not NetMode.LIMITED:
            return self
        from corral.network.options import hearing

        other = self.with_policy(self._policy)
        other._network = hearing(self._network, on_network)
        return other

    def prepare(
        self, command: Command, output: Destinations | None = None, monitor: Monitor | None = None
    ) -> PlannedRun:
        """Everything but the run itself: the caller may want to hold on to it, to pass signals on."""
        from corral.pipeline.planned_run import PlannedRun

        return PlannedRun(
            *(self.planner, command),
            options=self._network,
            within=self.within,
            output=output,
            monitor=monitor,
            recorder=self.recorder,
        )

    def decide_path(self, path: str, *, writes: bool = False) -> Decision:
        """Whether a command may read (or write) a path, and by which rule. Nothing is run or written."""
        from corral.planning.decide import decide_path

        if self.is_unconfined:
            return Decision(True, Reason.UNCONFINED, path)
        absolute = os.path.join(self.workspace, path)
        plan = self.planner.plan(self.read_command(("true",)))
        return decide_path(plan, self.planner.host, absolute, writes=writes)

    def decide_connection(self, endpoint: Endpoint | str) -> Decision:
        """Whether a command may connect to an endpoint (`https:example.org`), as far as the policy says."""
        from corral.model.network.connection import decide_connection
        from corral.model.network.endpoint import read_endpoint

        if isinstance(endpoint, str):
            endpoint = read_endpoint(endpoint)
        if self.is_unconfined:
            return Decision(True, Reason.UNCONFINED, str(endpoint))
        return decide_connection(self._policy.net, endpoint)

    def probes(self) -> Iterator[Probe]:
        """Ask the backends that may be chosen, one after the other, each once."""
        return self.planner.probes()

    @property
    def within(self) -> Hierarchy | None:
        """Where the groups of runs are made, if they have a ceiling. Raises PolicyError if it is closed."""
        return None if self._within is None else self._within.opened()


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
    on_event: Listener | None = None,
) -> Result:
    """Run one command in a sandbox of its own. See `Sandbox` and `Sandbox.run`."""
    made = Sandbox(policy, backend=backend, workspace=workspace, waive=waive, container=container)
    sandbox = made.narrowed(timeout, env)
    output = {"stream": stream, "stdout": stdout, "stderr": stderr}
    return sandbox.run(command, cwd=cwd, stdin=stdin, on_event=on_event, **output)  # type: ignore[arg-type]
