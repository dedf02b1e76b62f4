"""Native: namespaces, a rebuilt file system, Landlock and seccomp, by corral-launch alone.

Guarantees   everything but net.ports and net.domains; limit.memory, limit.cpu and limit.cpu-time need control
             groups, and so does root's limit.pids
Mechanism    user, mount, pid, net, ipc, uts, cgroup namespaces; pivot_root into a tree of bind mounts;
             Landlock and seccomp as a second wall inside
Not covered  holes of the kernel itself; sockets of the host that lie inside a granted directory
Order        mounts go from shallow to deep, so that a deeper rule covers a shallower one; shields come last
"""

from __future__ import annotations

from functools import lru_cache

from corral.backends import _launcher as common
from corral.backends import _limits as limiting
from corral.linux import landlock
from corral.linux.encode import encode_command, encode_ground, encode_mount, join
from corral.linux.filter import SocketPolicy
from corral.linux.spec import Areas, Landlock, Mount, MountFlag, MountKind, PathRule, Spec
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.launch import Launch
from corral.model.plan import PathKind, StdioMode
from corral.model.policy import FsAccess, NetMode
from corral.model.probe import Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.backends._limits import Holders
    from corral.model.backend import Host
    from corral.model.plan import Grant, Ground, Plan, ResolvedPath

    _Place = tuple[int, str, int, bytes]  # depth, path, rank, record

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
_NAMESPACES = NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID

_HOSTNAME = "corral"
#: Of all private areas together, where the policy does not say; and how large a file is on average, at least.
_AREAS_BYTES, _BYTES_PER_FILE = 2 * 1024**3, 4096
_READ_ONLY = MountFlag.READ_ONLY

#: Which of several rules holds at one path: the strictest.
_PINNED, _GRANTED, _SHIELDED, _DENIED = range(4)
#: Read-only: that leaves the device usable and keeps its mode, owner and times from uid 0 inside.
_DEVICE = MountFlag.DEVICES | MountFlag.UNVERIFIED | MountFlag.READ_ONLY

_CLAIMS = frozenset(Feature) - {
    Feature.NET_PORTS,
    Feature.NET_DOMAINS,
    Feature.LIMIT_MEMORY,
    Feature.LIMIT_CPU,
    Feature.LIMIT_CPU_TIME,
    Feature.LIMIT_PIDS,
}


class NativeBackend:
    name = "native"

    def probe(self, host: Host) -> Probe:
        """Try all of it, on a command that does not exist: whoever gets as far as exec can do the rest."""
        unusable = common.base_probe(self.name, host)
        if unusable is not None:
            return unusable
        abi = host.landlock_abi()
        trial = host.try_launch(_trial_spec(abi, host))
        if trial.phase != "exec":
            reason, fix = common.explain_trial(trial)
            return Probe(self.name, False, reason=reason, fix=fix)
        holders = limiting.find_holders(host, namespaced=True)
        return Probe(
            self.name,
            True,
            _CLAIMS | holders.claims,
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

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """A spec for the launcher: the ground once, then the shields and the command of this run."""
        abi, machine = int(probe.detail("landlock_abi")), probe.detail("machine")
        shared = plan.ground.net.mode is NetMode.FULL and Feature.IPC_PRIVATE not in plan.waived
        if shared and not (abi and landlock.scoped(abi)):
            raise _abstract_sockets_open(abi)
        ground = plan.ground
        command = Spec(
            argv=plan.command.argv,
            cwd=plan.command.cwd,
            env=plan.env,
            wall_ms=common.wall_ms(plan),
            grace_ms=common.GRACE_MS,
            terminal=plan.command.stdio is StdioMode.TERMINAL,
        )
        holders = limiting.read_holders(probe)
        return Launch(
            backend=self.name,
            argv=(probe.detail("launcher"),),
            env=(),
            enforced={**_mechanisms(plan, abi), **limiting.mechanisms(ground.limits, holders)},
            spec=join(
                _encoded_ground(ground, abi, machine, holders, _processors(probe)),
                _encoded_mounts(plan),
                encode_command(command),
            ),
            group=limiting.group_request(ground.limits, holders, launcher_pids=1, ends_by_group=False),
        )


def _processors(probe: Probe) -> tuple[int, int]:
    usable, online = map(int, probe.detail("processors").split())
    return usable, online


@lru_cache(maxsize=64)
def _encoded_ground(
    ground: Ground, abi: int, machine: str, holders: Holders, processors: tuple[int, int]
) -> tuple[int, bytes]:
    private_network = ground.net.mode is not NetMode.FULL
    sockets = SocketPolicy.NAMESPACED if private_network else SocketPolicy.HOST
    watch = limiting.watch_request(ground.limits, holders, processors=processors[0], online=processors[1])
    return encode_ground(
        Spec(
            argv=(),
            cwd="/",
            namespaces=_NAMESPACES | (NEWNET if private_network else 0),
            uid_map=_id_map(ground.uid, ground.uid),
            gid_map=_id_map(ground.uid, ground.gid),
            hostname=_HOSTNAME,
            loopback=private_network,
            watch=watch,
            areas=_areas(ground) if ground.private else None,
            rlimits=common.rlimits(ground.limits) + limiting.rlimits(ground.limits, holders),
            landlock=_landlock(ground, abi) if abi else None,
            seccomp=common.ground_filter(ground, machine, sockets, by_filter=False, watch=watch),
        )
    )


def _id_map(uid: int, own: int) -> str:
    """Root sees every owner as it is; anyone else may map no one but himself."""
    return "0 0 4294967295\n" if uid == 0 else f"{own} {own} 1\n"


def _encoded_mounts(plan: Plan) -> tuple[int, bytes]:
    """All mounts of a run. Those of the ground are kept encoded; the protection of this run joins them.

    ORDER: shallow to deep, so that a deeper rule covers a shallower one, whichever of them is a pin; at one
    path the stricter rule last. A pin or shield mounted after a denial inside it would undo the denial.
    """
    placed = [*_encoded_ground_mounts(plan.ground), *(_place(mount, rank) for mount, rank in _shields(plan))]
    ordered = sorted(_strictest_at_each_path(placed), key=lambda place: place[:2])
    return len(ordered), b"".join(record for *_, record in ordered)


def _strictest_at_each_path(placed: list[_Place]) -> Iterator[_Place]:
    """A path is mounted once: a mount upon a mount would hide the first from the checks of the launcher."""
    strictest: dict[str, _Place] = {}
    for place in placed:
        known = strictest.get(place[1])
        if known is None or known[2] < place[2]:
            strictest[place[1]] = place
    yield from strictest.values()


@lru_cache(maxsize=64)
def _encoded_ground_mounts(ground: Ground) -> tuple[_Place, ...]:
    return tuple(_place(mount, rank) for mount, rank in _ground_mounts(ground))


def _place(mount: Mount, rank: int) -> _Place:
    return mount.target.count("/"), mount.target, rank, encode_mount(mount)


def _ground_mounts(ground: Ground) -> Iterator[tuple[Mount, int]]:
    yield Mount(MountKind.PROC, "/proc", flags=_READ_ONLY), _GRANTED
    for mount in _device_mounts():
        yield mount, _GRANTED
    for grant in ground.grants:
        yield _bind(grant), _GRANTED
    for link in ground.links:
        yield Mount(MountKind.SYMLINK, link.path, link.text), _GRANTED
    for path in ground.private:
        yield _private(path), _GRANTED
    for file in ground.private_files:
        yield Mount(MountKind.FILE, file.path, mode=0o600, content=file.content), _GRANTED
    for target in ground.denied:
        if target.kind is not PathKind.MISSING:
            yield Mount(MountKind.MASK, target.path, device=target.device, inode=target.inode), _DENIED


def _device_mounts() -> Iterator[Mount]:
    """A /dev of our own: it lies in the root, which is read-only in the end."""
    yield Mount(MountKind.DIRECTORY, "/dev", mode=0o755)
    for name in common.DEVICES:
        yield Mount(MountKind.BIND, f"/dev/{name}", f"/dev/{name}", _DEVICE)
    yield Mount(MountKind.DEVPTS, "/dev/pts")
    for name, text in (
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ):
        yield Mount(MountKind.SYMLINK, f"/dev/{name}", text)


def _bind(grant: Grant) -> Mount:
    flags = _READ_ONLY if grant.access is FsAccess.READ else MountFlag(0)
    return _bind_path(grant.target, flags)


def _bind_path(target: ResolvedPath, flags: MountFlag) -> Mount:
    return Mount(MountKind.BIND, target.path, target.path, flags, target.device, target.inode)


def _private(path: str) -> Mount:
    mode = 0o1777 if path in {"/tmp", "/var/tmp", "/dev/shm"} else 0o700
    return Mount(MountKind.AREA, path, mode=mode)


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


def _shields(plan: Plan) -> Iterator[tuple[Mount, int]]:
    """Pins keep what lies above a protected path from being renamed away; shields cover the path itself."""
    for pin in plan.pins:
        yield _bind_path(pin, MountFlag(0)), _PINNED
    for shield in plan.shields:
        yield _bind_path(shield.target, _READ_ONLY), _SHIELDED


def _landlock(ground: Ground, abi: int) -> Landlock:
    """The same rules once more, by another mechanism, on the tree that the mounts have made."""
    read, write, device = landlock.read_rights, landlock.write_rights, landlock.device_rights
    listing = read(abi, is_directory=True, execute=False) & ~landlock.FsRight.READ_FILE
    paths = [PathRule(listing, "/"), PathRule(read(abi, is_directory=True, execute=False), "/proc")]
    paths += [PathRule(device(abi), f"/dev/{name}") for name in common.DEVICES]
    paths.append(PathRule(device(abi) | listing, "/dev/pts"))
    paths += common.grant_rules(ground, abi)
    paths += [PathRule(write(abi, is_directory=True), path) for path in ground.private]
    return Landlock(landlock.handled_fs(abi), 0, landlock.scoped(abi), tuple(paths))


def _mechanisms(plan: Plan, abi: int) -> dict[Feature, str]:
    lock = f" + {landlock.describe(abi)}" if abi else ""
    return {
        Feature.FS_READ: f"mount namespace: nothing else is there{lock}",
        Feature.FS_WRITE: f"read-only bind mounts{lock}",
        Feature.FS_METADATA: "read-only bind mounts",
        Feature.FS_DENY: "masked, or read-only, by mounts",
        Feature.FS_PROTECT: "read-only bind mounts, pinned; what is missing is guarded",
        Feature.FS_PRIVATE: "tmpfs",
        Feature.LIMIT_DISK: "one tmpfs for all private areas",
        Feature.PROC_HIDDEN: "pid namespace",
        Feature.PROC_SHIELDED: f"pid namespace{lock}",
        Feature.PROC_CONTAINED: "pid namespace: all end with PID 1",
        Feature.IPC_PRIVATE: f"ipc namespace{lock}" if abi else "ipc and net namespace",
        Feature.PRIVILEGES: "user namespace, no_new_privs, no capabilities, seccomp",
        Feature.SYSCALLS: "seccomp",
        Feature.DESCRIPTORS: "close_range",
        Feature.TERMINAL: "new session + seccomp",
        Feature.LIMIT_FILE_SIZE: "RLIMIT_FSIZE",
        Feature.LIMIT_OPEN_FILES: "RLIMIT_NOFILE",
        **({Feature.NET_NONE: "net namespace with loopback only"} if common.network_is_private(plan) else {}),
        **common.single_process(plan),
    }


def _abstract_sockets_open(abi: int) -> UnenforceableError:
    return UnenforceableError(
        "unenforceable",
        "this kernel cannot keep the host's abstract sockets away while the network is open",
        why=f"that needs Landlock ABI 6, and this kernel has {abi}",
        fix="use `--net none`, or a newer kernel (6.12), or give it up with `--waive ipc.private`",
        lacking=frozenset({Feature.IPC_PRIVATE}),
    )


def _trial_spec(abi: int, host: Host) -> bytes:
    lock = Landlock(landlock.handled_fs(abi), 0, landlock.scoped(abi)) if abi else None
    mounts = (Mount(MountKind.PROC, "/proc", flags=_READ_ONLY), *_device_mounts(), _private("/tmp"))
    spec = Spec(
        argv=("/corral-trial",),
        cwd="/",
        namespaces=_NAMESPACES | NEWNET,
        uid_map=_id_map(host.uid, host.uid),
        gid_map=_id_map(host.uid, host.gid),
        mounts=mounts,
        areas=Areas(_AREAS_BYTES, 1024),
        hostname=_HOSTNAME,
        loopback=True,
        landlock=lock,
        seccomp=common.compile_seccomp(host.machine, SocketPolicy.NAMESPACED, by_filter=False),
    )
    return join(encode_ground(spec), encode_command(spec))
