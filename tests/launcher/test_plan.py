"""Both readers of compiled plans refuse what is not one to the letter, and nothing makes them crash."""

from __future__ import annotations

import os
import random
import struct
import subprocess
from pathlib import Path

from launching import confined

from corral.linux.compiled import (
    HEADER,
    MAGIC,
    CompiledPlan,
    EnvironmentRules,
    MalformedPlan,
    ObjectKind,
    PlanHost,
    SeenLink,
    SeenMounts,
    SeenNothing,
    SeenObject,
    SeenSilence,
    SeenStamp,
    SeenText,
    _sum,
    decode_plan,
    encode_plan,
    resolved_of,
)
from corral.linux.encode import encode
from support.examples import scaled

MUTANTS = 4000
PLAN = CompiledPlan(
    PlanHost(0, 0, "development", "boot", "kernel"),
    (
        SeenObject("/usr", ObjectKind.DIRECTORY, 0, 3, 1, 2),
        SeenNothing("/no/such", 2),
        SeenNothing("/no/such", 2, follows=True),
        SeenLink("/bin", "usr/bin"),
        SeenStamp("/etc/passwd", 1, 2, 3, 4, 5),
        SeenSilence("/pyproject.toml"),
        SeenText("/proc/self/cgroup", "0::/\n"),
        SeenMounts("/proc/self/mountinfo", "0:1 /srv\n", "0:1 / /\n"),
    ),
    EnvironmentRules(("PATH", "LC_*"), (("PATH", "/bin"),), (("HOME", "/root"), ("EMPTY", ""))),
    1000,
    resolved_of(encode(confined("true", wall_ms=1000, grace_ms=1))),
    "{}",
)


def _sealed(body: bytes, count: int) -> bytes:
    """A plan with a header that fits, whatever is in it."""
    return HEADER.pack(MAGIC, HEADER.size + len(body), count, _sum(body) ^ count) + body


def _mutants(whole: bytes) -> list[bytes]:
    """Damaged in the middle, and sealed again: what the sum would find must be harmless all the same."""
    chance = random.Random(1)
    count = HEADER.unpack_from(whole)[2]
    body = whole[HEADER.size :]
    found = []
    for _ in range(scaled(MUTANTS)):
        changed = bytearray(body)
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(changed))
            choice = chance.randrange(4)
            if choice == 0:
                changed[place] = chance.randrange(256)
            elif choice == 1:
                del changed[place : place + chance.randrange(1, 40)]
            elif choice == 2:
                changed[place:place] = chance.randbytes(chance.randrange(1, 9))
            else:
                changed[place : place + 4] = struct.pack("<I", chance.choice((0, 1, 0xFFFFFFFF, 0x7FFFFFFF)))
            changed = changed or bytearray(b"\0")
        found.append(_sealed(bytes(changed), max(0, count + chance.choice((0, 0, 0, 1, -1)))))
    return found


def _verdicts(binary: Path, plans: list[bytes]) -> list[bool]:
    """Whether the launcher takes each. It also looks at everything in it, and puts a spec together."""
    given = b"".join(struct.pack("=I", len(plan)) + plan for plan in plans)
    done = subprocess.run(
        [binary, "--check-plans"], input=given, capture_output=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(plans)
    return [line == b"ok" for line in lines]


def _is_plan(raw: bytes) -> bool:
    try:
        decode_plan(raw)
    except MalformedPlan:
        return False
    return True


def test_a_plan_is_for_the_control_groups_of_its_caller(plain: Path, tmp_path: Path) -> None:
    """A group that is made elsewhere could free a command from a limit that its caller has."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    host = PlanHost(os.getuid(), os.getgid(), "development", boot, os.uname().release)
    groups = Path("/proc/self/cgroup").read_text()
    file = tmp_path / "plan"

    codes = []
    for text in (groups, f"{groups}0::/elsewhere\n", groups[:-1], ""):
        file.write_bytes(encode_plan(PLAN.replace(host=host, seen=(SeenText("/proc/self/cgroup", text),))))
        file.chmod(0o600)
        done = subprocess.run([plain, "--check-plan", file], capture_output=True, check=False, timeout=60)
        codes.append((done.returncode == 0, b"another control group" in done.stderr))

    assert codes == [(True, False), (False, True), (False, True), (False, True)]


def test_what_is_encoded_is_what_is_decoded() -> None:
    assert decode_plan(encode_plan(PLAN)) == PLAN


def test_both_readers_agree_about_plans_that_were_tampered_with(checked: Path) -> None:
    whole = encode_plan(PLAN)
    plans = [whole, *_mutants(whole)]
    expected = [_is_plan(plan) for plan in plans]

    found = _verdicts(checked, plans)

    assert expected[0] and not all(expected)
    differing = [plans[number] for number, one in enumerate(expected) if one != found[number]]
    assert differing == []


def test_every_single_change_is_noticed(checked: Path) -> None:
    whole = encode_plan(PLAN)
    damaged = []
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << (place % 8)
        damaged.append(bytes(changed))
    damaged += [whole[:length] for length in range(len(whole))]

    assert not any(_verdicts(checked, damaged))
    assert not any(map(_is_plan, damaged))
