"""What is guessed from the words of a command, and marked as a guess."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.plan import Grant, PathKind, ResolvedPath, Shield
from corral.model.policy import FsAccess
from corral.model.result import Outcome
from corral.model.violation import Evidence, Violation
from corral.runtime.violations import collect


@pytest.mark.parametrize(
    "words",
    [
        b"warning: ptrace: Operation not permitted\n",
        b"strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted\n",
    ],
)
def test_a_debugger_that_may_not_trace_is_guessed(make_plan, words) -> None:
    plan = make_plan()
    (violation,) = collect(plan, Outcome.EXITED, (), words)

    assert (violation.subject, violation.hint) == ("ptrace", "process:debug")
    assert collect(plan.replace(resolved=plan.resolved.replace(debug=True)), Outcome.EXITED, (), words) == ()


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        (b"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?\n", "docker"),
        (b"[3:3:ERROR:zygote.cc:130] No usable sandbox! If this is Debian\n", "the browser's own sandbox"),
    ],
)
def test_programs_that_cannot_work_inside_are_guessed(make_plan, words, subject) -> None:
    (violation,) = collect(make_plan(), Outcome.EXITED, (), words)

    assert (violation.subject, violation.evidence) == (subject, Evidence.INFERRED)


@pytest.mark.parametrize("words", [b"sh: 0: Cannot fork\n", b"bash: fork: Operation not permitted\n"])
def test_a_process_that_could_not_be_started_is_guessed_where_none_is_granted(make_plan, words) -> None:
    plan = make_plan()
    single = plan.replace(resolved=plan.resolved.replace(spawn=False))
    (violation,) = collect(single, Outcome.EXITED, (), words)

    assert (violation.feature, violation.evidence) == (Feature.PROC_SINGLE, Evidence.INFERRED)
    assert violation.hint == "process:spawn"
    assert collect(plan, Outcome.EXITED, (), words) == ()


def _read_only(path: str, *, is_system: bool = False) -> Grant:
    target = ResolvedPath(path, path, PathKind.DIRECTORY)
    return Grant(target, FsAccess.READ, is_system=is_system)


@pytest.mark.parametrize(
    ("words", "feature", "subject", "hint"),
    [
        ("cat: /data/x: Permission denied", "fs.read", "/data/x", "filesystem:read:/data/x"),
        ("open /data/x: permission denied", "fs.read", "/data/x", "filesystem:read:/data/x"),
        ("PermissionError: [Errno 13] Permission denied: '/data/x'", "fs.read", "/data/x", None),
        ("Error: EACCES: permission denied, open '/data/x y'", "fs.read", "/data/x y", None),
        ("sh: 1: cannot create /data/x: Permission denied", "fs.write", "/data/x", "filesystem:write:/data"),
        ("touch: cannot touch '/docs/no/x': Read-only file system", "fs.write", "/docs/no/x", None),
        (
            "mkdir: cannot create directory \u2018/docs/x\u2019: Read-only file system",
            "fs.write",
            "/docs/x",
            None,
        ),
        ("/bin/sh: 1: cannot create /usr/x: Read-only file system", "fs.write", "/usr/x", ""),
        (
            "sh: 1: cannot create /data/x y: Permission denied",
            "fs.write",
            "/data/x y",
            "filesystem:write:/data",
        ),
        ("cat: /data/*: Permission denied", "fs.read", "/data/*", "filesystem:read:/data/\\*"),
        ("cat: /data/a\x1b[2J: Permission denied", "fs.read", "/data/a\x1b[2J", ""),
        ('sudo: The "no new privileges" flag is set', "privileges", "sudo", ""),
        ("mount: /mnt: permission denied.", "privileges", "mount", ""),
    ],
)
def test_a_denial_is_explained_by_the_plan(make_plan, words, feature, subject, hint) -> None:
    plan = make_plan(cwd="/w", writable=("/w",))
    grants = (*plan.resolved.grants, _read_only("/docs"), _read_only("/usr", is_system=True))
    plan = plan.replace(resolved=plan.resolved.replace(grants=grants, home="/home/u"))
    (found,) = collect(plan, Outcome.EXITED, (), words.encode())

    assert (found.feature.value, found.subject, found.evidence) == (feature, subject, Evidence.INFERRED)
    assert hint is None or found.hint == hint


@pytest.mark.parametrize(
    "words",
    [
        "memory limit exceeded",
        "/bin/sh: 1: ./script: Permission denied",
        "/usr/bin/tool: Permission denied",
        "bash: /w/script.sh: Permission denied",
        "Permission denied (publickey).",
        "Permission denied",
    ],
)
def test_what_is_not_the_plans_doing_is_not_explained(make_plan, words) -> None:
    assert collect(make_plan(cwd="/w", writable=("/w",)), Outcome.EXITED, (), words.encode()) == ()


@pytest.mark.parametrize(
    "words", ["cat: {}: Permission denied", "touch: cannot touch '{}': Permission denied"]
)
def test_a_guess_does_not_tell_whether_an_ungranted_path_exists(make_plan, tmp_path, words) -> None:
    (tmp_path / "aa").write_text("secret")
    told = {
        name: collect(make_plan(), Outcome.EXITED, (), words.format(tmp_path / name).encode())[0]
        for name in ("aa", "bb")
    }

    assert told["bb"].hint == told["aa"].hint.replace("aa", "bb")
    assert told["bb"].detail == told["aa"].detail


def test_a_protected_name_is_named_once_and_a_directory_that_holds_one_too(make_plan) -> None:
    hooks, top = ("/w/.git/hooks", "/w/.git")
    plan = make_plan(
        cwd="/w",
        writable=("/w",),
        shields=(Shield(ResolvedPath(hooks, hooks, PathKind.DIRECTORY)),),
    ).replace(pins=(ResolvedPath(top, top, PathKind.DIRECTORY),))
    words = (
        b"rm: cannot remove '.git/hooks/a': Read-only file system\n"
        b"rm: cannot remove '.git/hooks/b': Read-only file system\n"
        b"mv: cannot move '.git' to 'g': Device or resource busy\n"
    )
    found = collect(plan, Outcome.EXITED, (), words)

    assert [(one.feature, one.subject) for one in found] == [
        (Feature.FS_PROTECT, hooks),
        (Feature.FS_PROTECT, top),
    ]
    assert all(one.hint == "waive:fs.protect" and one.risk for one in found)


def test_what_the_gateway_saw_is_not_guessed_besides(make_plan) -> None:
    seen = Violation(Feature.NET_DOMAINS, "x.test", Evidence.OBSERVED, "no rule")
    words = b"curl: (6) Could not resolve host: x.test\n"

    assert collect(make_plan(), Outcome.EXITED, (seen,), words) == (seen,)
    assert [one.hint for one in collect(make_plan(), Outcome.EXITED, (), words)] == [""]
