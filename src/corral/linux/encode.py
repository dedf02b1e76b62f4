"""Encode a launcher spec to bytes."""

from __future__ import annotations

from corral.linux.spec import (
    AREAS,
    CPU_TIME,
    EXPECT,
    GUARDED,
    HEADER,
    LANDLOCK,
    LISTEN,
    MAGIC,
    MOUNT,
    PATH_RULE,
    RECORD,
    RLIMIT,
    U32,
    U64,
    WATCH,
    Expect,
    Mount,
    PathRule,
    RecordType,
    Spec,
)
from corral.model.last_made import LastMade

#: Names that the launcher watches over, as long as they are the same.
_NAMES = LastMade()

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.linux.spec import Cgroup, CgroupKill, CpuTime, Guarded, Landlock, NameGuard


def encode(spec: Spec) -> bytes:
    """Return the bytes of a spec. Raises ValueError for a string that holds a NUL."""
    return join(encode_resolved(spec), encode_command(spec))


def join(*parts: tuple[int, bytes]) -> bytes:
    """Put a header before records that were encoded earlier."""
    count = sum(number for number, _ in parts)
    body = b"".join(records for _, records in parts)
    return HEADER.pack(MAGIC, HEADER.size + len(body), count) + body


def encode_resolved(spec: Spec) -> tuple[int, bytes]:
    """Encode what is the same for every command of a sandbox, mounts included: (number of records, bytes)."""
    return _gather((*_resolved_records(spec), *((RecordType.MOUNT, _mount(mount)) for mount in spec.mounts)))


def encode_command(spec: Spec) -> tuple[int, bytes]:
    """Encode what belongs to one command: (number of records, bytes)."""
    return _gather(_command_records(spec))


def encode_environment(env: Iterable[tuple[str, str]]) -> tuple[int, bytes]:
    """Encode variables alone, for a caller that starts many commands with them."""
    return _gather((RecordType.ENVIRONMENT, _string(f"{name}={value}")) for name, value in env)


def encode_mount(mount: Mount) -> bytes:
    """Encode one mount as a whole record: for a caller that keeps some and puts them in order himself."""
    return _gather([(RecordType.MOUNT, _mount(mount))])[1]


def encode_paths(rules: Iterable[PathRule]) -> tuple[int, bytes]:
    """Encode Landlock paths that follow those of the resolved policy: (number of records, bytes)."""
    return _gather((RecordType.LANDLOCK_PATH, _path_rule(rule)) for rule in rules)


def _path_rule(rule: PathRule) -> bytes:
    return PATH_RULE.pack(rule.rights, rule.device, rule.inode) + _string(rule.path)


def _gather(records: Iterable[tuple[RecordType, bytes]]) -> tuple[int, bytes]:
    pieces = [RECORD.pack(kind, len(payload)) + payload for kind, payload in records]
    return len(pieces), b"".join(pieces)


def encode_expects(expects: Iterable[Expect]) -> tuple[int, bytes]:
    """Encode what must be found inside: (number of records, bytes)."""
    return _gather((RecordType.EXPECT, _expect(expect)) for expect in expects)


def _expect(expect: Expect) -> bytes:
    return EXPECT.pack(expect.flags, expect.device, expect.inode) + _string(expect.path)


def _resolved_records(spec: Spec) -> Iterator[tuple[RecordType, bytes]]:
    if spec.namespaces:
        yield RecordType.NAMESPACES, U32.pack(spec.namespaces)
    for which, text in enumerate((spec.uid_map, spec.gid_map)):
        if text:
            yield RecordType.ID_MAP, U32.pack(which) + _string(text)
    if spec.lock:
        yield RecordType.LOCK, b""
    if spec.identity is not None:
        yield RecordType.IDENTITY, b"".join(map(U32.pack, spec.identity))
    if spec.hostname:
        yield RecordType.HOSTNAME, _string(spec.hostname)
    if spec.loopback:
        yield RecordType.LOOPBACK, b""
    if spec.gateway is not None:
        yield RecordType.GATEWAY, b"".join(map(U32.pack, (spec.gateway.flags, *spec.gateway.ports)))
    if spec.areas is not None:
        yield RecordType.AREAS, AREAS.pack(spec.areas.size_bytes, spec.areas.inodes)
    if spec.watch is not None:
        watch = spec.watch
        fields = (watch.memory_bytes, watch.processes, watch.share_permille, watch.processors)
        yield RecordType.WATCH, WATCH.pack(*fields)
    for limit in spec.rlimits:
        yield RecordType.RLIMIT, RLIMIT.pack(limit.resource, limit.soft, limit.hard)
    if spec.landlock is not None:
        yield from _landlock_records(spec.landlock)
    yield from _filter_records(spec)
    yield from _inside_records(spec)


def _filter_records(spec: Spec) -> Iterator[tuple[RecordType, bytes]]:
    if spec.seccomp:
        yield RecordType.SECCOMP, spec.seccomp
    for listened in spec.listens:
        yield RecordType.LISTEN, LISTEN.pack(*listened)


def _landlock_records(lock: Landlock) -> Iterator[tuple[RecordType, bytes]]:
    yield RecordType.LANDLOCK, LANDLOCK.pack(lock.handled_fs, lock.handled_net, lock.scoped)
    for rule in lock.paths:
        yield RecordType.LANDLOCK_PATH, _path_rule(rule)
    for rights, port in lock.ports:
        yield RecordType.LANDLOCK_PORT, U64.pack(rights) + U64.pack(port)


def _inside_records(spec: Spec) -> Iterator[tuple[RecordType, bytes]]:
    if spec.inside:
        yield RecordType.INSIDE, b""
    if spec.image_environment:
        yield RecordType.IMAGE_ENVIRONMENT, b""
    for expect in spec.expects:
        yield RecordType.EXPECT, _expect(expect)


def _command_records(spec: Spec) -> Iterator[tuple[RecordType, bytes]]:
    yield from _group_records(spec.cgroups, spec.cgroup_kill, spec.cpu_time)
    yield from _made_groups(spec.groups, spec.group_settings)
    if spec.guard is not None:
        yield RecordType.GUARD, _string(spec.guard.quarantine)
        yield from _guard_records(spec.guard)
    if spec.lingers:
        yield RecordType.LINGER, b""
    if spec.awaits:
        yield RecordType.AWAIT, b""
    if spec.fault:
        yield RecordType.FAULT, _string(spec.fault)
    if spec.serves is not None:
        yield RecordType.SERVE, U32.pack(spec.serves)
        return
    yield RecordType.CWD, _string(spec.cwd)
    for argument in spec.argv:
        yield RecordType.ARGUMENT, _string(argument)
    for name, value in spec.env:
        yield RecordType.ENVIRONMENT, _string(f"{name}={value}")
    if spec.wall_ms:
        yield RecordType.WALL, U64.pack(spec.wall_ms) + U64.pack(spec.grace_ms)
    if spec.terminal:
        yield RecordType.TERMINAL, b""
    if spec.keeps:
        yield RecordType.KEEP, b""


def _string(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise ValueError(f"{text!r} contains a NUL byte")
    return raw + b"\0"


def _mount(mount: Mount) -> bytes:
    fixed = MOUNT.pack(mount.kind, mount.flags, mount.device, mount.inode, mount.size, mount.mode)
    content = U32.pack(len(mount.content)) + mount.content
    return fixed + _string(mount.source) + _string(mount.target) + content


def _group_records(
    groups: tuple[Cgroup, ...], kill: CgroupKill | None, cpu_time: CpuTime | None
) -> Iterator[tuple[RecordType, bytes]]:
    for group in groups:
        yield RecordType.CGROUP, U32.pack(group.kind) + _string(group.path)
    if kill is not None:
        yield RecordType.CGROUP_KILL, U32.pack(kill.kind) + _string(kill.path)
    if cpu_time is not None:
        fixed = CPU_TIME.pack(cpu_time.limit_us, cpu_time.grace_ms, cpu_time.divisor)
        yield RecordType.CPU_TIME, fixed + _string(cpu_time.path)


def _made_groups(
    directories: Iterable[str], settings: Iterable[tuple[str, str]]
) -> Iterator[tuple[RecordType, bytes]]:
    for directory in directories:
        yield RecordType.GROUP, _string(directory)
    for path, value in settings:
        yield RecordType.GROUP_SETTING, _string(path) + _string(value)


def append_made_groups(
    encoded: bytes, directories: Iterable[str], settings: Iterable[tuple[str, str]]
) -> bytes:
    """Have the launcher make a control group in each directory, with settings."""
    magic, length, count = HEADER.unpack_from(encoded)
    added, records = _gather(_made_groups(directories, settings))
    return HEADER.pack(magic, length + len(records), count + added) + encoded[HEADER.size :] + records


def _guard_records(guard: NameGuard) -> Iterator[tuple[RecordType, bytes]]:
    for directory in guard.directories:
        yield RecordType.GUARDED, _directory(directory)
        for name in directory.names:
            texts = b"".join(map(_string, (name.name, name.link, name.label)))
            yield RecordType.NAME, U32.pack(name.flags) + texts
    for directory in guard.searched:
        yield RecordType.SEARCHED, _directory(directory)


def _directory(guarded: Guarded) -> bytes:
    return GUARDED.pack(guarded.device, guarded.inode) + _string(guarded.path)


def append_guard(encoded: bytes, guard: NameGuard) -> bytes:
    """Have the launcher watch over protected names."""
    magic, length, count = HEADER.unpack_from(encoded)
    _, place = _gather([(RecordType.GUARD, _string(guard.quarantine))])  # of each run
    added, names = _NAMES.get((guard.directories, guard.searched), lambda: _gather(_guard_records(guard)))
    added, records = added + 1, place + names
    return HEADER.pack(magic, length + len(records), count + added) + encoded[HEADER.size :] + records


def append_await(encoded: bytes) -> bytes:
    """Have the launcher start no command before it is told to."""
    magic, length, count = HEADER.unpack_from(encoded)
    added, records = _gather([(RecordType.AWAIT, b"")])
    return HEADER.pack(magic, length + len(records), count + added) + encoded[HEADER.size :] + records


def append_mounts(encoded: bytes, mounts: Iterable[Mount]) -> bytes:
    """Add mounts to a spec that was encoded before their sources were made; they are made last."""
    magic, length, count = HEADER.unpack_from(encoded)
    added, records = _gather((RecordType.MOUNT, _mount(mount)) for mount in mounts)
    return HEADER.pack(magic, length + len(records), count + added) + encoded[HEADER.size :] + records


def append_groups(
    encoded: bytes,
    groups: tuple[Cgroup, ...],
    kill: CgroupKill | None = None,
    cpu_time: CpuTime | None = None,
    *,
    lingers: bool = False,
) -> bytes:
    """Add control groups to a spec that was encoded before their names were known."""
    magic, length, count = HEADER.unpack_from(encoded)
    more = [(RecordType.LINGER, b"")] if lingers else []
    added, records = _gather([*_group_records(groups, kill, cpu_time), *more])
    return HEADER.pack(magic, length + len(records), count + added) + encoded[HEADER.size :] + records
