"""The words of a system-call filter: a condition, a rule of conditions, a filter of rules.

All conditions of a rule must hold (and); the first rule that matches decides (or); a call that no
rule matches is allowed; a number that the kernel's table had not when corral was written is not
(see `Filter.unknown`). `bpf.py` compiles a filter, `filter.py` holds the default one.
"""

from __future__ import annotations

from enum import Enum, IntEnum

from corral.model.record import Record

WORD = 0xFFFF_FFFF
LAST_ERRNO = 4095  # the kernel turns larger values into this one


class Errno(IntEnum):
    """Linux's numbers, alike wherever corral filters; the `errno` module has the host's, perhaps macOS's."""

    EPERM = 1
    EACCES = 13
    ENOSYS = 38
    ENOPROTOOPT = 92
    EPROTONOSUPPORT = 93
    EOPNOTSUPP = 95
    EAFNOSUPPORT = 97


class Verdict(Enum):
    """What the kernel does with a call; the value is the upper half of seccomp's return value."""

    ALLOW = 0x7FFF_0000
    ERRNO = 0x0005_0000
    KILL_PROCESS = 0x8000_0000
    TRACE = 0x7FF0_0000  # the tracer sees it; without one the call fails
    NOTIFY = 0x7FC0_0000  # the supervisor is asked, and answers with the errno; 0: the call goes on


class Action(Record):
    verdict: Verdict
    errno: int = 0  # of ERRNO and NOTIFY only

    @property
    def code(self) -> int:
        """The value that the filter returns to the kernel (linux/seccomp.h)."""
        return int(self.verdict.value) | self.errno


ALLOW = Action(Verdict.ALLOW)
KILL_PROCESS = Action(Verdict.KILL_PROCESS)


def fail_with(errno: int) -> Action:
    """The call is not made and returns this error."""
    return Action(Verdict.ERRNO, errno)


EPERM = fail_with(Errno.EPERM)
ENOSYS = fail_with(Errno.ENOSYS)


class Operator(Enum):
    EQUAL = "=="
    DIFFERENT = "!="
    MASKED_ANY = "& mask"  # some bit of the mask is set
    MASKED_EQUAL = "& mask =="
    MASKED_DIFFERENT = "& mask != value"


class Condition(Record):
    """A test of one argument: of its low 32 bits, because that is all the kernel reads of an int.

    INVARIANT: never test a pointer or a size for being zero this way: 0x1_0000_0000 would pass.
    """

    argument: int
    operator: Operator
    value: int = 0
    mask: int = WORD


def equal(argument: int, value: int) -> Condition:
    return Condition(argument, Operator.EQUAL, value)


def different(argument: int, value: int) -> Condition:
    return Condition(argument, Operator.DIFFERENT, value)


def masked_any(argument: int, mask: int) -> Condition:
    return Condition(argument, Operator.MASKED_ANY, 0, mask)


def masked_equal(argument: int, mask: int, value: int) -> Condition:
    return Condition(argument, Operator.MASKED_EQUAL, value, mask)


def masked_different(argument: int, mask: int, value: int) -> Condition:
    return Condition(argument, Operator.MASKED_DIFFERENT, value, mask)


class Rule(Record):
    syscall: str
    action: Action
    reason: str
    conditions: tuple[Condition, ...] = ()  # none: every call matches

    def __str__(self) -> str:
        return f"the rule on {self.syscall!r} ({self.reason or 'without a reason'})"


class Filter(Record):
    rules: tuple[Rule, ...]
    unknown: Action = ENOSYS
    """For numbers that are in no table of ours: a deny-list must not let the next kernel's
    io_uring through. Programs meet ENOSYS on every older kernel and know what to do."""


def check_filter(policy: Filter) -> None:
    """Raise ValueError for a filter that cannot mean what its author thinks, naming the rule."""
    if not policy.rules:
        raise ValueError("a filter without rules filters nothing")
    decided: set[str] = set()
    for rule in policy.rules:
        if rule.syscall in decided:
            raise ValueError(f"{rule} is never reached: an earlier rule decides every such call")
        check_rule(rule)
        if not rule.conditions:
            decided.add(rule.syscall)
    _check_action(policy.unknown, "the action for unknown numbers")


def check_rule(rule: Rule) -> None:
    """Raise ValueError for a rule that is void by itself; whether the call exists, the compiler finds out."""
    if not rule.reason:
        raise ValueError(f"{rule} must have a reason")
    if not rule.conditions and rule.action == ALLOW:
        raise ValueError(f"{rule} allows what is allowed without it")
    _check_action(rule.action, rule)
    for condition in rule.conditions:
        _check_condition(condition, rule)


def _check_action(action: Action, owner: Rule | str) -> None:
    lowest = 1 if action.verdict is Verdict.ERRNO else 0
    highest = LAST_ERRNO if action.verdict in {Verdict.ERRNO, Verdict.NOTIFY} else 0
    if not lowest <= action.errno <= highest:
        raise ValueError(f"{owner}: errno {action.errno} is not between {lowest} and {highest}")


def _check_condition(condition: Condition, rule: Rule) -> None:
    value, mask = condition.value, condition.mask
    if not 0 <= condition.argument <= 5:
        raise ValueError(f"{rule} tests argument {condition.argument}; there are 0 to 5")
    if not (0 <= value <= WORD and 0 <= mask <= WORD):
        raise ValueError(f"{rule} tests for more than 32 bits: {value:#x}, mask {mask:#x}")
    match condition.operator:
        case Operator.EQUAL | Operator.DIFFERENT if mask != WORD:
            raise ValueError(f"{rule} has a mask on an operator that takes none")
        case Operator.MASKED_ANY if value or not mask:
            raise ValueError(f"{rule} tests for any bit of the mask {mask:#x}, which needs bits and no value")
        case Operator.MASKED_EQUAL | Operator.MASKED_DIFFERENT if value & ~mask:
            raise ValueError(f"{rule} tests for {value:#x}, which has bits outside the mask {mask:#x}")
