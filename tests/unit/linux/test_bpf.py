"""Compiled programs at their limits: long jumps, sharing, size, cost; and how they are printed."""

from __future__ import annotations

import struct

import pytest
from bpf_reference import Call, evaluate, interpret

from corral.linux.bpf import MAX_INSTRUCTIONS, compile_filter, disassemble
from corral.linux.rule import ALLOW, ENOSYS, EPERM, Filter, Rule, equal, fail_with, masked_any, masked_equal
from corral.linux.syscalls import Arch, numbers


def _wide_filter(tests: int) -> Filter:
    """A filter in which no two calls share anything, so that jumps must be long."""
    rules = [
        Rule(
            name,
            fail_with(1 + nr),
            "wide",
            tuple(equal(index % 6, 1000 * nr + index) for index in range(tests)),
        )
        for name, nr in numbers(Arch.X86_64).items()
    ]
    return Filter(tuple(rules))


@pytest.mark.parametrize("tests", [1, 2, 3])
def test_jumps_beyond_255_instructions_arrive(tests: int) -> None:
    policy = _wide_filter(tests)
    program = compile_filter(policy, Arch.X86_64)

    assert len(program) // 8 > 1000
    for nr in range(480):
        hit = tuple(1000 * nr + index if index < tests else 0 for index in range(6))
        for values in (hit, (*hit[: tests - 1], 7, 7, 7, 7, 7, 7)[:6]):
            call = Call(nr, Arch.X86_64.audit, values)
            assert interpret(program, call).code == evaluate(policy, Arch.X86_64, call).code


def test_a_program_that_is_too_long_for_the_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match=f"{MAX_INSTRUCTIONS} are permitted"):
        compile_filter(_wide_filter(6), Arch.X86_64)


def test_a_call_that_an_architecture_lacks_is_unknown_there() -> None:
    policy = Filter((Rule("iopl", EPERM, "x86 only"),))
    iopl = numbers(Arch.X86_64)["iopl"]  # on aarch64 this number is getpid

    on_x86 = interpret(compile_filter(policy, Arch.X86_64), Call(iopl, Arch.X86_64.audit))
    on_arm = interpret(compile_filter(policy, Arch.AARCH64), Call(iopl, Arch.AARCH64.audit))

    assert (on_x86.code, on_arm.code) == (EPERM.code, ALLOW.code)


def test_a_filter_of_one_fate_is_still_a_program() -> None:
    policy = Filter((Rule("iopl", EPERM, "x86 only"),), unknown=ALLOW)

    outcome = interpret(compile_filter(policy, Arch.AARCH64), Call(1, Arch.AARCH64.audit))

    assert outcome.code == ALLOW.code


def test_neighbours_with_one_fate_cost_no_comparison() -> None:
    """mount, umount2, swapon, swapoff and reboot are 165 to 169."""
    rules = tuple(Rule(name, EPERM, "why") for name in ("mount", "umount2", "swapon", "swapoff", "reboot"))

    together = compile_filter(Filter(rules), Arch.X86_64)
    alone = compile_filter(Filter(rules[:1]), Arch.X86_64)

    assert len(together) == len(alone)


def test_the_first_rule_that_matches_decides() -> None:
    rules = (
        Rule("ioctl", ALLOW, "an exception", (equal(1, 5), equal(0, 0))),
        Rule("ioctl", EPERM, "the five", (equal(1, 5),)),
        Rule("ioctl", ENOSYS, "the rest"),
    )
    program = compile_filter(Filter(rules), Arch.X86_64)

    def code(first: int, second: int) -> int:
        return interpret(program, Call(16, Arch.X86_64.audit, (first, second, 0, 0, 0, 0))).code

    assert [code(0, 5), code(1, 5), code(0, 6)] == [ALLOW.code, EPERM.code, ENOSYS.code]


def test_a_program_prints_as_it_runs() -> None:
    rules = (
        Rule("ptrace", EPERM, "why"),
        Rule("clone", fail_with(1000), "why", (masked_any(0, 0x7E020000), masked_equal(1, 0xF, 3))),
    )

    listing = disassemble(compile_filter(Filter(rules, unknown=ALLOW), Arch.X86_64))

    assert listing == (
        "   0 load architecture\n"
        "   1 if == 0xc000003e then 3 else 2\n"
        "   2 return kill_process\n"
        "   3 load number\n"
        "   4 if >= 101 ptrace then 7 else 5\n"
        "   5 if >= 56 clone then 6 else 17\n"
        "   6 if >= 57 fork then 17 else 11\n"
        "   7 if >= 102 getuid then 8 else 10\n"
        "   8 if >= 1073741824 then 9 else 17\n"
        "   9 return errno ENOSYS\n"
        "  10 return errno EPERM\n"
        "  11 load argument 0\n"
        "  12 if & 0x7e020000 then 13 else 17\n"
        "  13 load argument 1\n"
        "  14 and 0xf\n"
        "  15 if == 0x3 then 16 else 17\n"
        "  16 return errno 1000\n"
        "  17 return allow\n"
    )


@pytest.mark.parametrize(
    "program",
    [
        b"1234567",
        struct.pack("<HBBI", 0x16, 0, 0, 0),  # BPF_RET | BPF_A
        struct.pack("<HBBI", 0x20, 0, 0, 12),
        struct.pack("<HBBI", 0x20, 0, 0, 20),
        struct.pack("<HBBI", 0x20, 0, 0, 64),
        struct.pack("<HBBI", 0x06, 0, 0, 0x7FFC0000),
    ],
)
def test_what_the_compiler_never_writes_is_not_printed(program: bytes) -> None:
    with pytest.raises(ValueError):
        disassemble(program)
