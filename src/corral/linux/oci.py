"""The system-call filter in the words of container engines: JSON, as `--security-opt seccomp=FILE` takes it.

It is made from the same rules as the BPF program, and holds from the engine's last step until the launcher
installs that program, which is the one that a policy rests on. So it says nothing that the program does not
say, and may say less. Left to the program alone:

    a test for being different      libseccomp compares 64 bits there, and the kernel reads 32 of them
    numbers that are in no table    the JSON form names calls; it has no word for all others
    what the caller leaves out      a policy's own denials and those of further processes: the launcher, which
                                    needs such calls itself, comes after the engine's filter
"""

from __future__ import annotations

from corral.linux.rule import WORD, Operator, Verdict
from corral.linux.syscalls import Arch, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.linux.rule import Condition, Filter, Rule

    _Test = dict[str, int | str]

_ARCHITECTURES = {
    Arch.X86_64: "SCMP_ARCH_X86_64",
    Arch.AARCH64: "SCMP_ARCH_AARCH64",
    Arch.RISCV64: "SCMP_ARCH_RISCV64",
}


def encode_profile(policy: Filter, arch: Arch) -> bytes:
    """Return the profile as the text of a file."""
    import json  # engines alone need it, and they take longer than this

    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        # TRUST: libseccomp kills whoever calls by another table, as the program does.
        "architectures": [_ARCHITECTURES[arch]],
        "syscalls": [entry for rule in expressed(policy, arch) for entry in _entries(rule)],
    }
    return (json.dumps(profile, indent=1) + "\n").encode()


def expressed(policy: Filter, arch: Arch) -> tuple[Rule, ...]:
    """The rules of a filter that the JSON form can say exactly.

    INVARIANT: libseccomp knows no order among the rules of one call, and here the first that fits decides.
    So a call has one error in the profile: that of its first rule.
    """
    first: dict[str, Rule] = {}
    found = []
    for rule in policy.rules:
        if number(arch, rule.syscall) is None or rule.action.verdict is not Verdict.ERRNO:
            continue
        decides = first.setdefault(rule.syscall, rule)
        if rule.action == decides.action and all(map(_is_exact, rule.conditions)):
            found.append(rule)
    return tuple(found)


def _is_exact(condition: Condition) -> bool:
    return condition.operator not in (Operator.DIFFERENT, Operator.MASKED_DIFFERENT)


def _entries(rule: Rule) -> Iterator[dict[str, object]]:
    """One entry for each way in which all conditions of the rule can hold."""
    ways: list[list[_Test]] = [[]]
    for condition in rule.conditions:
        ways = [[*way, test] for way in ways for test in _tests(condition)]
    for way in ways:
        entry: dict[str, object] = {"names": [rule.syscall], "action": "SCMP_ACT_ERRNO"}
        entry["errnoRet"] = int(rule.action.errno)
        yield {**entry, "args": way} if way else entry


def _tests(condition: Condition) -> Iterator[_Test]:
    """A test of all bits at once, or of one bit each where any of them is enough."""
    pairs = [(condition.mask if condition.operator is Operator.MASKED_EQUAL else WORD, condition.value)]
    if condition.operator is Operator.MASKED_ANY:
        pairs = [(1 << bit, 1 << bit) for bit in range(32) if condition.mask >> bit & 1]
    for mask, value in pairs:
        op = "SCMP_CMP_MASKED_EQ"
        yield {"index": condition.argument, "value": mask, "valueTwo": value, "op": op}
