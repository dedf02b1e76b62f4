"""Git writes its configuration inside: what is harmless is taken over, the rest is refused by name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.keeping import wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import Corral


@pytest.fixture
def config(project: Path) -> Path:
    """The configuration of a repository with a remote and a commit."""
    git(project, "remote", "add", "origin", "https://example.invalid/a.git")
    git(project, "commit", "-q", "--allow-empty", "-m", "first")
    git(project, "update-ref", "refs/remotes/origin/main", "HEAD")
    return project / ".git/config"


def git(project: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=project, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def run(corral: Corral, line: str, **more: object) -> tuple[int, list[dict[str, str]]]:
    """The exit status, and what was observed."""
    done = corral("run", "--backend", "native", "--json", "-c", line, **more)
    told = json.loads(done.stdout)
    return told["exit_code"], [found for found in told["violations"] if found["evidence"] == "observed"]


def copies(home: Path) -> list[str]:
    place = home / ".local/state/corral/copies"
    return os.listdir(place) if place.exists() else []


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("git config user.name Somebody", "user.name", "Somebody"),
        ("git remote add up https://example.invalid/b", "remote.up.url", "https://example.invalid/b"),
        ("git branch -q --set-upstream-to origin/main", "branch.HEAD.merge", "refs/heads/main"),
        ("git checkout -q -b topic origin/main", "branch.topic.remote", "origin"),
        ("printf '[user]\\n\\tname = Appended\\n' >> .git/config", "user.name", "Appended"),
    ],
)
def test_harmless_settings_are_taken_over(
    corral: Corral, config: Path, home: Path, line: str, name: str, value: str
) -> None:
    inode, branch = config.stat().st_ino, git(config.parent, "symbolic-ref", "--short", "HEAD")

    assert run(corral, line) == (0, [])
    assert git(config.parent, "config", "--local", name.replace("HEAD", branch)) == value
    assert config.stat().st_ino == inode
    assert copies(home) == []
    assert not config.with_name("config.lock").exists()


def test_a_setting_is_removed(corral: Corral, config: Path) -> None:
    before = config.read_text()
    git(config.parent, "config", "user.name", "Somebody")

    assert run(corral, "git config --unset user.name") == (0, [])
    assert config.read_text().replace("[user]\n", "") == before


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("git config core.fsmonitor ./evil", "core.fsmonitor"),
        ("git config core.hooksPath hooks", "core.hookspath"),
        ("git remote set-url origin https://evil.invalid/a", "remote.origin.url"),
        ("git config --unset core.bare", "core.bare"),
        ("git config alias.status '!./evil'", "alias.status"),
    ],
)
def test_other_settings_are_refused_by_name(corral: Corral, config: Path, line: str, name: str) -> None:
    before = config.read_bytes()
    evil = config.parent.parent / "evil"
    evil.write_text("#!/bin/sh\ntouch ran\n")
    evil.chmod(0o755)

    status, found = run(corral, line)

    assert status == 0
    assert [violation["subject"] for violation in found] == [str(config)]
    assert name in found[0]["detail"]
    assert config.read_bytes() == before
    git(config.parent.parent, "status")
    assert not (config.parent.parent / "ran").exists()


def test_a_harmless_setting_is_taken_over_beside_another(corral: Corral, config: Path) -> None:
    before = config.read_text()

    _, found = run(
        corral, "git config user.name A; git config core.fsmonitor ./evil; git config user.email b@c"
    )

    assert len(found) == 1
    assert config.read_text() == f"{before}[user]\n\tname = A\n\temail = b@c\n"


@pytest.mark.parametrize(
    "line",
    [
        "echo x > x; mv -f x .git/config",
        "rm -f .git/config; ln -s /etc/passwd .git/config",
        "rm /.corral/git/0/config; ln -s /etc/passwd /.corral/git/0/config",
        "rm /.corral/git/0/config; mkfifo /.corral/git/0/config",
        "rm /.corral/git/0/config; mkdir -p /.corral/git/0/config/a/b; chmod 0 /.corral/git/0",
        "head -c 300000 /dev/zero > .git/config",
        "echo '[core' > .git/config",
        "chmod 0 .git/config",
        "mv .git old; mkdir .git; echo '[core] fsmonitor = evil' >> .git/config",
    ],
)
def test_whatever_is_put_in_its_place_the_file_stays(
    corral: Corral, config: Path, home: Path, line: str
) -> None:
    before, inode = config.read_bytes(), config.stat().st_ino

    run(corral, line)

    assert config.read_bytes() == before
    assert config.stat().st_ino == inode
    assert copies(home) == []


def test_what_the_host_changes_meanwhile_is_kept(corral: Corral, config: Path, project: Path) -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "corral",
            "run",
            "--backend",
            "native",
            "--json",
            "-c",
            "git config user.name Inside; touch is-set; while [ ! -e go ]; do sleep 0.01; done",
        ],
        cwd=project,
        stdout=subprocess.PIPE,
    )
    wait_until((project / "is-set").exists, "the setting is made")
    with config.open("a") as file:
        file.write("[user]\n\tname = Outside\n")
    (project / "go").touch()
    told = json.loads(child.communicate()[0])

    assert git(project, "config", "--local", "user.name") == "Outside"
    assert any("another process changed the file" in found["detail"] for found in told["violations"])


def test_two_commands_at_once_cannot_reach_the_file(corral: Corral, config: Path, project: Path) -> None:
    """That one is taken over must not take the cover off the file for the other."""
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "corral",
            "run",
            "--backend",
            "native",
            "--json",
            "-c",
            "touch is-there; while [ ! -e go ]; do sleep 0.01; done; "
            "echo '[core] fsmonitor = ./evil' >> .git/config",
        ],
        cwd=project,
        stdout=subprocess.PIPE,
    )
    wait_until((project / "is-there").exists, "the first command runs")
    assert run(corral, "git config user.name Other") == (0, [])
    (project / "go").touch()
    told = json.loads(child.communicate()[0])

    assert git(project, "config", "--local", "user.name") == "Other"
    assert "evil" not in config.read_text()
    assert told["violations"]


def test_a_corral_that_is_killed_leaves_the_file_and_its_copy_is_removed(
    corral: Corral, config: Path, project: Path, home: Path
) -> None:
    before = config.read_bytes()
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "corral",
            "run",
            "--backend",
            "native",
            "-c",
            "git config user.name Inside; touch is-set; sleep 60",
        ],
        cwd=project,
    )
    wait_until((project / "is-set").exists, "the setting is made")
    child.send_signal(signal.SIGKILL)
    child.wait()

    assert config.read_bytes() == before
    assert len(copies(home)) == 1
    wait_until(lambda: run(corral, "true") == (0, []) and copies(home) == [], "the copy is removed")
    assert config.read_bytes() == before


def test_a_running_command_keeps_its_copy_while_others_start(
    corral: Corral, config: Path, project: Path, home: Path
) -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "corral",
            "run",
            "--backend",
            "native",
            "-c",
            "touch is-there; while [ ! -e go ]; do sleep 0.01; done; git config user.name Later",
        ],
        cwd=project,
    )
    wait_until((project / "is-there").exists, "the first command runs")
    assert run(corral, "true") == (0, [])
    assert len(copies(home)) == 1
    (project / "go").touch()

    assert child.wait() == 0
    assert git(project, "config", "--local", "user.name") == "Later"


def test_every_repository_of_the_workspace_has_its_copy(corral: Corral, config: Path, project: Path) -> None:
    (project / "nested").mkdir()
    git(project / "nested", "init", "-q")

    assert run(corral, "git config user.name A; git -C nested config user.name B") == (0, [])
    assert git(project, "config", "--local", "user.name") == "A"
    assert git(project / "nested", "config", "--local", "user.name") == "B"


def test_a_linked_worktree_changes_its_repository(corral: Corral, config: Path, project: Path) -> None:
    tree = project.parent / "linked"
    git(project, "worktree", "add", "-q", "-b", "other", str(tree))

    assert run(corral, "git config user.name A", cwd=tree) == (0, [])
    assert git(project, "config", "--local", "user.name") == "A"


def test_what_is_granted_for_reading_alone_is_not_written(
    corral: Corral, config: Path, project: Path
) -> None:
    before = config.read_bytes()

    corral("run", "--backend", "native", "--read", str(project / ".git"), "-c", "git config user.name A")

    assert config.read_bytes() == before
