"""Strategies for launcher specs that are well formed, and the launcher's own opinion of bytes."""

from __future__ import annotations

import subprocess

from hypothesis import strategies as st

from corral.host.real import RealHost
from corral.linux.spec import (
    Areas,
    Cgroup,
    CgroupKill,
    CgroupKillKind,
    CgroupKind,
    CpuTime,
    Guarded,
    Landlock,
    LimitWatch,
    Mount,
    MountFlag,
    MountKind,
    NameFlag,
    NameGuard,
    PathRule,
    ProtectedName,
    Rlimit,
    Spec,
)

_NEWNS, _NEWUSER, _NEWUTS, _NEWNET = 0x00020000, 0x10000000, 0x04000000, 0x40000000
_NEWPID = 0x20000000
_SPACES = (_NEWNS, 0x02000000, _NEWUTS, 0x08000000, _NEWUSER, 0x20000000, _NEWNET)

u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
#: Any bytes but NUL, as Python sees them.
strings = st.binary(max_size=12).map(lambda raw: raw.replace(b"\0", b"0").decode("utf-8", "surrogateescape"))
_parts = strings.filter(lambda part: part not in {"", ".", ".."} and "/" not in part)
paths = st.lists(_parts, max_size=3).map(lambda parts: "/" + "/".join(parts))
_names = strings.filter(lambda name: name and "=" not in name)

mounts = st.builds(
    Mount,
    st.sampled_from([kind for kind in MountKind if kind is not MountKind.OVERLAY]),
    paths,
    paths,
    st.integers(0, 15).map(MountFlag),
    u64,
    u64,
    u64,
    u32,
    st.binary(max_size=8),
) | st.builds(
    Mount,
    st.just(MountKind.OVERLAY),
    paths,
    paths,
    content=st.lists(paths, min_size=2, max_size=3).map(
        lambda layers: b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in layers)
    ),
)
landlocks = st.builds(
    Landlock,
    u64,
    u64,
    u64,
    st.lists(st.builds(PathRule, u64, paths, u64, u64), max_size=3).map(tuple),
    st.lists(st.tuples(u64, u64), max_size=2).map(tuple),
)


cgroups = st.tuples(
    st.lists(st.builds(Cgroup, st.just(CgroupKind.TASKS), paths), max_size=2),
    st.lists(st.builds(Cgroup, st.just(CgroupKind.BIRTH), paths), max_size=1),
).map(lambda both: (*both[0], *both[1]))
kills = st.none() | st.builds(CgroupKill, st.sampled_from(CgroupKillKind), paths)
cpu_times = st.none() | st.builds(
    CpuTime, st.integers(1, (2**63 - 1) // 2), u64, st.integers(1, 2**32 - 1), paths
)
settings = st.tuples(st.sampled_from(["%0/pids.max", "%0/cpu.max"]), strings)
watches = st.builds(LimitWatch, u64, u64, st.integers(1, 1000), st.integers(1, 2**32 - 1)) | st.builds(
    LimitWatch, u64, u64
)

_protected = st.builds(ProtectedName, _parts, st.integers(0, 1).map(NameFlag), strings, strings)
guards = st.builds(
    NameGuard,
    st.just("") | paths,
    st.lists(
        st.builds(Guarded, paths, u64, u64, st.lists(_protected, max_size=2).map(tuple)), max_size=2
    ).map(tuple),
    st.lists(st.builds(Guarded, paths, u64, u64), max_size=2).map(tuple),
)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    spaces = sum(draw(st.sets(st.sampled_from(_SPACES))))
    mounting = spaces & (_NEWNS | _NEWUSER) == _NEWNS | _NEWUSER
    mounted = tuple(draw(st.lists(mounts, max_size=3))) if mounting else ()
    made = tuple(draw(st.lists(paths, max_size=2)))
    wall = draw(u64)
    filtered = draw(st.integers(0, 3))
    maps = draw(strings), draw(strings)
    locks = bool(mounted) and all(maps) and draw(st.booleans())
    return Spec(
        argv=tuple(draw(st.lists(strings, min_size=1, max_size=3))),
        cwd=draw(paths),
        env=tuple(draw(st.lists(st.tuples(_names, strings), max_size=3))),
        namespaces=spaces,
        uid_map=maps[0],
        gid_map=maps[1],
        cgroups=draw(cgroups),
        cgroup_kill=draw(kills),
        cpu_time=draw(cpu_times),
        groups=made,
        group_settings=tuple(draw(st.lists(settings, max_size=2))) if made else (),
        watch=draw(watches).replace(**({} if spaces & _NEWPID else {"share_permille": 0, "processors": 0}))
        if draw(st.booleans())
        else None,
        areas=draw(st.builds(Areas, u64.filter(bool), u64.filter(bool))) if mounted else None,
        mounts=mounted,
        lock=locks,
        identity=draw(st.none() | st.tuples(st.integers(1, 1 << 31), st.integers(1, 1 << 16)))
        if locks
        else None,
        hostname=draw(strings) if spaces & _NEWUTS else "",
        loopback=bool(spaces & _NEWNET) and draw(st.booleans()),
        rlimits=tuple(draw(st.lists(st.builds(Rlimit, u32, u64, u64), max_size=2))),
        landlock=draw(st.none() | landlocks),
        seccomp=filtered * b"\6\0\0\0\0\0\xff\x7f",
        listens=tuple(draw(st.lists(st.tuples(u32, st.integers(0, 63)), max_size=2))) if filtered else (),
        wall_ms=wall,
        grace_ms=draw(u64) if wall else 0,
        terminal=draw(st.booleans()),
        lingers=draw(st.booleans()),
        awaits=draw(st.booleans()),
        guard=draw(st.none() | guards) if spaces & _NEWPID else None,
    )


def launcher_accepts(raw: bytes) -> bool:
    """What the decoder in C says; it must say it in an orderly way."""
    launcher, reason = RealHost().launcher()
    assert launcher, reason
    done = subprocess.run([launcher, "--check-spec"], input=raw, capture_output=True, check=False, timeout=10)
    assert done.returncode in {0, 1}, (done.returncode, done.stderr)
    return done.returncode == 0


def has_launcher() -> bool:
    return bool(RealHost().launcher()[0])
