"""A launch as text, one fact a line: reviewers read a security change as a diff."""

from __future__ import annotations

from functools import cache

from corral.backends._launcher import Telling, compile_seccomp
from corral.linux.decode import decode
from corral.linux.filter import SocketPolicy
from corral.linux.landlock import FsRight, LandlockScope, NetRight
from corral.linux.spec import ExpectFlag, MountFlag, MountKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.linux.spec import Expect, Landlock, Mount, Spec
    from corral.model.launch import Launch
    from corral.model.plan import Plan

_NAMESPACES = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
_NEVER_GRANTED = FsRight.IOCTL_DEV | FsRight.MAKE_CHAR | FsRight.MAKE_BLOCK
#: What the backends combine: the rules for a single process are shown with these alone.
_USED = {
    (SocketPolicy.NAMESPACED, False),
    (SocketPolicy.HOST, False),
    (SocketPolicy.NONE, True),
    (SocketPolicy.INTERNET, True),
    (SocketPolicy.PROXIED, True),
}
_RLIMITS = {1: "FSIZE", 4: "CORE", 6: "NPROC", 7: "NOFILE"}
#: Sets of rights that occur on every other line.
_SHORT = {
    frozenset({"EXECUTE", "READ_FILE", "READ_DIR"}): "read",
    frozenset({"EXECUTE", "READ_FILE"}): "read (file)",
    frozenset({"WRITE_FILE", "READ_FILE", "IOCTL_DEV"}): "use (device)",
}


def render(plan: Plan, launch: Launch) -> str:
    """The whole launch."""
    return (
        "\n".join((*_launch(launch), *_plan(plan), *(_spec(decode(launch.spec)) if launch.spec else ())))
        + "\n"
    )


def _launch(launch: Launch) -> Iterator[str]:
    yield f"backend    {launch.backend}"
    yield from (f"argv       {argument}" for argument in launch.argv)
    yield from (f"env        {name}={value}" for name, value in launch.env)
    for feature, how in sorted(launch.enforced.items(), key=lambda item: item[0].value):
        yield f"enforced   {feature.value:<18}{how}"
    if launch.profile is not None:
        yield f"profile    {launch.profile.path} {launch.profile.mode:o}"
        yield from launch.profile.content.decode().splitlines()
    if launch.scratch:
        yield f"scratch    {launch.scratch}"
    for file in launch.scratch_files:
        mode = "" if file.mode == 0o600 else f" mode {file.mode:o}"
        if file.path.endswith("/profile"):
            yield from (f"profile    {line}" for line in file.content.decode().splitlines())
            continue
        kind = " directory" if file.is_directory else f" holds {_content(file.content)}"
        yield f"scratch    {file.path}{mode}{kind}"
    for mount in launch.copies:
        yield f"copy       {mount.copy.target.path} at {mount.inside}"
    if launch.outer is not None:
        yield f"outer      control {launch.outer.control or '-'}, {launch.outer.start_seconds:g} s"
        yield f"outer      removal {' '.join(launch.outer.removal) or '-'}"
        if launch.outer.finding:
            yield f"outer      finding {' '.join(launch.outer.finding)}"
    if launch.group is not None:
        yield f"group      {launch.group}"


def _content(content: bytes) -> str:
    return f"{content!r}" if len(content) < 500 else f"{len(content)} bytes"


def _plan(plan: Plan) -> Iterator[str]:
    """What the runner does besides the launch."""
    yield from (
        f"required   {name}" for name in sorted(feature.value for feature in plan.requires - plan.waived)
    )
    yield from (f"waived     {name}" for name in sorted(feature.value for feature in plan.waived))
    for watch in plan.watches:
        link = f" (a link to {watch.link_text})" if watch.link_text else ""
        yield f"watch      {watch.directory}/{watch.name}{link}"


def _spec(spec: Spec) -> Iterator[str]:
    names = [name for name, bit in _NAMESPACES.items() if spec.namespaces & bit]
    yield f"namespaces {' '.join(names) or '-'}"
    yield from (f"idmap      {name} {text.strip()}" for name, text in _maps(spec) if text)
    yield from (f"mount      {_mount(mount)}" for mount in spec.mounts)
    if spec.lock:
        yield "lock       mounts stay together"
    if spec.hostname:
        yield f"hostname   {spec.hostname}"
    yield f"loopback   {'up' if spec.loopback else '-'}"
    if spec.areas is not None:
        yield f"areas      {spec.areas.size_bytes} bytes, {spec.areas.inodes} files"
    if spec.watch is not None:
        yield f"watch      {spec.watch}"
    yield from (f"rlimit     {_RLIMITS[limit.resource]} {limit.soft} {limit.hard}" for limit in spec.rlimits)
    if spec.landlock is not None:
        yield from _landlock(spec.landlock)
    yield f"seccomp    {_filter_name(spec.seccomp)}"
    yield from (f"expect     {_expect(expect)}" for expect in spec.expects)
    if spec.inside:
        yield f"inside     {'the environment of the image' if spec.image_environment else '-'}"
    yield f"cwd        {spec.cwd}"
    yield from (f"argument   {argument}" for argument in spec.argv)
    yield from (f"variable   {name}={value}" for name, value in spec.env)
    if spec.wall_ms:
        yield f"wall       {spec.wall_ms} ms, grace {spec.grace_ms} ms"


def _maps(spec: Spec) -> tuple[tuple[str, str], ...]:
    return (("uid", spec.uid_map), ("gid", spec.gid_map))


def _mount(mount: Mount) -> str:
    flags = [flag.name.lower().replace("_", "-") for flag in MountFlag if flag & mount.flags]
    parts = [mount.kind.name.lower(), mount.target, *flags]
    if mount.source and mount.kind not in {MountKind.BIND, MountKind.COPY}:
        parts.append(f"-> {mount.source}")
    elif mount.source and mount.source != mount.target:
        parts.append(f"from {mount.source}")
    if mount.inode:
        parts.append(f"inode {mount.device}:{mount.inode}")
    if mount.size:
        parts.append(f"{mount.size} bytes")
    if mount.mode:
        parts.append(f"mode {mount.mode:o}")
    if mount.content:
        parts.append(f"holds {mount.content!r}")
    return " ".join(parts)


def _expect(expect: Expect) -> str:
    flags = [flag.name.lower().replace("_", "-") for flag in ExpectFlag if flag & expect.flags]
    inode = [f"inode {expect.device}:{expect.inode}"] if expect.inode else []
    return " ".join([expect.path, *flags, *inode])


def _landlock(lock: Landlock) -> Iterator[str]:
    yield f"landlock   handles {_bits(lock.handled_fs, FsRight)}"
    yield f"landlock   handles {_bits(lock.handled_net, NetRight)}"
    yield f"landlock   scopes  {_bits(lock.scoped, LandlockScope)}"
    for rule in lock.paths:
        rights, path = rule.rights, rule.path
        yield f"landlock   {path}: {_rights(rights, lock.handled_fs)}"
    yield from (f"landlock   port {port}: {_bits(rights, NetRight)}" for rights, port in lock.ports)


def _rights(rights: int, handled: int) -> str:
    if rights == handled & ~_NEVER_GRANTED:
        return "write"
    names = _bits(rights, FsRight)
    return _SHORT.get(frozenset(names.split()), names)


def _bits(value: int, names: type) -> str:
    known = {name: bit for name, bit in vars(names).items() if name.isupper()}
    rest = value & ~sum(known.values())
    found = [name for name, bit in known.items() if value & bit]
    return " ".join([*found, *([hex(rest)] if rest else [])]) or "-"


@cache
def filters() -> dict[str, bytes]:
    """Name -> program, of every filter that a policy without denials of its own can lead to."""
    return {
        f"{policy.value}{'-shared-ipc' if by_filter else ''}{'-single' if single else ''}": compile_seccomp(
            "x86_64",
            policy,
            by_filter=by_filter,
            single=single,
            telling=Telling(asks=policy is SocketPolicy.PROXIED),
        )
        for policy in SocketPolicy
        for by_filter in (False, True)
        for single in (False, True)
        if not single or (policy, by_filter) in _USED
    }


def _filter_name(program: bytes) -> str:
    for name, known in filters().items():
        if known == program:
            return f"as in seccomp/{name}.txt"
    return f"{len(program) // 8} instructions of this policy's own"
