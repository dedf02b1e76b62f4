"""A filter that cannot mean what its author thinks is refused, and the message names the rule."""

from __future__ import annotations

import pytest

from corral.linux.bpf import compile_filter
from corral.linux.rule import (
    ALLOW,
    EPERM,
    KILL_PROCESS,
    Action,
    Condition,
    Filter,
    Operator,
    Rule,
    Verdict,
    equal,
    fail_with,
    masked_any,
    masked_equal,
)
from corral.linux.syscalls import Arch

VOID_RULES = {
    "no architecture has": Rule("reed", EPERM, "why"),
    "must have a reason": Rule("read", EPERM, ""),
    "allows what is allowed": Rule("read", ALLOW, "why"),
    "tests argument 6": Rule("read", EPERM, "why", (equal(6, 0),)),
    "tests argument -1": Rule("read", EPERM, "why", (equal(-1, 0),)),
    "more than 32 bits: 0x100000000": Rule("read", EPERM, "why", (equal(0, 1 << 32),)),
    "more than 32 bits: 0x0, mask 0x100000000": Rule("read", EPERM, "why", (masked_any(0, 1 << 32),)),
    "needs bits and no value": Rule("read", EPERM, "why", (masked_any(0, 0),)),
    "bits outside the mask": Rule("read", EPERM, "why", (masked_equal(0, 0xF, 0x10),)),
    "takes none": Rule("read", EPERM, "why", (Condition(0, Operator.EQUAL, 1, mask=1),)),
    "errno 0 is not": Rule("read", fail_with(0), "why"),
    "errno 4096 is not": Rule("read", fail_with(4096), "why"),
    "errno 1 is not": Rule("read", Action(Verdict.KILL_PROCESS, 1), "why"),
}


@pytest.mark.parametrize("complaint", VOID_RULES)
def test_a_void_rule_is_refused_by_name(complaint: str) -> None:
    with pytest.raises(ValueError) as refusal:
        compile_filter(Filter((VOID_RULES[complaint],)), Arch.X86_64)

    assert complaint in str(refusal.value)
    assert repr(VOID_RULES[complaint].syscall) in str(refusal.value)


def test_a_filter_without_rules_is_refused() -> None:
    with pytest.raises(ValueError, match="filters nothing"):
        compile_filter(Filter(()), Arch.X86_64)


def test_a_rule_behind_an_unconditional_one_is_refused() -> None:
    rules = (Rule("read", EPERM, "all of them"), Rule("read", KILL_PROCESS, "too late", (equal(0, 1),)))

    with pytest.raises(ValueError, match=r"too late.*never reached"):
        compile_filter(Filter(rules), Arch.X86_64)


def test_an_action_for_unknown_numbers_is_checked_too() -> None:
    with pytest.raises(ValueError, match="unknown numbers: errno 0"):
        compile_filter(Filter((Rule("read", EPERM, "why"),), unknown=fail_with(0)), Arch.X86_64)
