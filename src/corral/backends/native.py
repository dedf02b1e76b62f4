"""Native: namespaces, a rebuilt file system, Landlock and seccomp, by corral-launch alone.

Guarantees   everything but net.except; limit.memory, limit.cpu and limit.cpu-time need control groups, and
             so does root's limit.pids
Mechanism    user, mount, pid, net, ipc, uts, cgroup namespaces; pivot_root into a tree of bind mounts;
             Landlock and seccomp as a second wall inside
Not covered  holes of the kernel itself; sockets of the host that lie inside a granted directory
Order        mounts go from shallow to deep, so that a deeper rule covers a shallower one; what is protected
             beneath a mask or a private area comes before that
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
from corral.linux.encode import encode_command, encode_ground, encode_paths, join
from corral.linux.filter import SocketPolicy
from corral.linux.spec import Areas, Mount, MountFlag, MountKind, Spec
from corral.model.feature import Feature
from corral.model.launch import HOSTNAME, Inside, Launch
from corral.model.policy import NetMode
from corral.model.probe import Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.backends._limits import Holders
    from corral.backends._mounts import Place
    from corral.linux.spec import GatewaySockets
    from corral.model.backend import Host
    from corral.model.launch import CopyMount
    from corral.model.plan import Ground, Plan

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
_NAMESPACES = NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID

#: Of all private areas together, where the policy does not say; and how large a file is on average, at least.
_AREAS_BYTES, _BYTES_PER_FILE = 2 * 1024**3, 4096
_READ_ONLY = MountFlag.READ_ONLY

#: The most that it claims on any host.
CLAIMS = frozenset(Feature) - {Feature.NET_EXCEPT}
#: Where it claims less, and for whom.
CONDITIONS = (
    *limiting.CONDITIONS,
    common.LOCK_CONDITION,
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
        probe = Probe(
            self.name,
            True,
            CLAIMS - limiting.BY_GROUPS - (frozenset() if found.has_gateway else gateway.CLAIMS)
            | holders.claims,
            version=landlock.describe(abi) if abi else "without landlock",
            details=(
                ("launcher", host.launcher()[0]),
                ("landlock_abi", str(abi)),
                ("machine", host.machine),
                ("processors", " ".join(map(str, host.processors()))),
                *holders.details(),
            ),
            approximates=holders.approximates,
        )
        return found.about(probe)

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """A spec for the launcher: the ground once, then the shields and the command of this run."""
        abi, machine = int(probe.detail("landlock_abi")), probe.detail("machine")
        ground = plan.ground
        inner.check_abstract_sockets(plan, abi)
        is_locked = common.is_locked(probe)
        command = common.command_spec(plan)
        holders = limiting.read_holders(probe, plan.ground)
        copies = mounts.copy_mounts(plan)
        return Launch(
            backend=self.name,
            argv=(probe.detail("launcher"),),
            env=(),
            enforced={**inner.mechanisms(plan, abi), **limiting.mechanisms(ground.limits, holders)},
            spec=join(
                _encoded_ground(
                    ground,
                    abi,
                    machine,
                    holders,
                    _processors(probe),
                    is_kept=plan.command.keeps,
                    is_locked=is_locked,
                ),
                _encoded_mounts(plan, copies, is_locked=is_locked),
                encode_paths(mounts.copy_rules(copies, abi) if abi else ()),
                encode_command(command),
            ),
            copies=copies,
            group=limiting.group_request(
                ground.limits,
                holders,
                launcher_pids=common.own_pids(kept=plan.command.keeps),
                ends_by_group=False,
            ),
            gateway=gateway.request(ground),
            inside=Inside(command.env),
        )


def _processors(probe: Probe) -> tuple[int, int]:
    usable, online = map(int, probe.detail("processors").split())
    return usable, online


@lru_cache(maxsize=64)
def _encoded_ground(
    ground: Ground,
    abi: int,
    machine: str,
    holders: Holders,
    processors: tuple[int, int],
    *,
    is_kept: bool,
    is_locked: bool,
) -> tuple[int, bytes]:
    private_network = ground.net.mode is not NetMode.FULL
    sockets = SocketPolicy.NAMESPACED if private_network else SocketPolicy.HOST
    watch = limiting.watch_request(ground.limits, holders, processors=processors[0], online=processors[1])
    return encode_ground(
        Spec(
            argv=(),
            cwd="/",
            namespaces=_NAMESPACES | (NEWNET if private_network else 0),
            uid_map=common.id_map(ground.uid, ground.uid),
            gid_map=common.id_map(ground.uid, ground.gid),
            lock=is_locked,
            hostname=HOSTNAME,
            loopback=private_network,
            gateway=gateway.sockets(ground),
            watch=watch,
            areas=_areas(ground) if ground.private else None,
            rlimits=common.rlimits(ground.limits)
            + limiting.rlimits(ground.limits, holders, launcher_pids=common.own_pids(kept=is_kept)),
            landlock=inner.rebuilt_landlock(ground, abi) if abi else None,
            seccomp=common.ground_filter(
                ground, machine, sockets, by_filter=False, watch=watch, kept=is_kept
            ),
        )
    )


def _encoded_mounts(plan: Plan, copies: tuple[CopyMount, ...], *, is_locked: bool) -> tuple[int, bytes]:
    """All mounts of a run. Those of the ground are kept encoded; the protection of this run joins them."""
    kept = _encoded_ground_mounts(plan.ground, is_locked=is_locked)
    return mounts.in_order((*kept, *mounts.shields(plan, copies)))


@lru_cache(maxsize=64)
def _encoded_ground_mounts(ground: Ground, *, is_locked: bool) -> tuple[Place, ...]:
    made = (_proc(is_locked=is_locked), *_ground_mounts(ground))
    return (
        *(mounts.place(mount, mounts.GRANTED) for mount in made),
        *(mounts.place(_private(path), mounts.PRIVATE) for path in ground.private),
        *(mounts.place(mask, mounts.DENIED) for mask in mounts.masks(ground)),
    )


def _proc(*, is_locked: bool) -> Mount:
    """Read-only: with the lock, when that has been written by which it is made."""
    return Mount(MountKind.PROC, "/proc", flags=MountFlag(0) if is_locked else _READ_ONLY)


def _ground_mounts(ground: Ground) -> Iterator[Mount]:
    yield from _device_mounts()
    yield from map(mounts.bind_grant, ground.grants)
    for link in ground.links:
        yield Mount(MountKind.SYMLINK, link.path, link.text)
    yield from mounts.private_files(ground)


def _device_mounts() -> Iterator[Mount]:
    """A /dev of our own: it lies in the root, which is read-only in the end."""
    yield Mount(MountKind.DIRECTORY, "/dev", mode=0o755)
    yield from mounts.devices()
    for name, text in mounts.DEVICE_LINKS:
        yield Mount(MountKind.SYMLINK, f"/dev/{name}", text)


def _private(path: str) -> Mount:
    return Mount(MountKind.AREA, path, mode=mounts.area_mode(path))


def _areas(ground: Ground) -> Areas:
    """The one file system in which all private areas lie; what corral itself makes there does not count."""
    size = ground.limits.disk_bytes or _AREAS_BYTES
    files = ground.limits.disk_files or size // _BYTES_PER_FILE + 1
    own = len(ground.private) + 1 + len(set(_places_in_areas(ground)))
    return Areas(size + len(ground.private_files) * _BYTES_PER_FILE, files + own)


def _places_in_areas(ground: Ground) -> Iterator[str]:
    """Files, links, and places to mount on in a private area, with the directories that lead there."""
    made = [*ground.private, *(grant.target.path for grant in ground.grants)]
    made += [link.path for link in ground.links] + [file.path for file in ground.private_files]
    for path in made:
        place = path
        while any(place.startswith(f"{area}/") for area in ground.private):
            yield place
            place = place.rpartition("/")[0]


def _trial_spec(abi: int, host: Host, *, lock: bool, sockets: GatewaySockets | None) -> bytes:
    made = (_proc(is_locked=lock), *_device_mounts(), _private("/tmp"))
    spec = Spec(
        argv=("/corral-trial",),
        cwd="/",
        namespaces=_NAMESPACES | NEWNET,
        uid_map=common.id_map(host.uid, host.uid),
        gid_map=common.id_map(host.uid, host.gid),
        mounts=made,
        lock=lock,
        areas=Areas(_AREAS_BYTES, 1024),
        hostname=HOSTNAME,
        loopback=True,
        gateway=sockets,
        landlock=inner.trial_landlock(abi),
        seccomp=common.compile_seccomp(host.machine, SocketPolicy.NAMESPACED, by_filter=False),
    )
    return join(encode_ground(spec), encode_command(spec))
