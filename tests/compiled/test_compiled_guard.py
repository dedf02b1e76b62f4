"""`corral compile -p moderate`: names are guarded, repositories held, and none is made, without Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.plan_stage import Stage


def git(stage: Stage, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "safe.directory=*")
    subprocess.run(["git", *who, *arguments], cwd=stage.project, check=True, capture_output=True)


@pytest.fixture
def moderate(stage: Stage) -> Stage:
    """A project with a repository, and one further down; the plan is compiled."""
    git(stage, "init", "-q", ".")
    git(stage, "add", ".")
    git(stage, "commit", "-qm", "first")
    (stage.project / "a/b/c/d/e").mkdir(parents=True)
    git(stage, "init", "-q", "a/b/c/d/e/deep")
    stage.own(stage.project)
    stage.compile("-p", "moderate")
    return stage


def kept(stage: Stage) -> list[str]:
    place = stage.home / ".local/state/corral/quarantine"
    return sorted(path.name for path in place.glob("plan-*/*"))


def test_what_is_planted_is_taken_away_and_told(moderate: Stage) -> None:
    done = moderate.run("sh", "-c", "echo evil > .envrc; echo fine > result; exit 3")

    assert done.returncode == 3
    assert not (moderate.project / ".envrc").exists()
    assert (moderate.project / "result").read_text() == "fine\n"
    assert kept(moderate) == ["0-.envrc"]
    assert "corral: fs.protect: " in done.stderr.decode() and "0-.envrc" in done.stderr.decode()


def test_whoever_keeps_trying_is_ended(moderate: Stage) -> None:
    done = moderate.run("sh", "-c", "while :; do echo evil > .envrc; done 2> /dev/null")

    assert done.returncode == 128 + 9
    assert "(blocked)" in done.stderr.decode()


@pytest.mark.parametrize("repository", [".git", "a/b/c/d/e/deep/.git"])
def test_repositories_cannot_be_changed(moderate: Stage, repository: str) -> None:
    tree = moderate.project / repository
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    script = f"cd {repository}; echo evil >> config; echo evil > new; rm -rf hooks HEAD; cd ..; mv .git x"

    moderate.run("sh", "-c", f"{script}; true")

    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


MADE = {
    "by git": "git init -q new",
    "at once": "mkdir -p new/.git; echo evil > new/.git/config",
    "a file": "mkdir new; echo gitdir: ../elsewhere > new/.git",
    "a link": "mkdir new; ln -s ../elsewhere new/.git",
    "bare": "mkdir -p new/x/objects new/x/refs; echo ref: refs/heads/m > new/x/HEAD",
    "with its rest elsewhere": "mkdir -p new/y/objects new/y/refs new/x; echo ../y > new/x/commondir;"
    " echo ref: refs/heads/m > new/x/HEAD",
    "in another case": "mkdir -p new/.GIT",
    "closed": "git init -q new; chmod 000 new/.git new",
    "among packages": "mkdir -p node_modules/x; git init -q node_modules/x",
    "deep": "i=0; while [ $i -lt 210 ]; do mkdir d; cd d; i=$((i+1)); done; mkdir .git",
}


@pytest.mark.parametrize("script", MADE.values(), ids=MADE)
def test_a_repository_that_a_command_makes_does_not_stay(moderate: Stage, script: str) -> None:
    done = moderate.run("sh", "-c", f"{script}; true")

    assert done.returncode == 0, done.stderr
    walked = [path for path in os.walk(moderate.project) if "/.git" not in path[0]]
    made = [path for path, names, files in walked if is_repository({*names, *files})]
    assert made == [str(moderate.project), str(moderate.project / "a/b/c/d/e/deep")]
    assert "corral: fs.protect: " in done.stderr.decode()


def is_repository(names: set[str]) -> bool:
    folded = {name.lower() for name in names}
    return ".git" in folded or folded >= {"head", "objects", "refs"} or folded >= {"head", "commondir"}


LINKS = {
    "outside": ("ln -s /etc made", False),
    "above": ("ln -s ../.. made", False),
    "to nowhere": ("ln -s /nowhere/at/all made", False),
    "by /proc": ("ln -s /proc/self/cwd made", False),
    "to hooks": ("ln -s .git/hooks made", False),
    "inside": ("mkdir dir; ln -s dir made", True),
    "to a file": ("ln -s /etc/hostname made", True),
    "moved with its directory": ("mv far/in moved; mv moved made", False),
}


@pytest.mark.parametrize(("script", "stays"), LINKS.values(), ids=LINKS)
def test_links_that_lead_git_elsewhere_do_not_stay(moderate: Stage, script: str, stays: bool) -> None:
    (moderate.project / "far/in").mkdir(parents=True)
    (moderate.project / "far/in/up").symlink_to("../..")
    (moderate.project / "own").symlink_to("/usr")
    moderate.own(moderate.project / "far")

    moderate.run("sh", "-c", script)

    made = moderate.project / "made"
    assert os.path.lexists(made / "up" if script.startswith("mv") else made) is stays
    assert os.readlink(moderate.project / "own") == "/usr"


def test_nothing_stays_that_git_would_write_through_or_wait_for(moderate: Stage) -> None:
    (moderate.project / "1").symlink_to("/etc/hostname")

    done = moderate.run(
        "sh", "-c", "mkdir d; ln -s /etc/hostname d/0001-fix.patch; mkfifo d/.gitattributes; ls d"
    )

    assert done.stdout == b"0001-fix.patch\n"
    assert os.listdir(moderate.project / "d") == []
    assert (moderate.project / "1").is_symlink()  # the host's own


def test_a_plan_stays_valid_when_files_and_directories_come_and_go(moderate: Stage) -> None:
    assert moderate.run("sh", "-c", "mkdir -p new/dir; touch new/file; rm data").returncode == 0
    (moderate.project / "hosts/own").mkdir(parents=True)

    git(moderate, "add", "new")
    git(moderate, "commit", "-qm", "more")

    assert moderate.run("echo", "ran").stdout == b"ran\n"


def test_a_repository_that_the_host_makes_outdates_the_plan(moderate: Stage) -> None:
    git(moderate, "init", "-q", "later")
    moderate.own(moderate.project / "later")

    done = moderate.run("touch", "ran")

    assert done.returncode == 125
    assert "the plan is out of date" in done.stderr.decode() and "later/.git" in done.stderr.decode()
    assert not (moderate.project / "ran").exists()
    moderate.compile("-p", "moderate")
    assert moderate.run("touch", "ran").returncode == 0


def test_a_protected_name_that_the_host_makes_outdates_the_plan(moderate: Stage) -> None:
    (moderate.project / ".envrc").write_text("the host's")

    done = moderate.run("touch", "ran")

    assert done.returncode == 125
    assert "the plan is out of date" in done.stderr.decode()
    assert (moderate.project / ".envrc").read_text() == "the host's"


def test_when_the_caller_is_killed_the_launcher_sweeps(moderate: Stage) -> None:
    """Its front is: the supervisor sees the end of the lifeline."""
    fifo = moderate.project / "ready"
    os.mkfifo(fifo)
    moderate.own(fifo)
    line = moderate.line("sh", "-c", "echo go > ready; exec sleep 1000")
    front = subprocess.Popen(line, cwd=moderate.project, env=moderate.environment(), stderr=subprocess.PIPE)
    assert fifo.read_text() == "go\n"

    front.kill()
    front.wait()

    assert front.stderr is not None
    assert front.stderr.read() == b""  # which ends with the last process
    assert not Path(moderate.project / ".envrc").exists()


def test_a_directory_that_nobody_can_search_is_refused(stage: Stage) -> None:
    if stage.user == 0:
        pytest.skip("no mode is in the way of root")
    (stage.project / "closed").mkdir()
    closed = stage.own(stage.project / "closed")
    closed.chmod(0)

    done = stage.corral("compile", "-p", "moderate", "-o", str(stage.plan))

    assert done.returncode != 0
    assert not stage.plan.exists()
    closed.chmod(0o700)
