"""Decode a launcher spec, as strictly as the launcher does: the second opinion that tests compare it with."""

from __future__ import annotations

from corral.linux import decode_groups as groups
from corral.linux import decode_guard as guard
from corral.linux.reader import MalformedSpec, Reader, is_plain_path
from corral.linux.spec import (
    AREAS,
    EXPECT,
    HEADER,
    LANDLOCK,
    LISTEN,
    MAGIC,
    MAX_BYTES,
    MAX_PORTS,
    MAX_RECORDS,
    MOUNT,
    PATH_RULE,
    RECORD,
    RLIMIT,
    U32,
    U64,
    WATCH,
    Areas,
    Cgroup,
    CgroupKill,
    CgroupKind,
    CpuTime,
    Expect,
    ExpectFlag,
    GatewayFlag,
    GatewaySockets,
    Guarded,
    Landlock,
    LimitWatch,
    Mount,
    MountFlag,
    MountKind,
    NameGuard,
    PathRule,
    RecordType,
    Rlimit,
    ServeFlag,
    Spec,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SINGLE = frozenset(
    {
        *(RecordType.NAMESPACES, RecordType.HOSTNAME, RecordType.LOOPBACK, RecordType.LANDLOCK),
        *(RecordType.SECCOMP, RecordType.CWD, RecordType.WALL, RecordType.TERMINAL),
        *(RecordType.FAULT, RecordType.AREAS, RecordType.CGROUP_KILL, RecordType.CPU_TIME),
        *(RecordType.WATCH, RecordType.LINGER, RecordType.INSIDE, RecordType.IMAGE_ENVIRONMENT),
        *(RecordType.SERVE, RecordType.KEEP, RecordType.GATEWAY, RecordType.LOCK),
        *(RecordType.GUARD, RecordType.AWAIT, RecordType.IDENTITY),
    }
)
_OF_COMMANDS = frozenset(
    {
        *(RecordType.CWD, RecordType.ARGUMENT, RecordType.ENVIRONMENT),
        *(RecordType.WALL, RecordType.TERMINAL, RecordType.KEEP, RecordType.AWAIT),
    }
)
_NAMESPACE_BITS = 0x7E020000
_NEWNS, _NEWUSER, _NEWUTS, _NEWNET = 0x00020000, 0x10000000, 0x04000000, 0x40000000
_NEWPID = 0x20000000
_IN_PLACE = frozenset({MountKind.MASK, MountKind.FILE, MountKind.DEVPTS})
_LED = frozenset(
    {MountKind.BIND, MountKind.LINK, MountKind.COPY, MountKind.OVERLAY}
)  # their sources are paths
_SERVE_FLAGS = int(ServeFlag.FILTERED | ServeFlag.SIGNALS | ServeFlag.SOCKETS)
_GATEWAY_FLAGS, _MOST_PORT = sum(GatewayFlag), 65535
_LISTEN_MASK = 0x13F3F
_MAX_SECCOMP_BYTES = 4096 * 8


class Draft:
    """What has been read so far."""

    def __init__(self) -> None:
        self.seen: set[object] = set()
        self.namespaces = 0
        self.maps = ["", ""]
        self.cgroups: list[Cgroup] = []
        self.cgroup_kill: CgroupKill | None = None
        self.cpu_time: CpuTime | None = None
        self.groups: list[str] = []
        self.group_settings: list[tuple[str, str]] = []
        self.watch: LimitWatch | None = None
        self.areas: Areas | None = None
        self.mounts: list[Mount] = []
        self.expects: list[Expect] = []
        self.hostname = ""
        self.rlimits: list[Rlimit] = []
        self.landlock: tuple[int, int, int] | None = None
        self.identity: tuple[int, int] | None = None
        self.paths: list[PathRule] = []
        self.ports: list[tuple[int, int]] = []
        self.seccomp = b""
        self.listens: list[tuple[int, int]] = []
        self.cwd = ""
        self.argv: list[str] = []
        self.env: list[tuple[str, str]] = []
        self.wall = (0, 0)
        self.fault = ""
        self.serves: ServeFlag | None = None
        self.gateway: GatewaySockets | None = None
        self.quarantine = ""
        self.guarded: list[Guarded] = []
        self.searched: list[Guarded] = []


def decode(raw: bytes, *, faults: bool = False) -> Spec:
    """Return the spec that the bytes spell. Raises MalformedSpec."""
    if not HEADER.size <= len(raw) <= MAX_BYTES:
        raise MalformedSpec("the length is impossible")
    magic, length, count = HEADER.unpack_from(raw)
    if magic != MAGIC or length != len(raw) or count > MAX_RECORDS:
        raise MalformedSpec("the header is wrong")
    draft, at = Draft(), HEADER.size
    for _ in range(count):
        if at + RECORD.size > length:
            raise MalformedSpec("a record header is cut off")
        kind, size = RECORD.unpack_from(raw, at)
        at += RECORD.size
        if at + size > length:
            raise MalformedSpec("a record is cut off")
        _read_record(draft, kind, raw[at : at + size], faults=faults)
        at += size
    if at != length:
        raise MalformedSpec("bytes are left over")
    _check_whole(draft)
    return _finish(draft)


def _read_record(draft: Draft, kind: int, payload: bytes, *, faults: bool) -> None:
    if kind not in _READERS or (kind == RecordType.FAULT and not faults):
        raise MalformedSpec(f"record type {kind} is unknown")
    if kind in _SINGLE and kind in draft.seen:
        raise MalformedSpec(f"record type {kind} is repeated")
    draft.seen.add(RecordType(kind))
    if kind == RecordType.SECCOMP:
        if not payload or len(payload) % 8 or len(payload) > _MAX_SECCOMP_BYTES:
            raise MalformedSpec("the filter's length is impossible")
        draft.seccomp = payload
        return
    reader = Reader(payload)
    _READERS[RecordType(kind)](draft, reader)
    reader.end()


def _read_namespaces(draft: Draft, reader: Reader) -> None:
    (draft.namespaces,) = reader.fixed(U32)
    if draft.namespaces & ~_NAMESPACE_BITS or not draft.namespaces:
        raise MalformedSpec("a namespace is unknown")


def _read_id_map(draft: Draft, reader: Reader) -> None:
    (which,) = reader.fixed(U32)
    if which > 1 or draft.maps[which]:
        raise MalformedSpec("an id map is unknown or repeated")
    draft.maps[which] = reader.string()
    if not draft.maps[which]:
        raise MalformedSpec("an id map is empty")


def _read_mount(draft: Draft, reader: Reader) -> None:
    kind, flags, device, inode, size, mode = reader.fixed(MOUNT)
    source, target = reader.string(), reader.string()
    content = reader.layers(1 if size else 2) if kind == MountKind.OVERLAY else reader.blob()
    if kind not in MountKind._value2member_map_ or flags & ~0xF:
        raise MalformedSpec("a mount is of an unknown kind")
    if not is_plain_path(target) or (kind in _LED and not is_plain_path(source)):
        raise MalformedSpec("a mount's path is not plain")
    draft.mounts.append(
        Mount(MountKind(kind), target, source, MountFlag(flags), device, inode, size, mode, content)
    )


def _read_expect(draft: Draft, reader: Reader) -> None:
    flags, device, inode = reader.fixed(EXPECT)
    path = reader.string()
    if flags & ~0x3F or not is_plain_path(path):
        raise MalformedSpec("an expectation is unknown, or its path is not plain")
    draft.expects.append(Expect(path, ExpectFlag(flags), device, inode))


def _read_rlimit(draft: Draft, reader: Reader) -> None:
    draft.rlimits.append(Rlimit(*reader.fixed(RLIMIT)))


def _read_identity(draft: Draft, reader: Reader) -> None:
    (first,), (count,) = reader.fixed(U32), reader.fixed(U32)
    if not (first and count and first < 0xFFFFFFFF - count):
        raise MalformedSpec("an identity of no ids, or of root's")
    draft.identity = (first, count)


def _read_landlock(draft: Draft, reader: Reader) -> None:
    handled_fs, handled_net, scoped = reader.fixed(LANDLOCK)
    draft.landlock = (handled_fs, handled_net, scoped)


def _read_landlock_path(draft: Draft, reader: Reader) -> None:
    rights, device, inode = reader.fixed(PATH_RULE)
    draft.paths.append(PathRule(rights, reader.string(), device, inode))
    if not is_plain_path(draft.paths[-1].path):
        raise MalformedSpec("a Landlock path is not plain")


def _read_landlock_port(draft: Draft, reader: Reader) -> None:
    (rights,), (port,) = reader.fixed(U64), reader.fixed(U64)
    draft.ports.append((rights, port))


def _read_listen(draft: Draft, reader: Reader) -> None:
    number, strings = reader.fixed(LISTEN)
    if strings & ~_LISTEN_MASK:
        raise MalformedSpec("a call has six arguments")
    draft.listens.append((number, strings))


def _read_cwd(draft: Draft, reader: Reader) -> None:
    draft.cwd = reader.string()
    if not is_plain_path(draft.cwd):
        raise MalformedSpec("the working directory is not plain")


def _read_environment(draft: Draft, reader: Reader) -> None:
    name, equals, value = reader.string().partition("=")
    if not name or not equals:
        raise MalformedSpec("an environment entry has no name")
    draft.env.append((name, value))


def _read_wall(draft: Draft, reader: Reader) -> None:
    (wall,), (grace,) = reader.fixed(U64), reader.fixed(U64)
    if not wall:
        raise MalformedSpec("the time limit is zero")
    draft.wall = (wall, grace)


def _read_hostname(draft: Draft, reader: Reader) -> None:
    draft.hostname = reader.string()
    if not 0 < len(draft.hostname.encode("utf-8", "surrogateescape")) <= 64:
        raise MalformedSpec("the host name's length is impossible")


def _read_watch(draft: Draft, reader: Reader) -> None:
    draft.watch = LimitWatch(*reader.fixed(WATCH))
    if draft.watch.share_permille > 1000 or bool(draft.watch.share_permille) != bool(draft.watch.processors):
        raise MalformedSpec("a share of the processors is impossible")


def _read_areas(draft: Draft, reader: Reader) -> None:
    draft.areas = Areas(*reader.fixed(AREAS))
    if not draft.areas.size_bytes or not draft.areas.inodes:
        raise MalformedSpec("the private areas have no room")


def _read_argument(draft: Draft, reader: Reader) -> None:
    draft.argv.append(reader.string())


def _read_fault(draft: Draft, reader: Reader) -> None:
    draft.fault = reader.string()


def _read_serve(draft: Draft, reader: Reader) -> None:
    (flags,) = reader.fixed(U32)
    if flags & ~_SERVE_FLAGS:
        raise MalformedSpec("unknown serve flag")
    draft.serves = ServeFlag(flags)


def _read_gateway(draft: Draft, reader: Reader) -> None:
    (flags,) = reader.fixed(U32)
    if flags & ~_GATEWAY_FLAGS:
        raise MalformedSpec("unknown gateway flag")
    ports: list[int] = []
    while not reader.is_at_end:
        ports += reader.fixed(U32)
    if len(ports) > MAX_PORTS or not all(0 < port <= _MOST_PORT for port in ports):
        raise MalformedSpec("a gateway at no port, or at too many")
    draft.gateway = GatewaySockets(tuple(ports), GatewayFlag(flags))


def _read_nothing(draft: Draft, reader: Reader) -> None:
    """The record's presence is its meaning."""


_READERS: dict[int, Callable[[Draft, Reader], None]] = {
    RecordType.NAMESPACES: _read_namespaces,
    RecordType.ID_MAP: _read_id_map,
    RecordType.CGROUP: groups.read_cgroup,
    RecordType.MOUNT: _read_mount,
    RecordType.HOSTNAME: _read_hostname,
    RecordType.LOOPBACK: _read_nothing,
    RecordType.RLIMIT: _read_rlimit,
    RecordType.LANDLOCK: _read_landlock,
    RecordType.LANDLOCK_PATH: _read_landlock_path,
    RecordType.LANDLOCK_PORT: _read_landlock_port,
    RecordType.SECCOMP: _read_nothing,
    RecordType.LISTEN: _read_listen,
    RecordType.CWD: _read_cwd,
    RecordType.ARGUMENT: _read_argument,
    RecordType.ENVIRONMENT: _read_environment,
    RecordType.WALL: _read_wall,
    RecordType.TERMINAL: _read_nothing,
    RecordType.FAULT: _read_fault,
    RecordType.AREAS: _read_areas,
    RecordType.CGROUP_KILL: groups.read_cgroup_kill,
    RecordType.CPU_TIME: groups.read_cpu_time,
    RecordType.WATCH: _read_watch,
    RecordType.LINGER: _read_nothing,
    RecordType.AWAIT: _read_nothing,
    RecordType.INSIDE: _read_nothing,
    RecordType.EXPECT: _read_expect,
    RecordType.IMAGE_ENVIRONMENT: _read_nothing,
    RecordType.SERVE: _read_serve,
    RecordType.KEEP: _read_nothing,
    RecordType.GATEWAY: _read_gateway,
    RecordType.LOCK: _read_nothing,
    RecordType.IDENTITY: _read_identity,
    RecordType.GROUP: groups.read_group,
    RecordType.GROUP_SETTING: groups.read_group_setting,
    RecordType.GUARD: guard.read_guard,
    RecordType.GUARDED: guard.read_guarded,
    RecordType.NAME: guard.read_name,
    RecordType.SEARCHED: guard.read_searched,
}


def _has_network(draft: Draft) -> bool:
    """Whether there is a network of the sandbox's own, or the filter stands in for one."""
    own = {RecordType.LOOPBACK, RecordType.INSIDE} & draft.seen
    return bool(own) or _asks(draft)


def _asks(draft: Draft) -> bool:
    return draft.gateway is not None and GatewayFlag.NOTIFY in draft.gateway.flags


def _group_paths(draft: Draft) -> Iterator[str]:
    yield from (group.path for group in draft.cgroups)
    yield from (path for path, _ in draft.group_settings)
    yield from (record.path for record in (draft.cgroup_kill, draft.cpu_time) if record is not None)


def _check_whole(draft: Draft) -> None:
    spaces = draft.namespaces
    needs_mounts = _NEWNS | _NEWUSER
    inside = RecordType.INSIDE in draft.seen
    in_place = all(
        mount.kind in _IN_PLACE
        or (mount.kind in {MountKind.BIND, MountKind.OVERLAY} and mount.source == mount.target)
        or (mount.kind is MountKind.TMPFS and MountFlag.READ_ONLY not in mount.flags)
        for mount in draft.mounts
    )
    kinds = {mount.kind for mount in draft.mounts}
    births = sum(group.kind is CgroupKind.BIRTH for group in draft.cgroups)
    guards = RecordType.GUARD in draft.seen
    locks_one = RecordType.LOCK in draft.seen and not inside and draft.serves is None
    shares = draft.watch is not None and draft.watch.share_permille > 0
    for broken, why in (
        (draft.serves is None and not draft.cwd, "no working directory"),
        (draft.serves is None and not draft.argv, "no command"),
        (draft.serves is not None and bool(_OF_COMMANDS & draft.seen), "a command for a server"),
        (inside and bool(spaces), "namespaces inside those of somebody else"),
        (inside and not in_place, "a mount that cannot be made in place"),
        (
            bool(draft.mounts) and not inside and spaces & needs_mounts != needs_mounts,
            "mounts without a namespace",
        ),
        (bool(draft.expects) and not inside, "expectations of a sandbox of our own"),
        (
            RecordType.LOCK in draft.seen and not (all(draft.maps) and (inside or draft.mounts)),
            "a lock without mounts and id maps",
        ),
        (draft.identity is not None and not locks_one, "an identity without a lock of one command"),
        (RecordType.LOOPBACK in draft.seen and not spaces & _NEWNET, "loopback without a namespace"),
        (draft.gateway is not None and not _has_network(draft), "a gateway without a network"),
        (bool(draft.hostname) and not spaces & _NEWUTS, "a host name without a namespace"),
        (draft.landlock is None and bool(draft.paths or draft.ports), "Landlock rules without a ruleset"),
        (draft.areas is not None and not draft.mounts, "private areas without mounts"),
        (draft.areas is None and MountKind.AREA in kinds, "a private area without their size"),
        (bool(draft.listens) and not draft.seccomp, "a listener of no filter"),
        (_asks(draft) and not draft.listens, "questions that nobody hears"),
        (births > 1, "a process is born in one cgroup"),
        (
            not all(path[0] != "%" or int(path[1]) < len(draft.groups) for path in _group_paths(draft)),
            "a group that is not made",
        ),
        (shares and not spaces & _NEWPID, "a share without a PID namespace"),
        (bool(draft.guarded or draft.searched) and not guards, "protected names without a guard"),
        (guards and (not spaces & _NEWPID or draft.serves is not None), "a guard of no single command"),
    ):
        if broken:
            raise MalformedSpec(why)


def _finish(draft: Draft) -> Spec:
    landlock = None
    if draft.landlock is not None:
        landlock = Landlock(*draft.landlock, paths=tuple(draft.paths), ports=tuple(draft.ports))
    return Spec(
        argv=tuple(draft.argv),
        cwd=draft.cwd or "/",
        env=tuple(draft.env),
        namespaces=draft.namespaces,
        uid_map=draft.maps[0],
        gid_map=draft.maps[1],
        cgroups=tuple(draft.cgroups),
        cgroup_kill=draft.cgroup_kill,
        cpu_time=draft.cpu_time,
        groups=tuple(draft.groups),
        group_settings=tuple(draft.group_settings),
        watch=draft.watch,
        areas=draft.areas,
        mounts=tuple(draft.mounts),
        lock=RecordType.LOCK in draft.seen,
        identity=draft.identity,
        hostname=draft.hostname,
        loopback=RecordType.LOOPBACK in draft.seen,
        gateway=draft.gateway,
        rlimits=tuple(draft.rlimits),
        landlock=landlock,
        seccomp=draft.seccomp,
        listens=tuple(draft.listens),
        wall_ms=draft.wall[0],
        grace_ms=draft.wall[1],
        terminal=RecordType.TERMINAL in draft.seen,
        inside=RecordType.INSIDE in draft.seen,
        expects=tuple(draft.expects),
        image_environment=RecordType.IMAGE_ENVIRONMENT in draft.seen,
        guard=NameGuard(draft.quarantine, tuple(draft.guarded), tuple(draft.searched))
        if RecordType.GUARD in draft.seen
        else None,
        lingers=RecordType.LINGER in draft.seen,
        awaits=RecordType.AWAIT in draft.seen,
        serves=draft.serves,
        keeps=RecordType.KEEP in draft.seen,
        fault=draft.fault,
    )
