"""Advice: a sentence for programs that cannot work inside, and for those only."""

from __future__ import annotations

import pytest

from corral.cli.advice import advise
from corral.model.result import Enforcement, Outcome, Result, Usage
from corral.policy.compose import build_policy


def result_of(*capabilities: str, backend: str = "native", status: int = 1) -> Result:
    policy = build_policy("moderate", capabilities)
    enforcement = Enforcement(backend, {}, frozenset())
    return Result(Outcome.EXITED, status, None, b"", b"", False, 0.1, Usage(), (), enforcement, policy, "0")


@pytest.mark.parametrize(
    "command",
    [
        ("docker", "ps"),
        "docker ps",
        ("/usr/bin/docker", "ps"),
        ("sh", "-c", "docker ps"),
        ("/bin/bash", "-c", "exec docker ps"),
        ("env", "docker", "ps"),
        ("env", "-i", "A=b", "docker", "ps"),
        "env A=b docker ps",
    ],
)
def test_a_program_is_found_behind_shells_and_env(command: str | tuple[str, ...]) -> None:
    assert advise(command, result_of()).startswith("docker needs its engine's socket")


@pytest.mark.parametrize(
    ("command", "result"),
    [
        (("docker", "ps"), result_of(status=0)),
        (("docker", "ps"), result_of(backend="none")),
        (("docker", "--bogus"), result_of()),
        (("strace", "--bogus"), result_of()),
        (("strace", "ls"), result_of("process:debug")),
        (("chromium", "--no-sandbox"), result_of()),
        (("sh", "-c", "'"), result_of()),
        (("sh", "-c", ""), result_of()),
        (("env",), result_of()),
        ((), result_of()),
    ],
)
def test_nothing_is_said_where_it_would_not_be_true(command: tuple[str, ...], result: Result) -> None:
    assert advise(command, result) == ""


@pytest.mark.parametrize("command", [("strace", "ls"), ("strace", "-p", "5"), ("gdb", "--args", "ls")])
def test_a_tracer_with_something_to_trace_is_told_of_the_capability(command: tuple[str, ...]) -> None:
    assert "--cap process:debug" in advise(command, result_of())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("git submodule add https://git.example.org/x", "corral protects: add it outside"),
        (("git", "-c", "a=b", "-C", "sub", "--no-pager", "worktree", "remove", "wt"), "remove it outside"),
        ("git worktree move wt there", "move it outside"),
        ("git worktree list", ""),
        ("git -C", ""),
        ("git", ""),
    ],
)
def test_what_git_cannot_do_is_told(command: str | tuple[str, ...], said: str) -> None:
    assert (said in advise(command, result_of())) if said else advise(command, result_of()) == ""
