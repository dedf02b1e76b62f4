"""Laws of the engines' form of the filter, on random calls.

- what the profile denies, the program denies too, with the same error
- what the program denies, the profile denies, except for rules with a test for being different and for
  numbers that are in no table
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from corral.linux.bpf import compile_filter
from corral.linux.filter import SocketPolicy, default_filter
from corral.linux.oci import encode_profile, expressed
from corral.linux.rule import Filter, Operator, Rule, Verdict
from corral.linux.syscalls import Arch, numbers
from support.examples import examples

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "linux"))
from bpf_reference import Call, holds, interpret

sys.path.insert(0, str(Path(__file__).parent))
from test_bpf_laws import calls, filters

_ERRNO = Verdict.ERRNO.value
_WHOLE = 0xFFFF_FFFF_FFFF_FFFF
arches = st.sampled_from(list(Arch))
DEFAULTS = [default_filter(sockets=sockets, private_ipc_by_filter=False) for sockets in SocketPolicy]


def judge(profile: dict, arch: Arch, call: Call) -> int:
    """What libseccomp makes of a profile: the error of any entry that fits, and 0 where none does."""
    names = [name for name, nr in numbers(arch).items() if nr == call.nr]
    errors = {
        entry["errnoRet"]
        for entry in profile["syscalls"]
        if entry["names"][0] in names and all(_fits(test, call) for test in entry.get("args", ()))
    }
    assert len(errors) <= 1, "entries that disagree: nobody says which of them would win"
    return next(iter(errors), 0)


def _fits(test: dict, call: Call) -> bool:
    assert test["op"] == "SCMP_CMP_MASKED_EQ"
    return call.arguments[test["index"]] & _WHOLE & test["value"] == test["valueTwo"]


def _left_out(policy: Filter, arch: Arch, call: Call) -> Rule | None:
    """The rule that decides the call and that the profile cannot say."""
    names = [name for name, nr in numbers(arch).items() if nr == call.nr]
    for rule in policy.rules:
        if rule.syscall in names and all(holds(condition, call) for condition in rule.conditions):
            return None if rule in expressed(policy, arch) else rule
    return None


def _compare(policy: Filter, arch: Arch, made: list[Call]) -> None:
    profile, program = json.loads(encode_profile(policy, arch)), compile_filter(policy, arch)
    for call in made:
        _compare_one(policy, arch, call._replace(audit=arch.audit), profile, program)


def _compare_one(policy: Filter, arch: Arch, call: Call, profile: dict, program: bytes) -> None:
    said = judge(profile, arch, call)
    code = interpret(program, call).code
    if said:
        assert code == _ERRNO | said
    elif code & 0xFFFF_0000 == _ERRNO and call.nr in numbers(arch).values():
        assert _left_out(policy, arch, call) is not None


@examples(60)
@given(st.data(), st.sampled_from(DEFAULTS), arches)
def test_the_profile_and_the_program_agree(data: st.DataObject, policy: Filter, arch: Arch) -> None:
    _compare(policy, arch, [data.draw(calls(policy, arch)) for _ in range(10)])


@examples(60)
@given(st.data(), filters(), arches)
def test_they_agree_on_any_filter(data: st.DataObject, policy: Filter, arch: Arch) -> None:
    """Errors only: a profile has no word for an exception to a rule, nor for killing."""
    rules = tuple(rule for rule in policy.rules if rule.action.verdict is Verdict.ERRNO)
    kinds = {rule.syscall: rule.action for rule in reversed(rules)}
    alike = tuple(rule for rule in rules if kinds[rule.syscall] == rule.action)
    if not alike:
        return
    _compare(Filter(alike), arch, [data.draw(calls(policy, arch)) for _ in range(5)])


def test_only_tests_for_being_different_are_left_out_of_the_default() -> None:
    policy = DEFAULTS[0]

    for arch in Arch:
        missing = [
            rule
            for rule in policy.rules
            if rule.syscall in numbers(arch) and rule not in expressed(policy, arch)
        ]
        assert {rule.syscall for rule in missing} == {"personality", "prlimit64", "socket", "socketpair"}
        for rule in missing:
            operators = {condition.operator for condition in rule.conditions}
            assert operators & {Operator.DIFFERENT, Operator.MASKED_DIFFERENT}
