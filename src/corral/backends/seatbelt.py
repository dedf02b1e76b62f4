"""Seatbelt: `sandbox-exec` of macOS, with a profile made for each run.

Guarantees   fs.read fs.write fs.metadata fs.deny fs.protect fs.private net.none proc.shielded proc.single
             ipc.private environment descriptors limit.wall limit.output limit.file-size limit.open-files;
             privileges and terminal for anyone but root; net.ports net.domains limit.traffic
             limit.traffic-rate for programs that use the proxy variables: all others have no network
Mechanism    a profile that denies by default; /bin/sh inside it sets limits and starts the command
Not covered  proc.hidden (a command that guesses a PID can read the arguments and variables of the user's
             other processes); proc.contained (a process that leaves the process group keeps running,
             confined); syscalls (Seatbelt has no list that a policy could extend); limits of a whole process
             tree; names in /, the system libraries and /bin/sh, which every program needs; a writable /tmp:
             $TMPDIR is elsewhere; sockets with a path, inside as well; hard links, which are refused. Names
             in writable paths are protected in upper and lower case alike, even on a case-sensitive file
             system; a denial by a name other than the kernel's for the path around it is refused
Order        irrelevant: the profile only allows, and excludes stricter paths from each rule
"""

from __future__ import annotations

from corral.backends import _gateway as gateway
from corral.backends import _proxy as proxy
from corral.backends._sbpl import Seat, build_profile
from corral.backends._spelling import check_spelling
from corral.model.errors import UnenforceableError
from corral.model.feature import RUNNER_FEATURES, Feature
from corral.model.launch import Launch
from corral.model.plan import PrivateFile
from corral.model.policy import NetMode
from corral.model.probe import PROXIED, Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.plan import Plan
    from corral.model.policy import Limits

#: By its path: another one on the PATH is somebody else's.
PROGRAM = "/usr/bin/sandbox-exec"
_SHELL = "/bin/sh"
#: What is tried: everything is allowed but to read this, which every Mac has and everyone may read.
_SUBJECT = "/etc/hosts"
_TRIAL = '(version 1)(allow default)(deny file-read* (literal "/private/etc/hosts"))'
#: What a profile is compiled to is bounded, and nobody has written down how: no run is to depend on it.
_MOST_PROFILE_BYTES = 512 * 1024

_CLAIMS = RUNNER_FEATURES | {
    Feature.FS_READ,
    Feature.FS_WRITE,
    Feature.FS_METADATA,
    Feature.FS_DENY,
    Feature.FS_PROTECT,
    Feature.FS_PRIVATE,
    Feature.NET_NONE,
    Feature.PROC_SHIELDED,
    Feature.PROC_SINGLE,
    Feature.IPC_PRIVATE,
    Feature.DESCRIPTORS,
    Feature.LIMIT_FILE_SIZE,
    Feature.LIMIT_OPEN_FILES,
    *gateway.CLAIMS,
}
#: Root stays root inside, and may type into a terminal that is not its own.
_USER_CLAIMS = frozenset({Feature.PRIVILEGES, Feature.TERMINAL})
CLAIMS = _CLAIMS | _USER_CLAIMS
#: Where it claims less, and for whom.
CONDITIONS = ((_USER_CLAIMS, "not as root"),)
_APPROXIMATES = (
    (Feature.PROC_HIDDEN, "processes cannot be listed, but arguments of the user's own can be read"),
    (Feature.PROC_CONTAINED, "its process group is ended; a process that left the group survives, confined"),
    (Feature.SYSCALLS, "no filter: the profile judges what system calls do, not which ones are made"),
)
_APPROXIMATES_ROOT = (
    (Feature.PRIVILEGES, "set-user-id programs do not start; root stays root"),
    (Feature.TERMINAL, "it has its own session; root can still type into the terminal"),
)


class SeatbeltBackend:
    name = "seatbelt"

    def probe(self, host: Host) -> Probe:
        """Read a file that everyone may read, in a sandbox that forbids it and in one that does not."""
        if host.platform != "darwin":
            return Probe(
                self.name, False, reason="it needs macOS", fix="use another backend on this platform"
            )
        if host.lstat(PROGRAM) is None:
            return Probe(self.name, False, reason=f"there is no {PROGRAM}", fix="update or repair macOS")
        reading = ("/bin/cat", _SUBJECT)
        control = host.run_tool((PROGRAM, "-p", "(version 1)(allow default)", *reading))
        if control.status != 0:
            why = control.errors.strip().partition("\n")[0] or f"exit status {control.status}"
            fix = "run corral outside of any other sandbox: Seatbelt does not nest"
            return Probe(self.name, False, reason=f"{PROGRAM} does not work here: {why}", fix=fix)
        denied = host.run_tool((PROGRAM, "-p", _TRIAL, *reading))
        if denied.status == 0 or denied.output or "not permitted" not in denied.errors:
            reason = f"{PROGRAM} did not keep {_SUBJECT} from being read"
            return Probe(self.name, False, reason=reason, fix="use --backend lima, and report this")
        return Probe(
            self.name,
            True,
            CLAIMS if host.uid else _CLAIMS,
            version="sandbox-exec",
            details=((PROXIED, "yes"),),
            approximates=_APPROXIMATES if host.uid else _APPROXIMATES + _APPROXIMATES_ROOT,
        )

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """The command in a shell in `sandbox-exec`; $HOME and $TMPDIR lead to a scratch directory."""
        resolved = plan.resolved
        if resolved.deny_syscalls:
            raise UnenforceableError(
                "unenforceable",
                "the policy's system calls cannot be denied",
                why=f"Seatbelt has no list of system calls: {', '.join(sorted(resolved.deny_syscalls))}",
                fix="leave syscall:deny out, or use --backend lima",
                lacking=frozenset({Feature.SYSCALLS}),
            )
        if resolved.debug:
            raise UnenforceableError(
                "unenforceable",
                "Seatbelt cannot grant process:debug",
                why="a debugger on macOS needs an entitlement that no profile gives",
                fix="leave process:debug out, or use --backend lima",
                lacking=frozenset(),
            )
        gateway.refuse_published(resolved, self.name)
        _check_areas(plan)
        check_spelling(plan)
        scratch = f"{resolved.scratch}/corral-{plan.run_id}"
        private = bool(resolved.private)
        is_proxied = gateway.is_limited(resolved)
        port = plan.proxy.port if is_proxied else 0
        home = plan.command.kept_home or scratch
        seat = Seat(home, f"{scratch}/.corral-started", private, proxy_port=port)
        profile = build_profile(plan, seat)
        _check_size(profile)
        # TRUST: where corral keeps its own state, which no command of any run may write: in the directory of
        # temporary files another run's command could change it, if its policy grants that directory.
        place = f"{resolved.profiles or scratch}/corral-{plan.run_id}.sb"
        own_files = resolved.private_files if private and home == scratch else ()
        return Launch(
            backend=self.name,
            argv=(
                *(PROGRAM, "-f", place),
                *(_SHELL, "-c", _script(resolved.limits), seat.started, *plan.command.argv),
            ),
            env=proxy.changed_environment(plan, home if private else "", is_proxied=is_proxied),
            enforced=_mechanisms(plan, probe),
            scratch=scratch,
            scratch_files=tuple(
                PrivateFile(f"{scratch}/{file.path.removeprefix(resolved.home + '/')}", file.content)
                for file in own_files
            ),
            profile=PrivateFile(place, profile.encode()),
            started=seat.started,
            gateway=proxy.request(resolved),
            cwd=plan.command.cwd,
        )


def _check_areas(plan: Plan) -> None:
    """TRUST: rules are about real paths. An area by the name of a link would leave out nothing of the grant
    that the link leads to.
    """
    roots = [grant.target.path for grant in plan.resolved.grants]
    for area in plan.resolved.private_in_grants:
        if not any(place.startswith(f"{root}/") for place in (area, f"/private{area}") for root in roots):
            raise UnenforceableError(
                "unenforceable",
                f"{area} cannot be made private",
                why="it is a link into a path that is granted, and Seatbelt has rules for real paths",
                fix="name the directory that the link leads to",
                lacking=frozenset({Feature.FS_PRIVATE}),
            )


def _script(limits: Limits) -> str:
    """What the shell does: limits, then the sign that the sandbox stands, then the command in its place.

    ORDER: a program that is not there is found out before the sign is given, so it counts as not started.
    """
    lines = ["ulimit -c 0"]
    if limits.open_files is not None:
        lines.append(f"ulimit -n {limits.open_files} || exit 125")
    if limits.file_size_bytes is not None:
        # Some shells count by 512 bytes, others by 1024: then it is half of what is permitted, never more.
        lines.append(f"ulimit -f {limits.file_size_bytes // 1024} || exit 125")
    return "\n".join(
        [
            *lines,
            'command -v -- "$1" >/dev/null 2>&1 || { printf \'%s: not found\\n\' "$1" >&2; exit 127; }',
            ': >"$0" || exit 125',
            "unset SHLVL OLDPWD",
            'exec "$@"',
        ]
    )


def _check_size(profile: str) -> None:
    size = len(profile.encode())
    if size > _MOST_PROFILE_BYTES:
        raise UnenforceableError(
            "unenforceable",
            "the policy is too large for a Seatbelt profile",
            why=f"the profile has {size} bytes, and more than {_MOST_PROFILE_BYTES} are not compiled",
            fix="grant a directory instead of many paths in it, or work in a smaller directory",
            lacking=frozenset({Feature.FS_READ, Feature.FS_WRITE}),
        )


def _mechanisms(plan: Plan, probe: Probe) -> dict[Feature, str]:
    profile = "Seatbelt profile"
    named = {
        **dict.fromkeys((Feature.FS_READ, Feature.FS_WRITE, Feature.FS_METADATA), profile),
        Feature.FS_DENY: f"{profile}: left out of the rules around it",
        Feature.FS_PROTECT: f"{profile}: no such name can be made, changed or moved",
        Feature.FS_PRIVATE: "a fresh directory as $HOME and $TMPDIR",
        Feature.PROC_SHIELDED: f"{profile}: signals and tracing inside only",
        Feature.IPC_PRIVATE: f"{profile}: no shared memory, semaphores or services",
        Feature.DESCRIPTORS: "closed when it is started",
        Feature.PRIVILEGES: f"{profile}: no set-user-id program starts",
        Feature.TERMINAL: "new session; only an ordinary user",
        Feature.LIMIT_FILE_SIZE: "RLIMIT_FSIZE",
        Feature.LIMIT_OPEN_FILES: "RLIMIT_NOFILE",
    }
    if plan.resolved.net.mode is NetMode.NONE:
        named[Feature.NET_NONE] = f"{profile}: no sockets"
    named |= gateway.mechanisms(plan, f"{profile}: one port, that of corral's proxy")
    if not plan.resolved.spawn:
        named[Feature.PROC_SINGLE] = f"{profile}: no fork"
    return {feature: how for feature, how in named.items() if feature in probe.enforces}
