"""Laws of the filter compiler, on random filters and random calls.

- a program and the filter it was compiled from agree on every call
- what the high halves of the arguments hold has no say
- a foreign architecture is killed, a foreign ABI is not served
- the program is one that the kernel accepts, and the disassembler reads all of it
- the listing that golden files hold says no less than the disassembly
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from corral.linux.bpf import compile_filter, disassemble
from corral.linux.filter import SocketPolicy, default_filter
from corral.linux.rule import (
    ALLOW,
    ENOSYS,
    KILL_PROCESS,
    Condition,
    Filter,
    Rule,
    different,
    equal,
    fail_with,
    masked_any,
    masked_different,
    masked_equal,
)
from corral.linux.syscalls import Arch, numbers
from support.examples import examples
from support.filter_listing import to_disassembly, to_listing

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "linux"))
from bpf_reference import Call, evaluate, interpret

WORD = 0xFFFF_FFFF
NAMES = sorted({*numbers(Arch.X86_64), *numbers(Arch.AARCH64)})
EDGES = [0, 1, 2, 0x3FFF_FFFF, 0x4000_0000, 0x4000_0065, 0x7FFF_FFFF, 0x8000_0000, WORD]

#: Few values, so that conditions meet the arguments they test for.
words = st.one_of(st.sampled_from([*EDGES, 3, 10, 16]), st.integers(0, WORD))
arguments = st.tuples(*[st.builds(lambda low, high: high << 32 | low, words, words)] * 6)
arches = st.sampled_from(list(Arch))
actions = st.one_of(st.just(KILL_PROCESS), st.just(ALLOW), st.builds(fail_with, st.integers(1, 4095)))


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    argument, value, mask = draw(st.integers(0, 5)), draw(words), draw(words.filter(bool))
    return draw(
        st.sampled_from(
            [
                equal(argument, value),
                different(argument, value),
                masked_any(argument, mask),
                masked_equal(argument, mask, value & mask),
                masked_different(argument, mask, value & mask),
            ]
        )
    )


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True))
    rules: list[Rule] = []
    for name in names:
        for tests in draw(st.lists(st.lists(conditions(), min_size=1, max_size=4), max_size=3)):
            rules.append(Rule(name, draw(actions), "a condition", tuple(tests)))
        if draw(st.booleans()):
            rules.append(Rule(name, draw(actions.filter(lambda action: action != ALLOW)), "always"))
    assume(rules)
    return Filter(tuple(rules), draw(actions))


@st.composite
def calls(draw: st.DrawFn, policy: Filter, arch: Arch) -> Call:
    ruled = [numbers(arch)[rule.syscall] for rule in policy.rules if rule.syscall in numbers(arch)]
    near = sorted({nr + step for nr in ruled for step in (-1, 0, 1) if nr + step >= 0}) or [0]
    nr = draw(st.one_of(st.sampled_from(near), st.integers(0, 600), words))
    audit = draw(st.one_of(st.just(arch.audit), arches.map(lambda other: other.audit), words))
    return Call(nr, audit, draw(arguments))


@given(st.data(), filters(), arches)
def test_a_program_agrees_with_its_filter(data: st.DataObject, policy: Filter, arch: Arch) -> None:
    program = compile_filter(policy, arch)
    for _ in range(5):
        call = data.draw(calls(policy, arch))

        assert interpret(program, call).code == evaluate(policy, arch, call).code


DEFAULTS = [
    default_filter(sockets=sockets, private_ipc_by_filter=True, watched_memory=watched, stopped=stopped)
    for sockets in SocketPolicy
    for watched, stopped in ((False, False), (True, False), (False, True), (True, True))
]


@examples(50)
@given(st.data(), st.sampled_from(DEFAULTS), arches)
def test_the_default_filter_agrees_with_its_table(data: st.DataObject, policy: Filter, arch: Arch) -> None:
    program = compile_filter(policy, arch)
    for _ in range(10):
        call = data.draw(calls(policy, arch))

        assert interpret(program, call).code == evaluate(policy, arch, call).code


@given(st.data(), arches, arguments)
def test_the_high_half_of_an_argument_changes_nothing(
    data: st.DataObject, arch: Arch, values: tuple[int, ...]
) -> None:
    policy = default_filter(sockets=SocketPolicy.NAMESPACED, private_ipc_by_filter=True)
    program = compile_filter(policy, arch)
    nr = data.draw(st.integers(0, 500))
    low = tuple(value & WORD for value in values)

    assert (
        interpret(program, Call(nr, arch.audit, values)).code
        == interpret(program, Call(nr, arch.audit, low)).code
    )


@examples(40)
@given(filters(), arches, words, words, arguments)
def test_a_foreign_architecture_is_killed_whatever_it_calls(
    policy: Filter, arch: Arch, nr: int, audit: int, values: tuple[int, ...]
) -> None:
    assume(audit != arch.audit)
    program = compile_filter(policy, arch)

    assert interpret(program, Call(nr, audit, values)).code == KILL_PROCESS.code


@given(st.integers(0x4000_0000, WORD), arguments)
def test_the_x32_table_is_not_served_even_if_unknown_numbers_are(nr: int, values: tuple[int, ...]) -> None:
    program = compile_filter(Filter((Rule("read", KILL_PROCESS, "a reason"),), unknown=ALLOW), Arch.X86_64)

    assert interpret(program, Call(nr, Arch.X86_64.audit, values)).code == ENOSYS.code


@examples(60)
@given(filters(), arches)
def test_every_program_is_acceptable_to_the_kernel(policy: Filter, arch: Arch) -> None:
    """seccomp_check_filter and bpf_check_classic: known operations, aligned loads, jumps that stay inside."""
    program = compile_filter(policy, arch)
    instructions = list(struct.iter_unpack("<HBBI", program))

    assert 1 <= len(instructions) <= 4096
    assert instructions[-1][0] == 0x06
    for at, (operation, yes, no, operand) in enumerate(instructions):
        jumps = {0x05: [operand], 0x15: [yes, no], 0x35: [yes, no], 0x45: [yes, no]}.get(operation, [])
        assert all(at + 1 + jump < len(instructions) for jump in jumps)
        assert jumps or (yes, no) == (0, 0)
    assert disassemble(program).count("\n") == len(instructions)


@examples(30)
@given(st.one_of(filters(), st.sampled_from(DEFAULTS)), arches)
def test_a_disassembly_can_be_had_back_from_its_listing(policy: Filter, arch: Arch) -> None:
    text = disassemble(compile_filter(policy, arch))

    assert to_disassembly(to_listing(text)) == text
