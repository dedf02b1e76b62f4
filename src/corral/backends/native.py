"""Native: namespaces, a rebuilt file system, Landlock and seccomp, by corral-launch alone.

Guarantees   everything but net.except; limit.memory, limit.cpu and limit.cpu-time need control groups, and
             so does root's limit.pids
Mechanism    user, mount, pid, net, ipc, uts, cgroup namespaces; pivot_root into a tree of bind mounts;
             Landlock and seccomp as a second wall inside
Not covered  holes of the kernel itself; sockets of the host inside a granted directory
Order        mounts go from shallow to deep, so that a deeper rule covers a shallower one; protected paths
             below a mask or a private area are mounted before it
"""

from __future__ import annotations

from functools import lru_cache

from corral.backends import _gateway as gateway
from corral.backends import _inner as inner
from corral.backends import _launcher as common
from corral.backends import _limits as limiting
from corral.backends import _mounts as mounts
from corral.backends._surroundings import explain_surroundings
from corral.linux import landlock
from corral.linux.encode import encode_command, encode_paths, encode_resolved, join
from corral.linux.filter import SocketPolicy
from corral.linux.spec import Areas, Mount, MountFlag, MountKind, PathRule, Spec
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.last_made import LastMade
from corral.model.launch import HOSTNAME, Inside, Launch
from corral.model.plan import PathKind
from corral.model.policy import FsAccess, NetMode
from corral.model.probe import LISTENS, OBSERVED, TRACES, Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.backends._limits import Holders
    from corral.backends._mounts import Place
    from corral.linux.spec import GatewaySockets, Landlock
    from corral.model.backend import Host
    from corral.model.launch import CopyMount
    from corral.model.plan import Plan, ResolvedPolicy

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
_NAMESPACES = NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID

#: Of all private areas together, where the policy does not say; and how large a file is on average, at least.
_AREAS_BYTES, _BYTES_PER_FILE = 2 * 1024**3, 4096
_READ_ONLY = MountFlag.READ_ONLY
_SYSTEM_FILES = "/etc"
_ORDERED = LastMade()  # mounts, as long as what a plan holds is the same

#: The most that it claims on any host.
CLAIMS = frozenset(Feature) - {Feature.NET_EXCEPT}
#: First and number of the ids that root's commands have on the host. Nobody hands these out: subordinate ids
#: and systemd's containers end below (1879048191), systemd's foreign images begin above (2147352576). All
#: sandboxes share them: what keeps two of them apart are their namespaces, as ever.
_IDS = (1879048192, 65536)
_SUBORDINATE = ("/etc/subuid", "/etc/subgid")
#: Where it claims less, and for whom.
CONDITIONS = (
    *limiting.CONDITIONS,
    common.LOCK_CONDITION,
    common.TRIAL_CONDITION,
    (frozenset({Feature.PROC_IDENTITY}), "of root, by `--require`, for single commands; needs Linux 5.12"),
    (frozenset({Feature.IPC_PRIVATE}), "with `network:full`, needs Landlock ABI 6"),
)


class NativeBackend:
    name = "native"

    def probe(self, host: Host) -> Probe:
        """Try all of it, on a command that does not exist: whoever gets as far as exec can do the rest."""
        unusable = common.base_probe(self.name, host)
        if unusable is not None:
            return unusable
        abi = host.landlock_abi()
        found = common.try_parts(
            lambda lock, sockets: host.try_launch(
                _trial_spec(abi, host, lock=lock, sockets=gateway.TRIAL if sockets else None)
            )
        )
        if found.trial.phase != "exec":
            reason, fix = explain_surroundings(found.trial, host) or common.explain_trial(found.trial)
            return Probe(self.name, False, reason=reason, fix=fix)
        holders = limiting.find_holders(host, namespaced=True)
        has_identity = found.has_lock and _has_identity(host, abi)
        probe = Probe(
            self.name,
            True,
            CLAIMS
            - (frozenset() if has_identity else {Feature.PROC_IDENTITY})
            - limiting.BY_GROUPS
            - (frozenset() if found.has_gateway else gateway.CLAIMS)
            | holders.claims,
            version=landlock.describe(abi) if abi else "without landlock",
            details=(
                ("launcher", host.launcher()[0]),
                ("landlock_abi", str(abi)),
                ("machine", host.machine),
                ("processors", " ".join(map(str, host.processors()))),
                (OBSERVED, "yes" if found.has_gateway else "no"),
                (LISTENS, "yes"),
                (TRACES, "yes"),
                *holders.details(),
            ),
            approximates=holders.approximates,
        )
        return found.about(probe)

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """A spec for the launcher: the resolved policy once, then the shields and the command of this run."""
        abi, machine = int(probe.detail("landlock_abi")), probe.detail("machine")
        resolved = plan.resolved
        inner.check_abstract_sockets(plan, abi)
        has_identity = Feature.PROC_IDENTITY in plan.requires - plan.waived
        if has_identity:
            _check_identity(plan)
        is_locked = common.is_locked(probe)
        command = common.command_spec(plan)
        holders = limiting.read_holders(probe, plan.resolved)
        copies = mounts.copy_mounts(plan)
        return Launch(
            backend=self.name,
            argv=(probe.detail("launcher"),),
            env=(),
            enforced={
                **inner.mechanisms(plan, abi),
                **limiting.mechanisms(resolved.limits, holders),
                **({Feature.PROC_IDENTITY: _IDENTITY} if has_identity else {}),
            },
            spec=join(
                _encoded_resolved(
                    resolved,
                    abi,
                    machine,
                    holders,
                    _processors(probe),
                    is_kept=plan.command.keeps,
                    is_locked=is_locked,
                    observes=plan.observes,
                    layered=plan.command.trial.root if plan.command.trial is not None else "",
                    telling=common.telling_of(plan),
                    has_identity=has_identity,
                ),
                _encoded_mounts(plan, copies, is_locked=is_locked),
                encode_paths(mounts.copy_rules(copies, abi) if abi else ()),
                encode_command(command),
            ),
            copies=copies,
            group=limiting.group_request(
                resolved.limits,
                holders,
                launcher_pids=common.own_pids(kept=plan.command.keeps),
                ends_by_group=False,
            ),
            gateway=gateway.request(resolved, observes=plan.observes),
            inside=Inside(command.env),
            guards_names=not plan.command.keeps,
        )


_IDENTITY = f"user namespace: ids {_IDS[0]} to {sum(_IDS) - 1} of the host, mounts with these mapped"


def _has_identity(host: Host, abi: int) -> bool:
    """Whether a command of root's can have ids that are nobody's."""
    if host.uid != 0:
        return False
    taken = "\n".join(host.read_text(path, 1 << 20) for path in _SUBORDINATE)
    for line in taken.splitlines():
        _, _, text = line.partition(":")
        first, _, count = text.partition(":")
        is_range = first.isdecimal() and count.strip().isdecimal()
        if is_range and int(first) < sum(_IDS) and int(first) + int(count) > _IDS[0]:
            return False
    return host.try_launch(_trial_spec(abi, host, lock=True, sockets=None, identity=_IDS)).phase == "exec"


def _check_identity(plan: Plan) -> None:
    """Raise UnenforceableError for what would not work with ids of its own."""
    if plan.command.keeps or plan.command.trial is not None:
        why = "it is held for single commands, not yet in a kept sandbox or on trial"
    elif plan.resolved.unmappable:
        path, kind = plan.resolved.unmappable[0]
        why = f"{path} is to be written, and ids of its file system ({kind}) cannot be mapped"
    else:
        return
    raise UnenforceableError(
        "unenforceable",
        "a command of root's cannot have ids of its own here",
        why=why,
        fix="do without requiring proc.identity, or run it as an ordinary user",
        lacking=frozenset({Feature.PROC_IDENTITY}),
    )


def _processors(probe: Probe) -> tuple[int, int]:
    usable, online = map(int, probe.detail("processors").split())
    return usable, online


@lru_cache(maxsize=64)
def _encoded_resolved(
    resolved: ResolvedPolicy,
    abi: int,
    machine: str,
    holders: Holders,
    processors: tuple[int, int],
    *,
    is_kept: bool,
    is_locked: bool,
    observes: bool,
    telling: common.Telling,
    has_identity: bool = False,
    layered: str = "",
) -> tuple[int, bytes]:
    private_network = resolved.net.mode is not NetMode.FULL
    sockets = SocketPolicy.NAMESPACED if private_network else SocketPolicy.HOST
    watch = limiting.watch_request(resolved.limits, holders, processors=processors[0], online=processors[1])
    return encode_resolved(
        Spec(
            argv=(),
            cwd="/",
            namespaces=_NAMESPACES | (NEWNET if private_network else 0),
            uid_map=common.id_map(resolved.uid, resolved.uid),
            gid_map=common.id_map(resolved.uid, resolved.gid),
            lock=is_locked,
            identity=_IDS if has_identity else None,
            hostname=HOSTNAME,
            loopback=private_network,
            gateway=gateway.sockets(resolved, observes=observes),
            watch=watch,
            areas=_areas(resolved) if resolved.private else None,
            rlimits=common.rlimits(resolved.limits)
            + limiting.rlimits(resolved.limits, holders, launcher_pids=common.own_pids(kept=is_kept)),
            landlock=_landlock(resolved, abi, layered) if abi else None,
            seccomp=common.resolved_filter(
                *(resolved, machine, sockets),
                by_filter=False,
                watch=watch,
                kept=is_kept,
                telling=telling,
            ),
            listens=common.listens(machine, telling),
        )
    )


def _encoded_mounts(plan: Plan, copies: tuple[CopyMount, ...], *, is_locked: bool) -> tuple[int, bytes]:
    """All mounts of a run. Those of the policy are kept encoded; the protection of this run joins them."""
    kept = _encoded_resolved_mounts(plan.resolved, is_locked=is_locked)
    if plan.command.trial is not None:
        kept = mounts.layered(kept, plan.resolved, plan.command.trial)
        return mounts.in_order((*kept, *mounts.shields(plan, copies)))
    held = (plan.shields, plan.pins, plan.watches, plan.copies)
    return _ORDERED.get(
        (kept, plan.resolved, *held), lambda: mounts.in_order((*kept, *mounts.shields(plan, copies)))
    )


@lru_cache(maxsize=64)
def _encoded_resolved_mounts(resolved: ResolvedPolicy, *, is_locked: bool) -> tuple[Place, ...]:
    made = (_proc(is_locked=is_locked), *_resolved_mounts(resolved))
    return (
        *(mounts.place(mount, mounts.GRANTED) for mount in made),
        *(mounts.place(_private(path), mounts.PRIVATE) for path in resolved.private),
        *(mounts.place(mask, mounts.DENIED) for mask in mounts.masks(resolved)),
    )


def _proc(*, is_locked: bool) -> Mount:
    """Read-only: with the lock, when that has been written by which it is made."""
    return Mount(MountKind.PROC, "/proc", flags=MountFlag(0) if is_locked else _READ_ONLY)


def _resolved_mounts(resolved: ResolvedPolicy) -> Iterator[Mount]:
    yield from _device_mounts()
    copied = _copied(resolved)
    for grant in resolved.grants:
        mount = mounts.bind_grant(grant)
        yield mount.replace(kind=MountKind.COPY) if mount.target in copied else mount
    for link in resolved.links:
        yield Mount(MountKind.SYMLINK, link.path, link.text)
    yield from mounts.private_files(resolved)


@lru_cache(maxsize=64)
def _copied(resolved: ResolvedPolicy) -> frozenset[str]:
    """Files of the system in /etc: copied into the root, where nothing is written, unless they are large.

    A directory that is granted or private as a whole shows them itself, or is written.
    """
    taken = {*resolved.private, *(grant.target.path for grant in resolved.grants)}
    return frozenset(
        grant.target.path
        for grant in resolved.grants
        if grant.is_system
        and grant.access is FsAccess.READ
        and grant.target.kind is PathKind.FILE
        and grant.target.path.startswith(f"{_SYSTEM_FILES}/")
        and taken.isdisjoint(mounts.above(grant.target.path))
    )


def _landlock(resolved: ResolvedPolicy, abi: int, layered: str = "") -> Landlock:
    """One rule for a directory of the launcher's own, in which nothing is but what it has put there."""
    rules = inner.rebuilt_landlock(resolved, abi)
    own = [PathRule(landlock.device_rights(abi), "/dev")]
    if _copied(resolved):
        own.append(PathRule(landlock.read_rights(abi, is_directory=True), _SYSTEM_FILES))
    paths = inner.without_covered((*own, *rules.paths), resolved.private)
    return rules.replace(paths=inner.without_numbers(paths, layered) if layered else paths)


def _device_mounts() -> Iterator[Mount]:
    """A /dev of our own: it lies in the root, which is read-only in the end."""
    yield Mount(MountKind.DIRECTORY, "/dev", mode=0o755)
    yield from mounts.devices()
    for name, text in mounts.DEVICE_LINKS:
        yield Mount(MountKind.SYMLINK, f"/dev/{name}", text)


def _private(path: str) -> Mount:
    return Mount(MountKind.AREA, path, mode=mounts.area_mode(path))


def _areas(resolved: ResolvedPolicy) -> Areas:
    """The one file system in which all private areas lie; what corral itself makes there does not count."""
    size = resolved.limits.disk_bytes or _AREAS_BYTES
    files = resolved.limits.disk_files or size // _BYTES_PER_FILE + 1
    own = len(resolved.private) + 1 + len(set(_places_in_areas(resolved)))
    return Areas(size + len(resolved.private_files) * _BYTES_PER_FILE, files + own)


def _places_in_areas(resolved: ResolvedPolicy) -> Iterator[str]:
    """Files, links, and places to mount on in a private area, with the directories that lead there."""
    made = [*resolved.private, *(grant.target.path for grant in resolved.grants)]
    made += [link.path for link in resolved.links] + [file.path for file in resolved.private_files]
    for path in made:
        place = path
        while any(place.startswith(f"{area}/") for area in resolved.private):
            yield place
            place = place.rpartition("/")[0]


def _trial_spec(
    abi: int,
    host: Host,
    *,
    lock: bool,
    sockets: GatewaySockets | None,
    identity: tuple[int, int] | None = None,
) -> bytes:
    made = (_proc(is_locked=lock), *_device_mounts(), _private("/tmp"))
    spec = Spec(
        argv=("/corral-trial",),
        cwd="/",
        namespaces=_NAMESPACES | NEWNET,
        uid_map=common.id_map(host.uid, host.uid),
        gid_map=common.id_map(host.uid, host.gid),
        mounts=made,
        lock=lock,
        identity=identity,
        areas=Areas(_AREAS_BYTES, 1024),
        hostname=HOSTNAME,
        loopback=True,
        gateway=sockets,
        landlock=inner.trial_landlock(abi),
        seccomp=common.compile_seccomp(host.machine, SocketPolicy.NAMESPACED, by_filter=False),
    )
    return join(encode_resolved(spec), encode_command(spec))
