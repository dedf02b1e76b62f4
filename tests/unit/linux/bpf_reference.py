"""An interpreter of classic BPF as seccomp runs it, written from the kernel's documentation and not from
the compiler, and a reading of a filter rule by rule. The two must agree on every call.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from corral.linux.rule import ALLOW, ENOSYS, KILL_PROCESS, Action, Condition, Filter, Operator
from corral.linux.syscalls import Arch, numbers

WORD = 0xFFFF_FFFF


class Call(NamedTuple):
    """struct seccomp_data."""

    nr: int
    audit: int
    arguments: tuple[int, ...] = (0, 0, 0, 0, 0, 0)

    def encode(self) -> bytes:
        return struct.pack("<IIQ6Q", self.nr, self.audit, 0x7F00_DEAD_BEEF, *self.arguments)


class Outcome(NamedTuple):
    code: int
    steps: int


def interpret(program: bytes, call: Call) -> Outcome:
    """Run the program; whatever the kernel's checker would refuse is an error here too."""
    instructions = list(struct.iter_unpack("<HBBI", program))
    memory = call.encode()
    accumulator = at = steps = 0
    while True:
        steps += 1
        operation, yes, no, k = instructions[at]  # IndexError: it ran off the end
        at += 1
        if operation == 0x20:
            assert k % 4 == 0 and k <= 60
            (accumulator,) = struct.unpack_from("<I", memory, k)
        elif operation == 0x54:
            accumulator &= k
        elif operation == 0x05:
            at += k
        elif operation == 0x15:
            at += yes if accumulator == k else no
        elif operation == 0x35:
            at += yes if accumulator >= k else no
        elif operation == 0x45:
            at += yes if accumulator & k else no
        elif operation == 0x06:
            return Outcome(k, steps)
        else:
            raise AssertionError(f"operation {operation:#x} is not one that seccomp knows")


def evaluate(policy: Filter, arch: Arch, call: Call) -> Action:
    """What the filter says, read as its documentation says it is meant."""
    if call.audit != arch.audit:
        return KILL_PROCESS
    if arch is Arch.X86_64 and call.nr >= 0x4000_0000:
        return ENOSYS
    names = [name for name, nr in numbers(arch).items() if nr == call.nr]
    if not names:
        return policy.unknown
    for rule in policy.rules:
        if rule.syscall in names and all(holds(condition, call) for condition in rule.conditions):
            return rule.action
    return ALLOW


def holds(condition: Condition, call: Call) -> bool:
    low = call.arguments[condition.argument] & WORD
    return {
        Operator.EQUAL: low == condition.value,
        Operator.DIFFERENT: low != condition.value,
        Operator.MASKED_ANY: low & condition.mask != 0,
        Operator.MASKED_EQUAL: low & condition.mask == condition.value,
        Operator.MASKED_DIFFERENT: low & condition.mask != condition.value,
    }[condition.operator]
