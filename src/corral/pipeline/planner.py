"""Planner: what a sandbox makes of a command on this host: a plan, the backend that enforces it, its launch.

It knows what was found out so far (the resolved policy, the backends' probes), and it is told when a
launch has failed: then it forgets what was wrong, and says whether to plan once more.
"""

from __future__ import annotations

import os
from _thread import allocate_lock  # `threading` costs a millisecond, and a lock is all we need

from corral.backends.registry import UNCONFINED, get_backend, names_for
from corral.host.probes import forget, probe_remembered
from corral.host.real import RealHost
from corral.linux.listening import can_listen
from corral.model.errors import PolicyError, UnenforceableError
from corral.model.feature import RUNNER_FEATURES, Feature
from corral.model.policy import EnvPolicy, FsAccess, NetMode
from corral.model.probe import LISTENS, OBSERVED, PROXIED, TRACES
from corral.model.record import Record
from corral.planning.answer_cache import AnswerCache
from corral.planning.build import Nested, build, find_held, nested_repositories
from corral.planning.defaults import hold_defaults
from corral.planning.homes import find_uncovered
from corral.planning.layered import layered_root, protected_paths, worktrees_in, written_directly
from corral.planning.patterns import has_what_was_denied
from corral.planning.refuse import find_second_names
from corral.planning.resolved_policy import resolve_policy
from corral.planning.select import inside_already, select_launch
from corral.policy.preset import hidden_in_homes
from corral.streams.callers_outputs import errors_pass_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from corral.host.remembered_plans import RememberedPlan
    from corral.model.backend import Backend, Host
    from corral.model.container import Container
    from corral.model.errors import SetupError
    from corral.model.fidelity import Fidelity
    from corral.model.launch import Launch
    from corral.model.plan import Command, Plan, ResolvedPath, ResolvedPolicy, TrialLayers
    from corral.model.policy import Policy
    from corral.model.probe import Probe
    from corral.pipeline.networked_launch import Opening
    from corral.planning.build import Held

#: Phases that the probe had been through: if they fail now, it is out of date.
_STALE_PROBE = frozenset(
    {
        *("launcher", "cgroup", "namespaces", "helper", "hostname", "mounts", "net", "lock", "identity"),
        *("caps", "landlock", "seccomp", "sandbox"),
    }
)
#: Failures that say nothing about whether an outer program still works.
_NOT_THE_PROBE = frozenset({"path-changed", "exec", "streams", "scratch", "copies"})
#: From this many on, what is found in them is kept for the next run.
_MANY_REPOSITORIES = 64


class Explanation(Record):
    """Everything that would happen, up to the point where a process is started."""

    plan: Plan
    probe: Probe
    launch: Launch
    refusal: UnenforceableError | None = None  # why it runs unconfined, by `fallback`, all the same


class TrialScope(Record):
    """What a trial is about."""

    root: ResolvedPath  # the writable path that holds the workspace
    protected: tuple[str, ...]  # in there, whether or not it exists
    direct: tuple[str, ...]  # what else a command may write, without a layer
    worktrees: tuple[str, ...] = ()  # of git, in there, relative to it


class Planner:
    """Plans commands under one policy, in one workspace. Safe to use from several threads."""

    def __init__(
        self,
        policy: Policy,
        workspace: str,
        host: Host,
        *,
        backend: str,
        order: tuple[str, ...],
        waived: frozenset[Feature],
        container: Container,
        falls_back: bool,
    ) -> None:
        self.policy, self.workspace, self.host = policy, workspace, host
        self.backend, self.order = backend, order
        self.waived, self.container, self.falls_back = waived, container, falls_back
        self.trial: TrialLayers | None = None  # of every command, if the whole sandbox is on trial
        self.renew_trial: Callable[[], TrialLayers] | None = (
            None  # of a sandbox that takes another one's place
        )
        self.passes_by = False  # what commands of a kept sandbox write to stderr goes past corral
        self._lock = allocate_lock()
        self._resolved: tuple[ResolvedPolicy, Nested] | None = None
        self._held, self._uncovered = AnswerCache(), AnswerCache()
        self._asked: ResolvedPolicy | None = None  # the last that `newly_uncovered` was asked about
        self._asked_cache, self._asked_lock = AnswerCache(), allocate_lock()
        self._probes: dict[str, Probe] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The backends that may be chosen, in order."""
        return names_for(self.backend, self.host.platform, self.order)

    def probes(self) -> Iterator[Probe]:
        """Ask the backends that may be chosen, one after the other, each once."""
        yield from map(self._probed, self.names)

    def explain(self, command: Command, opening: Opening | None = None) -> Explanation:
        """The launch of a command. Raises PolicyError, UnenforceableError or SetupError.

        `opening` opens a proxy where a backend reaches the network by it: its port is part of the launch.
        """
        wanted = self.plan(command)
        try:
            with self._lock:
                probe, (plan, launch) = select_launch(
                    wanted.requires - wanted.waived,
                    self.probes(),
                    lambda probe: _lower(wanted, probe, opening, passes_by=self.passes_by),
                    self.policy.requires,
                )
        except UnenforceableError as problem:
            self._forget_failures()
            may_fall_back = self._may_fall_back and wanted.command.trial is None
            if not may_fall_back or problem.code != "unenforceable":
                raise inside_already(problem, self.host.environment()) from None
            return self._explain_unconfined(command, problem)
        return Explanation(plan, probe, launch)

    @property
    def _may_fall_back(self) -> bool:
        """What is required by name is required of a fallback too."""
        return self.falls_back and not self.policy.requires - RUNNER_FEATURES

    def _explain_unconfined(self, command: Command, refusal: UnenforceableError) -> Explanation:
        """What `fallback` permits: the command as it is, and everything that would confine it waived."""
        wanted = self.plan(command, unconfined=True)
        with self._lock:
            probe = self._probed(UNCONFINED)
        plan, launch = _lower(wanted, probe)
        return Explanation(plan, probe, launch, refusal)

    def fidelity(self, command: Command, backends: Iterable[str]) -> Fidelity:
        """How much of the policy each backend would enforce, clause by clause."""
        from corral.pipeline.fidelity import build_fidelity  # a run never asks

        plan = self.plan(command)
        for name in self.names:
            get_backend(name)  # an unknown one is the caller's mistake
        with self._lock:
            probes = map(self._probed, backends)
            return build_fidelity(plan, probes, self.names, falls_back=self._may_fall_back)

    def plan(self, command: Command, *, unconfined: bool = False) -> Plan:
        """What a command may do on this host, right now."""
        resolved, nested = self._current_resolved()
        if command.trial is None and self.trial is not None:
            command = command.replace(trial=self.trial)
        if command.trial is not None:
            self._check_trial()
        waived = self._given_up(resolved, unconfined=unconfined)
        held = self._find_held(resolved, nested, waived, is_kept=not unconfined)
        return build(
            self.policy,
            command,
            resolved,
            self.host,
            run_id=os.urandom(8).hex(),
            nested=nested,
            waived=waived,
            container=self.container,
            held=held,
        )

    def _find_held(
        self, resolved: ResolvedPolicy, nested: Nested, waived: frozenset[Feature], *, is_kept: bool
    ) -> Held:
        """What has to be protected at this moment; `is_kept`: as it was found, if nothing has changed."""

        def find(host: Host) -> Held:
            return find_held(self.policy, resolved, host, nested=nested, waived=waived)

        with self._lock:  # ORDER: after the resolved policy, which it follows from, and which forgets it
            return self._held.find(self.host, find) if is_kept else find(self.host)

    def share(self, other: Planner) -> None:
        """Know what a planner of the same policy and workspace knows. It is looked at whether that holds."""
        self._lock = other._lock
        self._resolved, self._held, self._uncovered = other._resolved, other._held, other._uncovered
        self._probes = other._probes

    def trial_scope(self) -> TrialScope:
        """What a trial of the workspace is about. Raises PolicyError where there can be none."""
        self._check_trial()
        resolved, nested = self._current_resolved()
        root = layered_root(resolved)
        held = self._find_held(resolved, nested, self._given_up(resolved), is_kept=True)
        path = root.target.path
        return TrialScope(
            root.target,
            protected_paths(held, path),
            written_directly(resolved, path),
            worktrees_in(held, path),
        )

    def _check_trial(self) -> None:
        """INVARIANT: nothing is tried but where a layer takes what is written."""
        if self.host.platform != "linux":
            raise UnenforceableError(
                "unenforceable",
                "nothing can be tried without changing the workspace on this platform",
                why="a layer over a directory is an overlay mount, which only Linux has",
                fix="use `corral run`, on a copy of the workspace",
                lacking=frozenset({Feature.FS_TRIAL}),
            )
        if self.backend == UNCONFINED or Feature.FS_TRIAL in self.waived:
            raise PolicyError(
                "contradiction",
                "a command that is only tried needs a layer that takes what it writes",
                why="nothing confines it, or fs.trial is waived: it would write the workspace itself",
                fix="drop --backend none and --waive fs.trial, or use `corral run`",
            )

    def note_failure(self, problem: SetupError, launch: Launch, *, has_started: bool = False) -> bool:
        """Take note that a launch has failed, and forget what was wrong; True: plan and launch once more."""
        # An outer program that was there when it was probed may be gone, or its daemon. That the command
        # itself cannot be executed says nothing about it.
        is_gone = launch.outer is not None and not has_started and problem.code not in _NOT_THE_PROBE
        if problem.code in _STALE_PROBE or is_gone:
            with self._lock:
                self._probes.pop(launch.backend, None)
            forget(launch.backend)
        if problem.code != "path-changed" or has_started:  # it may be of the caller's function
            return False
        self.forget_resolved()
        return True

    def trust(self, probe: Probe) -> None:
        """Ask a backend no more: this is what it said."""
        self._probes[probe.backend] = probe

    def forget_resolved(self) -> None:
        """The host has changed: its paths are looked at anew."""
        with self._lock:
            self._resolved = None

    def newly_uncovered(self, resolved: ResolvedPolicy) -> list[str]:
        """What should be denied by now and a resolved policy does not: keys of new homes, other targets.

        Or what can be denied no longer: files with a second name. Kept sandboxes ask before each command, and
        as long as the host answers as it did, so does this.
        """
        hidden = hidden_in_homes()

        def find(host: Host) -> frozenset[str]:
            return find_uncovered(resolved, self.policy, hidden, host) | find_second_names(resolved, host)

        with self._asked_lock:
            if self._asked is not resolved:
                self._asked, self._asked_cache = resolved, AnswerCache()
            found = self._asked_cache.find(self.host, find)
        return sorted(found - resolved.uncovered)

    def _is_outdated(self, resolved: ResolvedPolicy) -> bool:
        if has_what_was_denied(resolved, self.host):
            return True
        hidden = hidden_in_homes()
        found = self._uncovered.find(
            self.host, lambda host: find_uncovered(resolved, self.policy, hidden, host)
        )
        return not found <= resolved.uncovered

    def _build_resolved(self) -> ResolvedPolicy:
        resolved = resolve_policy(self.policy, self.workspace, self.host, hidden_in_homes())
        before = self.newly_uncovered(resolved)
        if not before:
            return resolved
        # Either it is meant to be seen, or it was made meanwhile: then a second plan denies it.
        resolved = resolve_policy(self.policy, self.workspace, self.host, hidden_in_homes())
        return resolved.replace(uncovered=frozenset(before).intersection(self.newly_uncovered(resolved)))

    def _probed(self, name: str) -> Probe:
        if name not in self._probes:
            self._probes[name] = self._probe(get_backend(name))
        return self._probes[name]

    def _probe(self, backend: Backend) -> Probe:
        if isinstance(self.host, RealHost):
            return probe_remembered(backend, self.host)
        return backend.probe(self.host)

    def _forget_failures(self) -> None:
        """What does not work now may work for the next command."""
        with self._lock:
            self._probes = {name: probe for name, probe in self._probes.items() if probe.available}

    def _given_up(self, resolved: ResolvedPolicy, *, unconfined: bool = False) -> frozenset[Feature]:
        if self.backend == UNCONFINED or unconfined:  # everything is given up, and the record says so
            return self.waived | (resolved.requires - RUNNER_FEATURES - self.policy.requires)
        return self.waived

    def _current_resolved(self) -> tuple[ResolvedPolicy, Nested]:
        with self._lock:
            if self._resolved is None or self._is_outdated(self._resolved[0]):
                resolved = self._build_resolved()
                if isinstance(self.host, RealHost):
                    writable = (g.target.path for g in resolved.grants if g.access is FsAccess.WRITE)
                    self.host.distrust((self.workspace, *writable))
                protects = Feature.FS_PROTECT in resolved.requires - self._given_up(resolved)
                nested = (
                    nested_repositories(resolved, getattr(self.host, "untraced", self.host))
                    if protects
                    else Nested()
                )
                self._resolved = (resolved, nested)
                self._held = AnswerCache(self._remembered_plan(resolved, nested))
                self._uncovered = AnswerCache()
            return self._resolved

    def _remembered_plan(self, resolved: ResolvedPolicy, nested: Nested) -> RememberedPlan | None:
        """What an earlier run has found, where looking for it takes longer than reading it."""
        if len(nested.repositories) < _MANY_REPOSITORIES or not isinstance(self.host, RealHost):
            return None
        from corral.host.remembered_plans import RememberedPlan

        policy = self.policy.replace(env=EnvPolicy())  # no part of it, and it may have secrets
        waived = self._given_up(resolved)
        return RememberedPlan(self.host, self.workspace, policy, resolved, nested, waived)


def _lower(
    wanted: Plan, probe: Probe, opening: Opening | None = None, *, passes_by: bool = False
) -> tuple[Plan, Launch]:
    """What a backend makes of a plan, and the plan with what is settled only now."""
    plan, mode = hold_defaults(wanted, probe), wanted.resolved.net.mode
    if opening is not None and mode is NetMode.LIMITED and probe.detail(PROXIED) == "yes":
        plan = plan.replace(proxy=opening.proxy(plan, probe))
    is_quiet = mode is NetMode.NONE and not plan.resolved.published
    if opening is not None and opening.observes and is_quiet and probe.detail(OBSERVED) == "yes":
        plan = plan.replace(observes=True)
    keeps = plan.command.keeps  # each command has streams of its own, which are not known yet
    if opening is not None and (opening.observes or keeps) and probe.detail(LISTENS) == "yes":
        can = can_listen(plan.resolved.deny_syscalls)
        plan = plan.replace(reports=can, hears=can and (passes_by if keeps else errors_pass_by(plan)))
    if plan.command.traces and probe.detail(TRACES) != "yes":
        raise PolicyError(
            "trace-backend",
            f"{probe.backend} cannot trace a command",
            why="only the launcher of native can, for single runs",
            fix="use --backend native, or leave --trace out",
        )
    return plan, get_backend(probe.backend).lower(plan, probe)
