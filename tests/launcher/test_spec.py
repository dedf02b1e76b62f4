"""Both decoders refuse what is not a spec to the letter, and agree about it."""

from __future__ import annotations

import errno
import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from launching import NAMESPACES, STRICT, bare, build, confined, launch

from corral.linux.decode import MalformedSpec, decode
from corral.linux.encode import encode
from corral.linux.spec import (
    MAGIC,
    MAX_BYTES,
    Areas,
    Cgroup,
    CgroupKill,
    CgroupKillKind,
    CgroupKind,
    CpuTime,
    Landlock,
    LimitWatch,
    PathRule,
    Rlimit,
    Spec,
)
from support.examples import scaled

CWD = (12, b"/\0")
ARGUMENT = (13, b"true\0")
NEW_ALL = (1, struct.pack("<I", NAMESPACES))
MUTANTS = 20_000


def raw(
    *records: tuple[int, bytes], magic: bytes = MAGIC, extra: bytes = b"", count: int | None = None
) -> bytes:
    body = b"".join(struct.pack("<II", kind, len(payload)) + payload for kind, payload in records) + extra
    return magic + struct.pack("<II", 16 + len(body), len(records) if count is None else count) + body


def mount(
    kind: int = 1, flags: int = 0, source: bytes = b"/usr", target: bytes = b"/usr", tail: bytes = b"\0" * 4
):
    return 4, struct.pack("<IIQQQI", kind, flags, 0, 0, 0, 0) + source + b"\0" + target + b"\0" + tail


MALFORMED = {
    "empty": b"",
    "half a header": MAGIC + b"\0" * 4,
    "wrong magic": raw(CWD, ARGUMENT, magic=b"CORRAL\0\2"),
    "wrong length": raw(CWD, ARGUMENT) + b"\0",
    "truncated": raw(CWD, ARGUMENT)[:-1],
    "too few records": raw(CWD, ARGUMENT, count=1),
    "too many records": raw(CWD, ARGUMENT, count=3),
    "very many records": raw(CWD, ARGUMENT, count=2**32 - 1),
    "record past the end": raw(CWD, ARGUMENT, extra=struct.pack("<II", 13, 2**32 - 1), count=3),
    "type 0": raw(CWD, ARGUMENT, (0, b"")),
    "type 18": raw(CWD, ARGUMENT, (18, b"")),
    "huge type": raw(CWD, ARGUMENT, (2**31, b"")),
    "no cwd": raw(ARGUMENT),
    "no argument": raw(CWD),
    "two cwds": raw(CWD, CWD, ARGUMENT),
    "relative cwd": raw((12, b"x\0"), ARGUMENT),
    "empty cwd": raw((12, b"\0"), ARGUMENT),
    "dotted cwd": raw((12, b"/a/./b\0"), ARGUMENT),
    "dotdot cwd": raw((12, b"/a/..\0"), ARGUMENT),
    "double slash": raw((12, b"//\0"), ARGUMENT),
    "trailing slash": raw((12, b"/a/\0"), ARGUMENT),
    "unterminated": raw(CWD, (13, b"true")),
    "no bytes at all": raw(CWD, (13, b"")),
    "NUL inside": raw(CWD, (13, b"a\0b\0")),
    "env without =": raw(CWD, ARGUMENT, (14, b"A\0")),
    "env without name": raw(CWD, ARGUMENT, (14, b"=x\0")),
    "no namespace": raw(CWD, ARGUMENT, (1, struct.pack("<I", 0))),
    "unknown namespace": raw(CWD, ARGUMENT, (1, struct.pack("<I", NAMESPACES | 0x80))),
    "namespaces twice": raw(CWD, ARGUMENT, NEW_ALL, NEW_ALL),
    "short namespaces": raw(CWD, ARGUMENT, (1, b"\0\0\2")),
    "long namespaces": raw(CWD, ARGUMENT, (1, NEW_ALL[1] + b"\0")),
    "unknown id map": raw(CWD, ARGUMENT, NEW_ALL, (2, struct.pack("<I", 2) + b"0 0 1\0")),
    "empty id map": raw(CWD, ARGUMENT, NEW_ALL, (2, struct.pack("<I", 0) + b"\0")),
    "id map twice": raw(CWD, ARGUMENT, NEW_ALL, *[(2, struct.pack("<I", 0) + b"0 0 1\0")] * 2),
    "relative cgroup": raw(CWD, ARGUMENT, (3, b"\1\0\0\0x\0")),
    "unknown cgroup": raw(CWD, ARGUMENT, (3, b"\3\0\0\0/x\0")),
    "two births": raw(CWD, ARGUMENT, (3, b"\2\0\0\0/x\0"), (3, b"\2\0\0\0/y\0")),
    "areas without mounts": raw(CWD, ARGUMENT, (18, b"\1" + bytes(7) + b"\1" + bytes(7))),
    "unknown way to end": raw(CWD, ARGUMENT, (19, b"\3\0\0\0/x\0")),
    "no processor time": raw(CWD, ARGUMENT, (20, bytes(16) + b"\1\0\0\0/x\0")),
    "a share of nothing": raw(CWD, ARGUMENT, (21, bytes(16) + b"\1\0\0\0" + bytes(4))),
    "a share without namespaces": raw(CWD, ARGUMENT, (21, bytes(16) + b"\1\0\0\0\1\0\0\0")),
    "mount without namespaces": raw(CWD, ARGUMENT, mount()),
    "mount without user namespace": raw(CWD, ARGUMENT, mount(), (1, struct.pack("<I", 0x20020000))),
    "mount kind 0": raw(CWD, ARGUMENT, NEW_ALL, mount(kind=0)),
    "mount kind 9": raw(CWD, ARGUMENT, NEW_ALL, mount(kind=9)),
    "mount flag": raw(CWD, ARGUMENT, NEW_ALL, mount(flags=16)),
    "relative target": raw(CWD, ARGUMENT, NEW_ALL, mount(target=b"usr")),
    "dotdot target": raw(CWD, ARGUMENT, NEW_ALL, mount(target=b"/usr/../etc")),
    "dotdot source": raw(CWD, ARGUMENT, NEW_ALL, mount(source=b"/usr/../etc")),
    "no source": raw(CWD, ARGUMENT, NEW_ALL, mount(source=b"")),
    "mount without content": raw(CWD, ARGUMENT, NEW_ALL, mount(tail=b"")),
    "content too long": raw(CWD, ARGUMENT, NEW_ALL, mount(kind=6, tail=struct.pack("<I", 9) + b"x")),
    "content too short": raw(CWD, ARGUMENT, NEW_ALL, mount(kind=6, tail=struct.pack("<I", 0) + b"x")),
    "host name without namespace": raw(CWD, ARGUMENT, (5, b"x\0")),
    "long host name": raw(CWD, ARGUMENT, NEW_ALL, (5, b"x" * 65 + b"\0")),
    "empty host name": raw(CWD, ARGUMENT, NEW_ALL, (5, b"\0")),
    "loopback without namespace": raw(CWD, ARGUMENT, (6, b"")),
    "loopback with payload": raw(CWD, ARGUMENT, NEW_ALL, (6, b"x")),
    "short limit": raw(CWD, ARGUMENT, (7, bytes(19))),
    "landlock twice": raw(CWD, ARGUMENT, (8, bytes(24)), (8, bytes(24))),
    "path without landlock": raw(CWD, ARGUMENT, (9, bytes(8) + b"/\0")),
    "port without landlock": raw(CWD, ARGUMENT, (10, bytes(16))),
    "relative landlock path": raw(CWD, ARGUMENT, (8, bytes(24)), (9, bytes(8) + b"x\0")),
    "half an instruction": raw(CWD, ARGUMENT, (11, bytes(12))),
    "empty filter": raw(CWD, ARGUMENT, (11, b"")),
    "long filter": raw(CWD, ARGUMENT, (11, bytes(4097 * 8))),
    "filter twice": raw(CWD, ARGUMENT, (11, bytes(8)), (11, bytes(8))),
    "no wall time": raw(CWD, ARGUMENT, (15, bytes(16))),
    "terminal twice": raw(CWD, ARGUMENT, (16, b""), (16, b"")),
    "oversized": raw(CWD, ARGUMENT, (13, b"x" * MAX_BYTES + b"\0")),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_specs_are_refused(plain: Path, checked: Path, name: str) -> None:
    with pytest.raises(MalformedSpec):
        decode(MALFORMED[name])

    for binary in (plain, checked):
        done = launch(binary, MALFORMED[name])
        assert done.exit_code == 125
        assert done.status.startswith(f"failed spec {errno.EINVAL} ".encode()), done.status
        checked_only = subprocess.run(
            [binary, "--check-spec"], input=MALFORMED[name], capture_output=True, check=False
        )
        assert checked_only.returncode == 1
        assert checked_only.stdout.startswith(b"malformed: ")


@pytest.mark.parametrize("spec", [raw(CWD, ARGUMENT), raw(ARGUMENT, CWD), encode(confined("true"))])
def test_well_formed_specs_are_accepted(plain: Path, checked: Path, spec: bytes) -> None:
    for binary in (plain, checked):
        assert (
            subprocess.run([binary, "--check-spec"], input=spec, check=False, capture_output=True).returncode
            == 0
        )


def seeds() -> list[bytes]:
    full = confined(
        *("sh", "-c", ""),
        cgroups=(Cgroup(CgroupKind.TASKS, "/sys/fs/cgroup/x/tasks"), Cgroup(CgroupKind.BIRTH, "/x")),
        cgroup_kill=CgroupKill(CgroupKillKind.FREEZER, "/sys/fs/cgroup/freezer/x"),
        cpu_time=CpuTime(5, 6, 7, "/sys/fs/cgroup/x/cpu.stat"),
        watch=LimitWatch(1, 2, 3, 4),
        areas=Areas(1 << 20, 100),
        rlimits=(Rlimit(7, 1, 2),),
        landlock=Landlock(0x1FFF, 3, 3, (PathRule(1, "/usr", 5, 6),), ((1, 443),)),
        seccomp=bytes(16),
        wall_ms=5,
        grace_ms=6,
        terminal=True,
        fault="caps",
    )
    return [encode(full), encode(bare("true")), encode(Spec(argv=("",), cwd="/"))]


def mutate(spec: bytes, chance: random.Random) -> bytes:
    """One to three small changes; the length field is mended in most, so that they get past the header."""
    data = bytearray(spec)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(data)) if data else 0
        match chance.randrange(6):
            case 0 if data:
                data[at] = chance.choice((0, 1, 2, 4, 0x2F, 0x7F, 0xFF, chance.randrange(256)))
            case 1:
                del data[at : at + chance.randint(1, 9)]
            case 2:
                data[at:at] = chance.randbytes(chance.randint(1, 9))
            case 3:
                data[at : at + 4] = struct.pack(
                    "<I", chance.choice((0, 1, 8, 17, 18, 2**31, 2**32 - 1, len(data)))
                )
            case 4:
                piece = data[at : at + chance.randint(1, 64)]
                data[at:at] = piece
            case _ if data:
                data[at] ^= 1 << chance.randrange(8)
    if chance.random() < 0.9 and len(data) >= 16:
        data[8:12] = struct.pack("<I", len(data))
    return bytes(data)


def is_spec(data: bytes) -> bool:
    try:
        decode(data, faults=True)
    except MalformedSpec:
        return False
    return True


def test_both_decoders_agree_on_mutants(checked: Path) -> None:
    """Under sanitizers: a read past the end would end the launcher, and fewer verdicts would come back."""
    chance = random.Random(20)
    origins = seeds()
    mutants = [mutate(chance.choice(origins), chance) for _ in range(scaled(MUTANTS))]
    mutants += [*MALFORMED.values(), *origins]
    stream = b"".join(struct.pack("=I", len(data)) + data for data in mutants)

    done = subprocess.run([checked, "--check-specs"], input=stream, capture_output=True, check=False)

    verdicts = [line == b"ok" for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, b"")
    expected = [is_spec(data) for data in mutants]
    differing = [
        data for data, ours, theirs in zip(mutants, verdicts, expected, strict=True) if ours != theirs
    ]
    assert differing == []
    assert any(expected) and not all(expected)


@pytest.mark.thorough
def test_a_launcher_for_riscv64_reads_specs_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cross-built, and emulated; the emulator has no namespaces, so that it comes no further than that."""
    compiler, emulator = shutil.which("riscv64-linux-gnu-gcc"), shutil.which("qemu-riscv64-static")
    if compiler is None or emulator is None:
        pytest.skip("needs gcc-riscv64-linux-gnu and qemu-user-static")
    monkeypatch.setenv("CC", compiler)
    build(tmp_path / "launch", [*STRICT, "-static", "-DCORRAL_FAULTS"])
    chance = random.Random(21)
    origins = seeds()
    specs = [mutate(chance.choice(origins), chance) for _ in range(500)] + list(MALFORMED.values()) + origins
    stream = b"".join(struct.pack("=I", len(data)) + data for data in specs)

    done = subprocess.run(
        [emulator, tmp_path / "launch", "--check-specs"], input=stream, capture_output=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert [line == b"ok" for line in done.stdout.splitlines()] == [is_spec(data) for data in specs]
