"""Landlock: Landlock, seccomp and rlimits by corral-launch, without any namespace.

Guarantees   fs.read fs.write fs.private net.none ipc.private proc.shielded proc.single privileges syscalls
             environment descriptors terminal limit.wall limit.output limit.file-size limit.open-files;
             memory, cpu and pids limits with control groups; net.ports net.domains limit.traffic
             limit.traffic-rate for programs that use the proxy variables: all others have no network
Mechanism    one Landlock domain (files, TCP, signals, abstract sockets) and one seccomp filter; where the
             network is limited, a second filter that asks corral about every connection
Not covered  fs.deny and fs.protect (Landlock can only grant); fs.metadata (it has no right for modes,
             owners and times); private areas inside a granted path, which are refused; proc.hidden (names in
             /proc); proc.contained (a process that escapes its parent is found and killed, not contained);
             names, sizes, times and link texts of files outside; loopback and Unix sockets inside; a
             writable /tmp: $TMPDIR is elsewhere
Order        irrelevant: Landlock rules are a union, so no rule can narrow another
"""

from __future__ import annotations

from functools import lru_cache

from corral.backends import _gateway as gateway
from corral.backends import _launcher as common
from corral.backends import _limits as limiting
from corral.backends import _proxy as proxy
from corral.backends._mounts import is_beneath_writable
from corral.linux import landlock
from corral.linux.encode import encode_command, encode_paths, encode_resolved, join
from corral.linux.filter import SocketPolicy
from corral.linux.listening import can_listen
from corral.linux.spec import Landlock, PathRule, Spec
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.launch import Inside, Launch
from corral.model.plan import PrivateFile
from corral.model.policy import FsAccess, NetMode
from corral.model.probe import LISTENS, PROXIED, Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.backends._limits import Holders
    from corral.model.backend import Host
    from corral.model.plan import Plan, ResolvedPolicy

#: ABI 3 holds truncation; without it a file outside could be emptied.
_LEAST_ABI = 3
#: ABI 6 keeps signals and abstract sockets inside.
_SCOPES_ABI = 6

#: What programs read of /proc without looking at processes.
_PROC_FILES = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version", "sys")

_CLAIMS = frozenset(
    {
        Feature.FS_READ,
        Feature.FS_WRITE,
        Feature.FS_PRIVATE,
        Feature.NET_NONE,
        Feature.PROC_SINGLE,
        Feature.PRIVILEGES,
        Feature.SYSCALLS,
        Feature.ENVIRONMENT,
        Feature.DESCRIPTORS,
        Feature.TERMINAL,
        Feature.LIMIT_WALL,
        Feature.LIMIT_OUTPUT,
        Feature.LIMIT_FILE_SIZE,
        Feature.LIMIT_OPEN_FILES,
    }
)
_SCOPED_CLAIMS = frozenset({Feature.IPC_PRIVATE, Feature.PROC_SHIELDED})
#: The most that it claims on any host.
CLAIMS = _CLAIMS | _SCOPED_CLAIMS | limiting.BY_GROUPS | gateway.CLAIMS
#: Where it claims less, and for whom.
CONDITIONS = (
    (limiting.BY_GROUPS, limiting.GROUPS_NEEDED),
    (_SCOPED_CLAIMS, f"needs Landlock ABI {_SCOPES_ABI}"),
    (gateway.CLAIMS, proxy.CONDITION),
)

_APPROXIMATES = (
    (Feature.PROC_HIDDEN, "processes are visible, but not their names, arguments and memory"),
    (
        Feature.PROC_CONTAINED,
        "all processes are found and killed at the end, unless the supervisor itself was killed",
    ),
)
#: Where the kernel has no scopes.
_APPROXIMATES_UNSCOPED = (
    (Feature.IPC_PRIVATE, "shared memory, queues and Unix sockets are refused by seccomp alone"),
    (Feature.PROC_SHIELDED, "processes cannot be traced, but can be signalled"),
)


class LandlockBackend:
    name = "landlock"

    def probe(self, host: Host) -> Probe:
        """Apply an empty domain and the filter to a command that does not exist."""
        unusable = common.base_probe(self.name, host)
        if unusable is not None:
            return unusable
        abi = host.landlock_abi()
        if abi < _LEAST_ABI:
            reason = f"the kernel has Landlock ABI {abi}, and {_LEAST_ABI} is needed (Linux 6.2)"
            fix = "use a newer kernel, or boot this one with `lsm=landlock,...`"
            return Probe(self.name, False, reason=reason, fix=fix)
        may_proxy = abi >= proxy.LEAST_ABI and proxy.may_take_sockets(host)
        trial = host.try_launch(_trial_spec(abi, host.machine, asks=may_proxy))
        if may_proxy and trial.phase in {"net", "seccomp"}:
            may_proxy = False
            trial = host.try_launch(_trial_spec(abi, host.machine, asks=False))
        if trial.phase != "exec":
            reason, fix = common.explain_trial(trial)
            return Probe(self.name, False, reason=reason, fix=fix)
        holders = limiting.find_holders(host, namespaced=False)
        enforces = _CLAIMS | holders.claims | (gateway.CLAIMS if may_proxy else frozenset())
        scoped = abi >= _SCOPES_ABI
        return Probe(
            self.name,
            True,
            enforces | _SCOPED_CLAIMS if scoped else enforces,
            version=landlock.describe(abi),
            details=(
                ("launcher", host.launcher()[0]),
                ("landlock_abi", str(abi)),
                ("machine", host.machine),
                (LISTENS, "yes"),
                (PROXIED, "yes" if may_proxy else "no"),
                *holders.details(),
            ),
            approximates=holders.approximates + _APPROXIMATES + (() if scoped else _APPROXIMATES_UNSCOPED),
        )

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """A spec without namespaces; $HOME and $TMPDIR lead to a scratch directory of this run."""
        abi, resolved = int(probe.detail("landlock_abi")), plan.resolved
        if Feature.FS_PRIVATE not in plan.waived:
            _check_areas(resolved)
        if Feature.FS_WRITE not in plan.waived:
            _check_read_only(resolved)
        gateway.refuse_published(resolved, self.name)
        scratch = f"{resolved.scratch}/corral-{plan.run_id}"
        private = bool(resolved.private)
        # Questions about connections come by the listener of the commands' filter.
        can_ask = probe.detail(PROXIED) == "yes" and can_listen(resolved.deny_syscalls)
        is_proxied = gateway.is_limited(resolved) and can_ask
        env = proxy.changed_environment(plan, scratch if private else "", is_proxied=is_proxied)
        command = common.command_spec(plan, env, namespaces=False)
        holders = limiting.read_holders(probe, plan.resolved)
        encoded = _encoded_resolved(
            resolved,
            abi,
            probe.detail("machine"),
            holders,
            common.telling_of(plan).replace(asks=is_proxied),
        )
        rules = (PathRule(landlock.write_rights(abi, is_directory=True), scratch),) if private else ()
        return Launch(
            backend=self.name,
            argv=(probe.detail("launcher"),),
            env=(),
            enforced={
                **_mechanisms(plan, abi, is_proxied=is_proxied),
                **limiting.mechanisms(resolved.limits, holders),
            },
            spec=join(encoded, encode_paths(rules), encode_command(command)),
            holds_descriptors=True,  # a rule is about the file, not about the way to it
            scratch=scratch if private else "",
            scratch_files=tuple(
                PrivateFile(f"{scratch}/{file.path.removeprefix(resolved.home + '/')}", file.content)
                for file in resolved.private_files
                if private
            ),
            group=limiting.group_request(resolved.limits, holders, launcher_pids=0, ends_by_group=True),
            gateway=proxy.request(resolved) if is_proxied else None,
            inside=Inside(command.env, has_own_root=False),
        )


def _check_areas(resolved: ResolvedPolicy) -> None:
    """Inside a grant the name of a private area leads to what the host has there."""
    for path in resolved.private_in_grants:
        raise UnenforceableError(
            "unenforceable",
            f"the backend landlock cannot make the private area {path}",
            why="it is in a granted path, and Landlock cannot hide what the host has there",
            fix="use another backend, or a private area elsewhere",
            lacking=frozenset({Feature.FS_PRIVATE}),
        )


def _check_read_only(resolved: ResolvedPolicy) -> None:
    """Rules add up: what one permits for a directory, none takes back further down."""
    for grant in resolved.grants:
        if grant.access is FsAccess.READ and is_beneath_writable(resolved, grant.target.path):
            raise UnenforceableError(
                "unenforceable",
                f"the backend landlock cannot keep {grant.target.requested} read-only",
                why="it is in a writable path, and Landlock cannot permit less there",
                fix="use another backend, or leave that path out of what is writable",
                lacking=frozenset({Feature.FS_WRITE}),
            )


@lru_cache(maxsize=64)
def _encoded_resolved(
    resolved: ResolvedPolicy,
    abi: int,
    machine: str,
    holders: Holders,
    telling: common.Telling,
) -> tuple[int, bytes]:
    # INVARIANT: where corral connects the command's sockets, Landlock still permits no port to the command.
    no_network = resolved.net.mode is not NetMode.FULL
    sockets = SocketPolicy.NONE if no_network else SocketPolicy.INTERNET
    if telling.asks:
        sockets = SocketPolicy.PROXIED
    watch = limiting.watch_request(resolved.limits, holders, processors=1)
    return encode_resolved(
        Spec(
            argv=(),
            cwd="/",
            gateway=proxy.ASKING if telling.asks else None,
            watch=watch,
            rlimits=common.rlimits(resolved.limits) + limiting.rlimits(resolved.limits, holders),
            landlock=_rules(resolved, abi, no_network=no_network),
            seccomp=common.resolved_filter(
                resolved, machine, sockets, by_filter=True, watch=watch, telling=telling
            ),
            listens=common.listens(machine, telling),
        )
    )


def _rules(resolved: ResolvedPolicy, abi: int, *, no_network: bool) -> Landlock:
    paths = [PathRule(landlock.device_rights(abi), f"/dev/{name}") for name in common.DEVICES]
    for name in _PROC_FILES:
        rights = landlock.read_rights(abi, is_directory=name == "sys", execute=False)
        paths.append(PathRule(rights, f"/proc/{name}"))
    paths += common.grant_rules(resolved, abi)
    handled_net = landlock.handled_net(abi) if no_network else 0
    return Landlock(landlock.handled_fs(abi), handled_net, landlock.scoped(abi), tuple(paths))


def _mechanisms(plan: Plan, abi: int, *, is_proxied: bool) -> dict[Feature, str]:
    lock = landlock.describe(abi)
    scopes = _SCOPED_CLAIMS if abi >= _SCOPES_ABI else frozenset()
    return {
        Feature.FS_READ: lock,
        Feature.FS_WRITE: lock,
        Feature.FS_PRIVATE: "a fresh directory as $HOME and $TMPDIR",
        **common.MECHANISMS,
        **dict.fromkeys(scopes, f"{lock} scopes + seccomp"),
        **_network(plan, lock, is_proxied=is_proxied),
        **common.single_process(plan),
    }


def _network(plan: Plan, lock: str, *, is_proxied: bool) -> dict[Feature, str]:
    if is_proxied:
        text = f"{lock} + seccomp: corral makes every connection"
        return {Feature.NET_NONE: text, **gateway.mechanisms(plan, text)}
    return {Feature.NET_NONE: "seccomp: no sockets"} if common.network_is_private(plan) else {}


def _trial_spec(abi: int, machine: str, *, asks: bool) -> bytes:
    telling = common.Telling(asks=asks)
    spec = Spec(
        argv=("/corral-trial",),
        cwd="/",
        gateway=proxy.ASKING if asks else None,
        listens=common.listens(machine, telling),
        landlock=Landlock(landlock.handled_fs(abi), landlock.handled_net(abi), landlock.scoped(abi)),
        seccomp=common.compile_seccomp(machine, SocketPolicy.NONE, by_filter=True, telling=telling),
    )
    return join(encode_resolved(spec), encode_command(spec))
