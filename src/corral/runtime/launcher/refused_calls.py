"""Say why the filter has refused a call, from what the kernel told the launcher's supervisor of it."""

from __future__ import annotations

import os

from corral.linux.filter import DEBUGGING_CALLS, DEFAULT_RULES, SCHEDULING_RULES, SINGLE_PROCESS_RULES
from corral.linux.rule import WORD, Operator
from corral.linux.syscalls import Arch, numbers
from corral.model.feature import Feature
from corral.model.printable import quoted
from corral.model.violation import Evidence, Violation
from corral.runtime.launcher.traced_calls import explain_traced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.linux.rule import Condition, Rule
    from corral.model.plan import Plan
    from corral.runtime.status import RefusedCall, Status


class RefusedCalls:
    """What a status has of them, each as a violation, once."""

    def __init__(self, plan: Plan, status: Status) -> None:
        self._plan = plan
        self._status = status
        self._told: list[Violation] = []
        self._traced = 0  # how many of those that were traced are told

    def take_new(self) -> Iterator[Violation]:
        """Those that came since it was last asked."""
        for call in self._status.refused[len(self._told) :]:
            self._told.append(explain_call(self._plan, call))
            yield self._told[-1]
        new, self._traced = self._status.traced[self._traced :], len(self._status.traced)
        for call in new:
            if (found := explain_traced(self._plan, call)) is not None:
                yield found

    def repeated(self) -> Iterator[Violation]:
        """In the end: each as often as it came again."""
        for call, violation in zip(self._status.refused, self._told, strict=False):
            for _ in range(min(self._status.times.get(call.number, 1), _MOST_TIMES) - 1):
                yield violation


#: More of one call are not counted.
_MOST_TIMES = 100_000


def explain_call(plan: Plan, call: RefusedCall) -> Violation:
    """Which rule it was, and what would permit the call, if something should."""
    arch = Arch(os.uname().machine)
    name = next((name for name, nr in numbers(arch).items() if nr == call.number), f"call {call.number}")
    rule = next(
        (rule for rule in _rules(plan) if rule.syscall == name and _matches(rule, call.arguments)), None
    )
    reason = "the policy denies this system call" if rule is None else rule.reason
    claims = ", ".join(quoted(claim) for claim in call.claims if claim)
    detail = f"{reason}; given, as it claims: {claims}" if claims else reason
    if rule in SINGLE_PROCESS_RULES:
        return Violation(Feature.PROC_SINGLE, name, Evidence.OBSERVED, detail, "process:spawn")
    can_debug = name in DEBUGGING_CALLS and name not in plan.resolved.deny_syscalls and plan.resolved.spawn
    hint = "process:debug" if can_debug and not plan.resolved.debug else ""
    return Violation(Feature.SYSCALLS, name, Evidence.OBSERVED, detail, hint)


def _rules(plan: Plan) -> tuple[Rule, ...]:
    denied = plan.resolved.deny_syscalls
    rules = (*DEFAULT_RULES, *SCHEDULING_RULES, *(() if plan.resolved.spawn else SINGLE_PROCESS_RULES))
    decided = {rule.syscall for rule in rules if not rule.conditions}
    return tuple(rule for rule in rules if rule.syscall in decided or rule.syscall not in denied)


def _matches(rule: Rule, arguments: tuple[int, ...]) -> bool:
    return all(_holds(condition, arguments[condition.argument] & WORD) for condition in rule.conditions)


def _holds(condition: Condition, word: int) -> bool:
    masked = word & condition.mask
    match condition.operator:
        case Operator.EQUAL | Operator.MASKED_EQUAL:
            return masked == condition.value
        case Operator.DIFFERENT | Operator.MASKED_DIFFERENT:
            return masked != condition.value
        case Operator.MASKED_ANY:
            return masked != 0
