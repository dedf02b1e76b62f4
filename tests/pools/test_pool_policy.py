"""A policy is not weaker for a sandbox that was made earlier, whatever the host has changed since."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from corral import FsAccess, FsRule, Pool
from corral.policy.preset import load_preset
from support.pooled import EVERY, LOCAL

PATIENCE = 60.0
#: Those that protect names in the workspace; landlock alone does not claim to.
PROTECTING = tuple(name for name in EVERY if name != "landlock")


@pytest.mark.parametrize("backend", PROTECTING)
def test_a_protected_name_that_the_host_made_meanwhile_is_protected(
    backend: str, make_sandbox, work: Path
) -> None:
    """The control: what is not protected can be changed by the same command."""
    with Pool(make_sandbox(backend), size=2) as pool:
        pool.fill(PATIENCE)
        (work / ".git/hooks").mkdir(parents=True)
        (work / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
        (work / "plain").write_text("#!/bin/sh\n")
        pool.run("echo evil >> plain; echo evil >> .git/hooks/pre-commit; echo evil > .git/hooks/other")
        stats = pool.stats()

    assert (work / "plain").read_text() == "#!/bin/sh\nevil\n"
    assert (work / ".git/hooks/pre-commit").read_text() == "#!/bin/sh\n"
    assert os.listdir(work / ".git/hooks") == ["pre-commit"]
    assert stats.stale >= 1


def test_a_protected_file_that_the_host_replaced_is_protected(make_sandbox, work: Path) -> None:
    """As editors do it: a new file, renamed over the old one. The mount of the old one protects nothing."""
    (work / ".envrc").write_text("old\n")
    with Pool(make_sandbox(), size=2) as pool:
        pool.fill(PATIENCE)
        (work / "new").write_text("new\n")
        (work / "new").rename(work / ".envrc")
        seen = pool.run("cat .envrc; echo evil >> .envrc")

    assert seen.stdout == "new\n"
    assert (work / ".envrc").read_text() == "new\n"


@pytest.mark.parametrize("backend", LOCAL[:1])
def test_a_denied_path_that_the_host_made_meanwhile_is_denied(
    backend: str, make_sandbox, tmp_path: Path
) -> None:
    """In a granted directory that commands can only read: nobody watches there while they run."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "open").write_text("open\n")
    policy = load_preset("moderate")
    policy = policy.replace(
        fs=(
            *policy.fs,
            FsRule(str(shared), FsAccess.READ),
            FsRule(str(shared / "secret"), FsAccess.DENY),
        )
    )
    with Pool(make_sandbox(backend, policy), size=2) as pool:
        pool.fill(PATIENCE)
        (shared / "secret").write_text("secret\n")
        seen = pool.run(f"cat {shared}/open {shared}/secret")
        stats = pool.stats()

    assert seen.stdout == "open\n"
    assert stats.stale >= 1


def test_a_granted_directory_that_was_replaced_is_the_new_one(
    make_sandbox, tmp_path: Path, work: Path
) -> None:
    with Pool(make_sandbox(), size=2) as pool:
        pool.fill(PATIENCE)
        work.rename(tmp_path / "moved")
        work.mkdir()
        (work / "mark").write_text("new\n")
        seen = pool.run("cat mark; echo made > made")

    assert seen.stdout == "new\n"
    assert (work / "made").exists()
    assert not (tmp_path / "moved/made").exists()


@pytest.mark.parametrize("backend", LOCAL)
def test_no_byte_reaches_a_listener_of_the_host(backend: str, make_sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, Pool(make_sandbox(backend), size=1) as pool:
        listener.settimeout(0)
        port = listener.getsockname()[1]
        line = f"echo alive; exec 3<>/dev/tcp/127.0.0.1/{port}"
        pool.fill(PATIENCE)
        result = pool.run(["/bin/bash", "-c", line])
        with pytest.raises(BlockingIOError):
            listener.accept()
        os.waitpid(os.posix_spawn("/bin/bash", ["bash", "-c", line + " >&2"], {}), 0)  # the control
        listener.settimeout(PATIENCE)
        listener.accept()[0].close()

    assert result.stdout == "alive\n"
    assert result.exit_code != 0


def test_variables_are_those_of_the_moment_of_the_run(make_sandbox, monkeypatch) -> None:
    """As for `Sandbox.run`: changed, new and removed ones; and the caller's own win."""
    sandbox = make_sandbox()
    line = 'echo "$LANG:${LC_TIME-none}"'
    monkeypatch.setenv("LANG", "first")
    monkeypatch.setenv("LC_TIME", "removed-later")
    with Pool(sandbox, size=3) as pool:
        pool.fill(PATIENCE)
        told = [pool.run(line).stdout]
        monkeypatch.setenv("LANG", "second")
        told.append(pool.run(line).stdout)
        assert pool.stats().late == 0
        told.append(pool.run(line, env={"LANG": "mine"}).stdout)
        monkeypatch.delenv("LC_TIME")
        told.append(pool.run(line).stdout)
        with pool.session() as session:
            told.append(session.run(line).stdout)

    assert told == [
        "first:removed-later\n",
        "second:removed-later\n",
        "mine:removed-later\n",
        "second:none\n",
        "second:none\n",
    ]
    assert told[-1] == sandbox.run(line).stdout


def test_a_session_of_the_pool_protects_what_is_there_now(make_sandbox, work: Path) -> None:
    with Pool(make_sandbox(), size=1) as pool:
        pool.fill(PATIENCE)
        (work / ".envrc").write_text("mine\n")
        with pool.session() as session:
            session.run("echo evil >> .envrc")

    assert (work / ".envrc").read_text() == "mine\n"


def test_what_a_command_plants_is_taken_away_while_others_run(make_sandbox, work: Path) -> None:
    """Each sandbox has a guard of its own on the one workspace: the planted name is gone, and is told."""
    with Pool(make_sandbox(), size=2, max_parallel=2) as pool:
        pool.fill(PATIENCE)
        results = []
        threads = [
            threading.Thread(target=lambda line=line: results.append(pool.run(line)))
            for line in ("mkdir -p .git/hooks; echo evil > .git/hooks/post-checkout", "echo fine")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert not (work / ".git/hooks/post-checkout").exists()
    subjects = [violation.subject for result in results for violation in result.violations]
    assert str(work / ".git/hooks/post-checkout") in subjects
