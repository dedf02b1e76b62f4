"""Compile a sandbox: its plan, made by the same code as for a run, for the launcher to use alone.

What only the runner does, a compiled plan cannot have: scopes of systemd's, patterns that are held,
directories that are made and removed for a run. A policy that asks for these is refused, unless they are
waived. Control groups are made by the launcher, as the runner makes them here once for a trial; it guards
names that do not exist yet, and repositories are held read-only.
"""

from __future__ import annotations

import json
import os
import time

from corral.backends.registry import get_backend
from corral.compiled_plans.repositories import hold_repositories
from corral.compiled_plans.traced_host import Trace, TracedHost
from corral.limits.discover import make_own_group
from corral.limits.files import read
from corral.linux.compiled import CompiledPlan, EnvironmentRules, PlanHost, encode_plan, resolved_of
from corral.linux.encode import append_groups, append_guard, append_made_groups
from corral.model.errors import PolicyError, SetupError, UnenforceableError
from corral.model.feature import RUNNER_FEATURES, Feature
from corral.model.plan import PathKind, StdioMode
from corral.model.policy import FsAccess, Response
from corral.pipeline.planned_run import quarantine_for
from corral.planning.build import DEFAULT_PATH, fixed_environment
from corral.planning.resolve import is_beneath
from corral.policy import preset
from corral.protected_names.launcher_guard import name_guard
from corral.runtime.check import check
from corral.runtime.starter import GRACE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from corral.linux.spec import Guarded
    from corral.model.backend import Host
    from corral.model.launch import Launch
    from corral.model.plan import Plan
    from corral.model.policy import Policy
    from corral.pipeline.planner import Explanation
    from corral.sandbox import Sandbox

#: Backends whose sandbox the launcher makes by itself.
BACKENDS = ("native", "landlock")
MECHANISM = "corral-launch"
#: What is asked of groups that only count.
_COUNTING = frozenset({"memory", "pids", "cpuacct"})
#: Which groups the caller is in. A plan is for these: one made elsewhere could free a command from limits.
MEMBERSHIP = "/proc/self/cgroup"
#: Time stamps are as coarse as the kernel's tick; a younger one may hide a second change.
_TICK_NS = 20_000_000
_ROUNDS = 5
_LIMITS = {
    Feature.LIMIT_MEMORY: "memory_bytes",
    Feature.LIMIT_CPU: "cpus",
    Feature.LIMIT_CPU_TIME: "cpu_seconds",
}


class Compilation:
    """A plan for the launcher, and where it may not be written."""

    def __init__(self, plan: CompiledPlan, launcher: str, forbidden: tuple[str, ...]) -> None:
        self.plan = plan
        self.launcher = launcher
        self._forbidden = forbidden

    def write(self, path: str) -> str:
        """Write the file, for the caller alone; returns its real path.

        Raises PolicyError for a place where a command may write.
        """
        place = os.path.realpath(os.path.dirname(os.path.abspath(path)))
        target = os.path.join(place, os.path.basename(path))
        for root in self._forbidden:
            # TRUST: a command has the caller's user id. Whoever may write a plan may run what he likes.
            if target == root or target.startswith(f"{root.rstrip('/')}/"):
                raise PolicyError(
                    "plan-place",
                    f"the plan cannot be written to {path}",
                    why=f"it lies in {root}, where a command may write, under this policy or another",
                    fix="write it to a directory that no command gets, such as ~/.local/state/corral",
                )
        temporary = f"{target}.{os.urandom(4).hex()}"
        try:
            _write_private(temporary, encode_plan(self.plan))
            os.replace(temporary, target)
        except (OSError, ValueError) as problem:
            why = getattr(problem, "strerror", None) or str(problem)
            fix = "name a file in a directory that exists"
            raise PolicyError("not-writable", f"{path} could not be written", why=why, fix=fix) from problem
        return target


def compile_sandbox(make: Callable[[Trace], Sandbox], *, counts: bool = False) -> Compilation:
    """Plan with a trace of everything that was seen. `counts`: groups count what commands cost.

    `make` is called with the trace, in which it notes the files that it reads, before it reads them. It may
    be called again: a file that has changed a moment ago may change once more without a new time stamp.
    """
    for _ in range(_ROUNDS):
        began, trace = time.time_ns(), Trace()
        compiled = _compile(make(trace), trace, counts=counts)
        if trace.newest_ns < began - _TICK_NS:
            return compiled
        time.sleep(_TICK_NS / 1e9)
    raise SetupError(
        "plan-unsettled",
        "the policy cannot be compiled",
        why="files that it depends on are changing all the time",
        fix="compile it again when they have stopped changing",
    )


def _compile(sandbox: Sandbox, trace: Trace, *, counts: bool) -> Compilation:
    _check_response(sandbox.policy)
    for name in sorted(os.listdir(preset_directory())):
        trace.note_content(os.path.join(preset_directory(), name))
    hosts: list[Host] = []

    def wrap(host: Host) -> Host:
        hosts.append(TracedHost(host, trace))
        return hosts[0]

    traced = sandbox.through(wrap, BACKENDS)
    command = traced.read_command(("true",), stdin=None, stdio=StdioMode.INHERIT)
    _check_groups(traced, hosts[0])
    explanation = traced.planner.explain(command)
    plan, launch = _check_runner(explanation)
    check(plan, launch)
    for path in hosts[0].corral_files() if writable_paths(plan) else ():
        hosts[0].lstat(path)
    spec = with_groups(launch, trace, telling=_COUNTING if counts else frozenset())
    compiled = compiled_plan(plan, launch, trace, spec, json.dumps(_note(explanation, plan, launch)))
    return Compilation(compiled, launch.argv[0], (plan.resolved.workspace, *writable_paths(plan)))


def compiled_plan(plan: Plan, launch: Launch, trace: Trace, spec: bytes, note: str = "") -> CompiledPlan:
    """A plan with its spec, and all that it depends on."""
    resolved = plan.resolved
    return CompiledPlan(
        PlanHost(resolved.uid, resolved.gid, build_of(launch.argv[0]), boot_id(), os.uname().release),
        trace.seen,
        EnvironmentRules(
            tuple(sorted(plan.policy.env.passed)),
            (("PATH", DEFAULT_PATH),),
            tuple(sorted(fixed_environment(plan.policy, resolved, plan.waived).items())),
        ),
        resolved.limits.output_bytes,
        resolved_of(spec),
        note,
    )


def _check_response(policy: Policy) -> None:
    if policy.response is not Response.DENY:
        raise PolicyError(
            "refusal-compiled",
            "the policy cannot be compiled",
            why=f"refusal:{policy.response.value} is the runner's doing, and a compiled plan runs without it",
            fix="leave it out (--on-refusal deny), or use `corral run`",
        )


def _check_groups(sandbox: Sandbox, host: Host) -> None:
    """Raise UnenforceableError for limits that a control group holds, where the launcher can make none."""
    limits = sandbox.policy.limits
    if any(enforcer.holds for enforcer in host.enforcers()):
        return
    needed = {feature for feature, field in _LIMITS.items() if getattr(limits, field) is not None}
    if limits.pids is not None and os.geteuid() == 0:
        needed.add(Feature.LIMIT_PIDS)
    lacking = needed - sandbox.waived
    if lacking:
        raise _cannot_compile(
            frozenset(lacking), "a control group holds that limit, and the launcher may make none here"
        )


def with_groups(launch: Launch, trace: Trace, *, telling: frozenset[str] = frozenset()) -> bytes:
    """The spec, with the control group that the run needs: made here once, to see what it takes.

    `telling` are controllers that a group has also where they hold nothing: they tell why a command failed,
    or what it has cost.
    """
    assert launch.spec is not None
    request = launch.group
    if request is None or not (request.is_needed or telling):
        return launch.spec
    trace.note_text(MEMBERSHIP, read(MEMBERSHIP))
    group = make_own_group(request, f"trial{os.urandom(4).hex()}")
    try:
        records, settings = group.records(int(GRACE_SECONDS * 1000)), tuple(group.settings)
    finally:
        group.remove()
    used = [path for path, _ in settings]
    used += [record.path for record in (records.kill, records.cpu_time) if record is not None]
    used += [place for controller, place in group.directories.items() if controller in telling]
    # Others that only count are left out.
    directories = dict.fromkeys(group.directories.values())
    places = tuple(place for place in directories if any(is_beneath(path, place) for path in used))

    def made(path: str) -> str:
        number = next(number for number, place in enumerate(places) if is_beneath(path, place))
        return f"%{number}{path[len(places[number]) :]}"

    spec = append_groups(
        launch.spec,
        tuple(
            record.replace(path=made(record.path))
            for record in records.groups
            if any(is_beneath(record.path, place) for place in places)
        ),
        records.kill and records.kill.replace(path=made(records.kill.path)),
        records.cpu_time and records.cpu_time.replace(path=made(records.cpu_time.path)),
    )
    return append_made_groups(
        spec, map(os.path.dirname, places), ((made(path), value) for path, value in settings)
    )


def _check_runner(explanation: Explanation) -> tuple[Plan, Launch]:
    """The plan and launch, without what the runner would do; that has to be waived."""
    plan, launch = explanation.plan, explanation.launch
    if launch.gateway is not None:
        raise UnenforceableError(
            "not-compilable",
            "the policy cannot be compiled",
            why="the network is limited, and corral's own process makes the connections then",
            fix="use `corral run`, or a policy with `network:none` or `network:full`",
            lacking=frozenset({Feature.NET_PORTS, Feature.NET_DOMAINS}),
        )
    if launch.guards_names and not plan.searches:
        plan, launch = _have_guarded(explanation)
    elif plan.watches or plan.searches or plan.worktrees:
        plan = _check_unguarded(plan)
    if launch.copies:
        copied = launch.copies[0].copy.target.path
        raise _cannot_compile(
            frozenset({Feature.FS_PROTECT}),
            f"commands get a copy of {copied}, which corral's runner makes, and takes over what is harmless",
        )
    if launch.scratch:
        if Feature.FS_PRIVATE not in plan.waived:
            raise _cannot_compile(
                frozenset({Feature.FS_PRIVATE}),
                f"the backend {launch.backend} needs a directory that is made for each run, and removed",
            )
        # Without private areas at all, rather than with one that stays.
        plan = plan.replace(resolved=plan.resolved.replace(private=(), private_files=()))
        launch = get_backend(launch.backend).lower(plan, explanation.probe)
    return plan, launch


def _have_guarded(explanation: Explanation) -> tuple[Plan, Launch]:
    """The plan and launch with the names, and the repositories, that the launcher sees to."""
    plan, launch = explanation.plan, explanation.launch
    searched: tuple[Guarded, ...] = ()
    if Feature.FS_PROTECT in plan.waived:
        plan = plan.replace(worktrees=())
    elif plan.worktrees:
        plan, searched = hold_repositories(plan)
        launch = get_backend(launch.backend).lower(plan, explanation.probe)
    if not plan.watches and not searched:
        return plan, launch
    assert launch.spec is not None
    guard = name_guard(plan, os.path.dirname(quarantine_for("any"))).replace(searched=searched)
    return plan, launch.replace(spec=append_guard(launch.spec, guard))


def _check_unguarded(plan: Plan) -> Plan:
    """The plan without what nobody would watch over; that has to be waived."""
    # What keeps a name from appearing is asked for by the one feature or the other.
    asked = plan.requires - plan.waived
    feature = Feature.FS_PROTECT if Feature.FS_PROTECT in asked else Feature.FS_DENY
    names = sorted({glob.text for search in plan.searches for glob in search.globs})
    names += [f"{watch.directory}/{watch.name}" for watch in plan.watches if not names]
    if names and feature not in plan.waived:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise _cannot_compile(
            frozenset({feature}),
            f"nothing would remove what a command puts at {names[0]}{more}: corral's runner does that",
        )
    if plan.worktrees and Feature.FS_PROTECT not in plan.waived:
        raise _cannot_compile(
            frozenset({Feature.FS_PROTECT}),
            f"corral's runner checks what a command leaves for git in {plan.worktrees[0]}",
        )
    return plan.replace(watches=(), searches=(), worktrees=())


def _cannot_compile(features: frozenset[Feature], why: str) -> UnenforceableError:
    names = ",".join(sorted(feature.value for feature in features))
    return UnenforceableError(
        "not-compilable",
        "the policy cannot be compiled",
        why=why,
        fix=f"use `corral run`, which can do it; or give it up, on record, with --waive {names}",
        lacking=features,
    )


def writable_paths(plan: Plan) -> tuple[str, ...]:
    return tuple(grant.target.path for grant in plan.resolved.grants if grant.access is FsAccess.WRITE)


def preset_directory() -> str:
    return os.path.join(os.path.dirname(preset.__file__), "presets")


def build_of(launcher: str) -> str:
    """What the launcher was built from, as it says itself."""
    from corral.host.tool import run_tool

    told = run_tool((launcher, "--build"), 10.0, {})
    text = told.output.strip()
    if told.status != 0 or not text:
        raise SetupError(
            "launcher",
            "the launcher could not be asked for its build",
            why=told.errors.strip() or f"{launcher} --build said nothing",
            fix="reinstall corral with a C compiler on the machine; `corral doctor` says more",
        )
    return text


def boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError as problem:
        raise SetupError(
            "launcher",
            "the policy cannot be compiled",
            why=f"the kernel does not say when it was booted: {problem}",
            fix="mount /proc",
        ) from problem


def _write_private(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        os.unlink(path)
        raise


def _note(explanation: Explanation, plan: Plan, launch: Launch) -> dict[str, Any]:
    """What `corral compile --show` prints."""
    named = {**dict.fromkeys(RUNNER_FEATURES, MECHANISM), **launch.enforced}
    by_access = {
        access: [grant.target.path for grant in plan.resolved.grants if grant.access is access]
        for access in (FsAccess.WRITE, FsAccess.READ)
    }
    return {
        "profile": plan.policy.name,
        "policy_hash": plan.policy.digest(),
        "workspace": plan.resolved.workspace,
        "backend": f"{launch.backend} ({explanation.probe.version})",
        "write": by_access[FsAccess.WRITE],
        "read": by_access[FsAccess.READ],
        "private": list(plan.resolved.private),
        "denied": [
            target.requested
            for target in plan.resolved.denied
            if target.kind is not PathKind.MISSING or target.path not in plan.resolved.hidden
        ],
        "network": plan.resolved.net.mode.value,
        "enforced": {feature.value: named[feature] for feature in plan.requires - plan.waived},
        "waived": sorted(feature.value for feature in plan.waived),
        "unheld": [f"{feature.value} ({value})" for feature, value in plan.unheld],
        "notes": list(plan.notes),
    }
