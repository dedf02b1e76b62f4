"""Result: what happened, in a form that programs and people can use."""

from __future__ import annotations

import json

import pytest

from corral.model.errors import CommandFailed
from corral.model.feature import Feature
from corral.model.policy import FsAccess, FsRule, Limits, Policy
from corral.model.result import Enforcement, Outcome, Result, Usage
from corral.model.violation import Evidence, Violation

GOOD = Result(
    Outcome.EXITED,
    0,
    None,
    b"out\xff",
    b"",
    False,
    0.25,
    Usage(0.25, 0.1, 0.2, 300, is_whole_tree=True, peak_pids=3, processes=5),
    (Violation(Feature.NET_NONE, "network", Evidence.INFERRED, "unreachable", "network:full"),),
    Enforcement("native", {Feature.SYSCALLS: "seccomp"}, frozenset({Feature.FS_DENY})),
    Policy(),
    "0123",
)


@pytest.mark.parametrize(
    ("changes", "status", "ok"),
    [
        ({}, 0, True),
        ({"exit_code": 3}, 3, False),
        ({"outcome": Outcome.TIMED_OUT, "exit_code": None, "signal": 9}, 124, False),
        ({"outcome": Outcome.SIGNALLED, "exit_code": None, "signal": 15}, 143, False),
        ({"outcome": Outcome.OUT_OF_MEMORY, "exit_code": None, "signal": 9}, 137, False),
        ({"outcome": Outcome.BLOCKED, "exit_code": None, "signal": 31}, 159, False),
        ({"outcome": Outcome.OUTPUT_LIMIT, "exit_code": None, "signal": None}, 137, False),
    ],
)
def test_the_exit_status_is_the_one_a_shell_would_show(changes, status: int, ok: bool) -> None:
    result = GOOD.replace(**changes)

    assert (result.exit_status, result.ok) == (status, ok)


def test_check_returns_the_result_or_raises_with_it() -> None:
    bad = GOOD.replace(exit_code=1)

    assert GOOD.check() is GOOD
    with pytest.raises(CommandFailed) as failed:
        bad.check()
    assert failed.value.result is bad


def test_the_record_is_json_and_names_everything() -> None:
    record = json.loads(json.dumps(GOOD.to_json()))

    assert record["v"] == 1
    assert record["stdout"] == "out\ufffd"
    assert record["enforcement"] == {
        "backend": "native",
        "enforced": {"syscalls": "seccomp"},
        "waived": ["fs.deny"],
        "unheld": {},
        "fallback": None,
    }
    assert record["violations"][0]["evidence"] == "inferred"
    assert record["policy"]["hash"] == Policy().digest()
    assert record["usage"] == {
        "wall_seconds": 0.25,
        "user_seconds": 0.1,
        "system_seconds": 0.2,
        "peak_memory_bytes": 300,
        "is_whole_tree": True,
        "peak_pids": 3,
        "processes": 5,
        "read_bytes": 0,
        "written_bytes": 0,
    }


def test_a_guess_is_marked_as_a_guess() -> None:
    assert "guessed" in GOOD.violations[0].describe()
    assert "'network:full'" in GOOD.violations[0].describe()


def test_the_hash_of_a_policy_follows_from_what_it_says() -> None:
    rules = (FsRule("/a", FsAccess.READ), FsRule("/b", FsAccess.WRITE))
    policy = Policy(fs=rules)

    assert policy.digest() == Policy(name="another", fs=rules[::-1]).digest()
    different = [
        policy.replace(fs=rules[:1]),
        policy.replace(limits=Limits(pids=1)),
        policy.replace(tools=True),
        policy.replace(protect=frozenset({"x"})),
        policy.replace(private=frozenset({"x"})),
        policy.replace(deny_syscalls=frozenset({"x"})),
    ]
    assert len({policy.digest(), *(other.digest() for other in different)}) == 7
