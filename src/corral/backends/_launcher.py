"""What the backends that use corral-launch have in common: limits, the filter, and the probe's words."""

from __future__ import annotations

from corral.linux import landlock
from corral.linux.bpf import compile_filter
from corral.linux.filter import SocketPolicy, default_filter
from corral.linux.listening import listened, with_questions, with_reports, with_traces
from corral.linux.spec import PathRule, Rlimit, ServeFlag, Spec
from corral.linux.syscalls import Arch
from corral.model.errors import PolicyError
from corral.model.feature import Feature
from corral.model.plan import PathKind, StdioMode
from corral.model.policy import FsAccess, NetMode, Response
from corral.model.probe import LaunchTrial, Probe
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.linux.spec import LimitWatch
    from corral.model.backend import Host
    from corral.model.plan import Plan, ResolvedPolicy
    from corral.model.policy import Limits

RLIMIT_FSIZE, RLIMIT_CORE, RLIMIT_NOFILE = 1, 4, 7
#: One byte, not none: a core_pattern that names a program is run for a limit of 0, but not of 1 (core(5)).
_NO_CORE = Rlimit(RLIMIT_CORE, 1, 1)
GRACE_MS = 2000

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

_ERRNO_EPERM, _ERRNO_EACCES, _ERRNO_ENOSPC, _ERRNO_EUSERS = 1, 13, 28, 87

_filters: dict[tuple[object, ...], bytes] = {}

#: What the launcher holds in the same way wherever it is the first process of a sandbox.
MECHANISMS = {
    Feature.PRIVILEGES: "no_new_privs, no capabilities, seccomp",
    Feature.SYSCALLS: "seccomp",
    Feature.DESCRIPTORS: "close_range",
    Feature.TERMINAL: "new session + seccomp",
    Feature.LIMIT_FILE_SIZE: "RLIMIT_FSIZE",
    Feature.LIMIT_OPEN_FILES: "RLIMIT_NOFILE",
}


def base_probe(name: str, host: Host, program: str = "") -> Probe | None:
    """The probe of a host on which the launcher, or an outer program, cannot work at all; None if it may."""
    if host.platform != "linux":
        return Probe(name, False, reason="it needs Linux", fix="use another backend on this platform")
    if host.machine not in {arch.value for arch in Arch}:
        known = ", ".join(arch.value for arch in Arch)
        return Probe(name, False, reason=f"no system-call table for {host.machine} (only {known})")
    launcher, reason = host.launcher()
    if not launcher:
        fix = "install a C compiler (`apt-get install gcc libc6-dev`), then reinstall corral"
        return Probe(name, False, reason=f"the launcher was not built: {reason}", fix=fix)
    if program and not host.which(program):
        fix = f"install it: `apt-get install {name}`, `dnf install {name}`"
        return Probe(name, False, reason=f"there is no `{program}` on the PATH", fix=fix)
    return None


class Telling(Record):
    """What a filter tells of the calls that it sees."""

    reports: bool = False  # what it refuses, when it happens
    hears: bool = False  # and what is written to standard error
    traces: bool = False  # and which calls on files fail
    response: Response = Response.DENY  # what follows a refusal
    asks: bool = False  # corral is asked about connections


SILENT = Telling()


def telling_of(plan: Plan) -> Telling:
    """What the filter of a plan has to tell."""
    return Telling(plan.reports, plan.hears, plan.command.traces, plan.policy.response)


def compile_seccomp(
    machine: str,
    sockets: SocketPolicy,
    *,
    by_filter: bool,
    single: bool = False,
    debugging: bool = False,
    watch: LimitWatch | None = None,
    kept: bool = False,
    denied: frozenset[str] = frozenset(),
    telling: Telling = SILENT,
) -> bytes:
    """The system-call filter as bytes; compiled once for each way of asking."""
    watched = (False, False, False)
    if watch is not None:
        watched = (watch.memory_bytes > 0, watch.processors > 0, 0 < watch.share_permille < 1000)
    told = (telling.reports, telling.hears, telling.traces, telling.asks)
    key = (machine, sockets, by_filter, single, debugging, watched, kept, denied, told)
    if key not in _filters:
        try:
            rules = default_filter(
                sockets=sockets,
                private_ipc_by_filter=by_filter,
                single_process=single,
                debugging=debugging,
                watched_memory=watched[0],
                pinned=watched[1],
                stopped=watched[2],
                kept=kept,
                extra_denied=denied,
            )
        except ValueError as problem:
            raise PolicyError(
                "unknown-syscall",
                "the policy's system calls cannot be denied",
                why=str(problem),
                fix="see `man 2 syscalls` for the names",
            ) from problem
        if telling.reports:
            rules = with_reports(rules, denied, hears=telling.hears)
        if telling.asks:
            rules = with_questions(rules)
        if telling.traces:
            rules = with_traces(rules)
        _filters[key] = compile_filter(rules, Arch(machine))
    return _filters[key]


def resolved_filter(
    resolved: ResolvedPolicy,
    machine: str,
    sockets: SocketPolicy,
    *,
    by_filter: bool,
    watch: LimitWatch | None = None,
    kept: bool = False,
    telling: Telling = SILENT,
) -> bytes:
    """The filter that a resolved policy asks for; `kept`: of a sandbox for many commands."""
    return compile_seccomp(
        machine,
        sockets,
        by_filter=by_filter,
        single=not resolved.spawn,
        debugging=resolved.debug and resolved.spawn,
        watch=watch,
        kept=kept,
        denied=resolved.deny_syscalls,
        telling=telling,
    )


def listens(machine: str, telling: Telling) -> tuple[tuple[int, int], ...]:
    """For whoever has a filter that reports: what the supervisor has to know of the calls."""
    if not telling.reports and not telling.traces and not telling.asks:
        return ()
    return tuple(listened(Arch(machine), traces=telling.traces, response=telling.response))


def single_process(plan: Plan) -> dict[Feature, str]:
    """The mechanism that keeps the command to one process, where the policy grants no other."""
    return {} if plan.resolved.spawn else {Feature.PROC_SINGLE: "seccomp: threads and exec only"}


def grant_rules(resolved: ResolvedPolicy, abi: int) -> list[PathRule]:
    """The grants as Landlock rules, each with what must be found at its path."""
    rules = []
    for grant in resolved.grants:
        target = grant.target
        is_directory = target.kind is PathKind.DIRECTORY
        rights = landlock.write_rights if grant.access is FsAccess.WRITE else landlock.read_rights
        rule = PathRule(rights(abi, is_directory=is_directory), target.path, target.device, target.inode)
        rules.append(rule)
    return rules


def rlimits(limits: Limits) -> tuple[Rlimit, ...]:
    """Limits that hold for each process of the tree by themselves."""
    pairs = ((RLIMIT_FSIZE, limits.file_size_bytes), (RLIMIT_NOFILE, limits.open_files))
    return (_NO_CORE, *(Rlimit(resource, value, value) for resource, value in pairs if value is not None))


def wall_ms(plan: Plan) -> int:
    """The time limit for the launcher; 0 for none."""
    seconds = plan.resolved.limits.wall_seconds
    return 0 if seconds is None else max(1, int(seconds * 1000))


def command_spec(
    plan: Plan, env: tuple[tuple[str, str], ...] | None = None, *, namespaces: bool = True
) -> Spec:
    """What belongs to the command alone; `env` where a backend leads variables elsewhere.

    Without `namespaces` nothing but Landlock keeps commands from signalling processes of the host.
    """
    return Spec(
        argv=plan.command.argv,
        cwd=plan.command.cwd,
        env=plan.env if env is None else env,
        wall_ms=wall_ms(plan),
        grace_ms=GRACE_MS,
        terminal=plan.command.stdio is StdioMode.TERMINAL,
        serves=_serves(plan, namespaces=namespaces) if plan.command.keeps else None,
    )


def _serves(plan: Plan, *, namespaces: bool) -> ServeFlag:
    """A filter that denies what the server itself does must be each command's own.

    Limits that the launcher watches over come with a filter that keeps commands from waking each other.
    """
    limits = plan.resolved.limits
    is_watched = limits.memory_bytes is not None or limits.cpus is not None or limits.pids is not None
    is_own = not plan.resolved.spawn or plan.resolved.deny_syscalls or is_watched
    flags = ServeFlag(0) if is_own else ServeFlag.FILTERED
    if namespaces and limits.cpus is None:
        flags |= ServeFlag.SIGNALS
    return flags | ServeFlag.SOCKETS if namespaces and network_is_private(plan) else flags


def own_pids(*, kept: bool) -> int:
    """How many processes of the launcher live among those of the sandbox."""
    return 4 if kept else 1  # PID 1; in a kept sandbox the job of a command, and two that wait


def network_is_private(plan: Plan) -> bool:
    """Whether the command gets no network but its own."""
    return plan.resolved.net.mode is not NetMode.FULL


#: Held by a mount beneath a writable one. Unlocked it comes off when the sandbox ends, and somebody else may
#: hold a descriptor from above it.
LOCKED = frozenset({Feature.FS_DENY, Feature.FS_PROTECT})
TRIAL_CONDITION = (frozenset({Feature.FS_TRIAL}), "needs overlayfs in user namespaces (Linux 5.11)")
LOCK_CONDITION = (LOCKED, "needs a second user namespace inside the first")
_LOCK = ("lock", "yes")


class Parts(Record):
    """How a trial went, and which parts of a sandbox this host has."""

    trial: LaunchTrial
    has_lock: bool
    has_gateway: bool

    def about(self, probe: Probe, lacking: frozenset[Feature] = frozenset()) -> Probe:
        """A probe, less what is lacking for other reasons and what the lock would hold, if there is none."""
        if not self.has_lock:
            return probe.replace(enforces=probe.enforces - lacking - LOCKED)
        return probe.replace(enforces=probe.enforces - lacking, details=(*probe.details, _LOCK))


def try_parts(attempt: Callable[[bool, bool], LaunchTrial]) -> Parts:
    """Try a sandbox whole, and again without what fails.

    `attempt` is told whether to lock the mounts, and whether to make the gateway's sockets.
    """
    lock = sockets = True
    while True:
        trial = attempt(lock, sockets)
        if trial.phase == "net" and sockets:
            sockets = False
        elif trial.phase == "lock" and lock:
            lock = False
        else:
            return Parts(trial, lock, sockets)


def is_locked(probe: Probe) -> bool:
    """Whether mounts are locked on this host."""
    return _LOCK in probe.details


def id_map(uid: int, own: int, shown: int | None = None) -> str:
    """Root sees every owner as it is; anyone else may map no one but himself, `shown` as another number."""
    if shown is not None and shown != own:
        return f"{shown} {own} 1\n"
    return "0 0 4294967295\n" if uid == 0 else f"{own} {own} 1\n"


#: What it takes to map every id, as root. For the launcher's helper; nothing is left of it for the command.
LOCKING_CAPABILITIES = ("SETFCAP", "SETGID", "SETUID")


def explain_trial(trial: LaunchTrial) -> tuple[str, str]:
    """(reason, fix) for a launch that was tried and failed."""
    denied = {_ERRNO_EPERM, _ERRNO_EACCES, _ERRNO_ENOSPC, _ERRNO_EUSERS}
    if trial.phase in {"namespaces", "net"} and trial.errno in denied:
        return (
            f"user namespaces are forbidden or used up here ({trial.detail})",
            "as root: `sysctl -w kernel.unprivileged_userns_clone=1` (Debian) or `sysctl -w "
            "user.max_user_namespaces=15000`; without root, use --backend landlock",
        )
    if trial.phase == "mounts":
        return (
            f"mounting inside a namespace failed: {trial.detail} (errno {trial.errno})",
            "this is usual inside a container that hides parts of /proc: use --backend landlock there",
        )
    if trial.phase == "late":
        return trial.detail, "run the command again when the machine is less busy"
    if trial.phase in {"spawn", "launcher"}:
        return f"the launcher does not work: {trial.detail}", "reinstall corral; its launcher is broken"
    return (
        f"phase {trial.phase} failed: {trial.detail} (errno {trial.errno})",
        "run `corral doctor --json` and report it if the kernel should be able to do this",
    )


def judge_outer(probe: Probe, trial: LaunchTrial, program: str, fix: str) -> Probe:
    """The probe, if a launch through its program came as far as it could; else why it did not."""
    if trial.phase == "exec":
        return probe
    if trial.phase == "outer":
        reason = f"{program} failed: {trial.detail}"
    else:
        reason, fix = explain_trial(trial)
    return Probe(probe.backend, False, reason=reason, fix=fix, version=probe.version)
