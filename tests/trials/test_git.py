"""What a trial committed is brought over by git: as objects and references, never as files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.model.errors import PolicyError, SetupError
from support.git_programs import DATES, git, said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.trial import Trial

_MANY = """
echo more >> README; git commit -qam second; git checkout -q -b topic
echo x > c; git add c; git commit -qm third; git branch -qD gone; git tag v1; git tag -am a v2
echo s > README; git stash -q; echo t > README; git stash -q -m two
echo staged > d; git add d; echo ita > e; git add -N e; echo dirty >> c
git rm -q old/notes; git pack-refs --all
"""


@pytest.fixture
def work(work: Path) -> Path:
    git(work, "init", "-q", "-b", "main")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")
    git(work, "branch", "gone")
    return work


def _run(trial: Trial, script: str) -> None:
    done = trial.run(f"set -e; {DATES}{script}")
    assert done.ok, done.stderr


def test_afterwards_git_says_what_it_said_inside(trial: Trial, work: Path) -> None:
    before = said(work)
    _run(trial, _MANY)
    inside = trial.run(said.script)
    assert said(work) == before

    trial.apply()

    assert said(work) == inside.stdout
    assert trial.changes() == () and trial.git_changes() == ()
    trial.undo()
    assert said(work) == before
    trial.apply()
    assert said(work) == inside.stdout


def test_a_second_run_goes_on_from_what_was_applied(trial: Trial, work: Path) -> None:
    _run(trial, "echo 2 >> README; git commit -qam second; git stash list")
    trial.apply()
    _run(trial, "echo 3 >> README; git commit -qam third; git branch more; echo 4 >> README; git stash -q")
    trial.apply()

    assert git(work, "log", "--format=%s").split() == ["third", "second", "first"]
    assert git(work, "stash", "list").startswith("stash@{0}: WIP on main")
    assert git(work, "status", "--short") == ""


def test_what_the_host_moved_meanwhile_is_refused_and_listed(trial: Trial, work: Path) -> None:
    _run(trial, "echo 2 >> README; git commit -qam theirs; git branch new; git tag t")
    git(work, "commit", "--allow-empty", "-qm", "ours")

    with pytest.raises(PolicyError) as refused:
        trial.apply()
    assert refused.value.code == "trial-conflict" and ".git: refs/heads/main" in refused.value.why
    assert (work / "README").read_text() == "read me\n" and git(work, "tag") == ""

    assert ".git: refs/heads/main" in trial.apply(prefer="ours").left
    assert git(work, "log", "-1", "--format=%s", "main") == "ours\n"
    assert git(work, "log", "-1", "--format=%s", "new") == "theirs\n"
    trial.apply(prefer="theirs")
    assert git(work, "log", "-1", "--format=%s", "main") == "theirs\n"


def test_a_status_on_the_host_is_no_change(trial: Trial, work: Path) -> None:
    _run(trial, "echo 2 > new; git add new")
    os.utime(work / "README", (1, 1))
    git(work, "status")  # writes the index anew

    trial.apply()

    assert git(work, "status", "--short") == "A  new\n"


def test_files_can_be_applied_without_git(trial: Trial, work: Path) -> None:
    _run(trial, "echo 2 >> README; git commit -qam second")

    trial.apply(["README"])
    assert git(work, "status", "--short") == " M README\n"
    trial.undo()
    trial.apply(without=[".git"])
    assert git(work, "status", "--short") == " M README\n"
    trial.apply([".git"])
    assert git(work, "status", "--short") == ""


def test_undo_leaves_a_reference_that_was_moved_since(trial: Trial, work: Path) -> None:
    _run(trial, "echo 2 >> README; git commit -qam second; git branch other")
    trial.apply()
    git(work, "commit", "--allow-empty", "-qm", "mine")

    with pytest.raises(PolicyError) as refused:
        trial.undo()
    assert ".git: refs/heads/main" in refused.value.why
    trial.undo(prefer="ours")

    assert git(work, "log", "-1", "--format=%s") == "mine\n"
    assert git(work, "branch", "--list", "other") == ""


_HOSTILE = {
    "an object is missing": "rm -f .git/objects/$(git rev-parse HEAD: | sed 's,^..,&/,')",
    "an object has another's content": (
        "o=.git/objects/$(git rev-parse HEAD: | sed 's,^..,&/,'); chmod 600 $o;"
        " cat .git/objects/$(git rev-parse HEAD:README | sed 's,^..,&/,') > $o"
    ),
    "a tree leads into a git directory": (
        "b=$(git rev-parse HEAD:README);"
        " t=$(printf '100644 blob %s\\tconfig\\n' $b | git mktree);"
        " t=$(printf '040000 tree %s\\t.git\\n' $t | git mktree);"
        " git update-ref refs/heads/main $(git commit-tree -m evil $t)"
    ),
    "objects are elsewhere": (
        "mkdir /tmp/o; mv .git/objects/?? /tmp/o; git() { :; }; echo /tmp/o > .git/objects/info/alternates"
    ),
    "a pack is none": "echo PACK > .git/objects/pack/pack-$(git rev-parse HEAD).pack",
}


@pytest.mark.parametrize("trap", _HOSTILE)
def test_what_git_does_not_take_is_not_brought_over(trial: Trial, work: Path, trap: str) -> None:
    before = said(work)
    _run(trial, f"echo 2 >> README; git commit -qam second; {_HOSTILE[trap]}")

    with pytest.raises(SetupError) as refused:
        trial.apply()

    assert refused.value.code == "trial-git" and refused.value.ran
    assert said(work) == before and (work / "README").read_text() == "read me\n"
    trial.apply(without=[".git"])
    assert (work / "README").read_text() == "read me\n2\n" and git(work, "log", "--format=%s") == "first\n"


_STAYING = {
    "a name that leads elsewhere": "git rev-parse HEAD > .git/refs/heads/..x; mkdir .git/refs/heads/a.lock",
    "a replacement": "git replace $(git rev-parse HEAD) $(git commit-tree -m other HEAD:)",
    "a link": "ln -s ../../config .git/refs/heads/linked; ln -s /etc/passwd .git/refs/tags/t",
    "a hook": "mkdir -p .git/hooks; echo 'echo x > /tmp/hooked' > .git/hooks/post-checkout || true",
    "a graft": "mkdir -p .git/info; git rev-parse HEAD > .git/info/grafts",
}


@pytest.mark.parametrize("trap", _STAYING)
def test_what_is_not_a_plain_reference_stays(trial: Trial, work: Path, trap: str) -> None:
    before = sorted(str(path) for path in (work / ".git").rglob("*") if "objects" not in path.parts)
    _run(trial, _STAYING[trap])

    trial.apply()

    after = sorted(str(path) for path in (work / ".git").rglob("*") if "objects" not in path.parts)
    assert after == before


_PROBLEMS = {
    "rm -rf .git || true; git init -q; git commit --allow-empty -qm x": "another repository",
    "git checkout -qb a; echo a > README; git commit -qam a; git checkout -q main; echo b > README;"
    " git commit -qam b; git merge a || true": "not finished",
    "printf junk > .git/refs/heads/main": "neither an object id nor a name",
    "printf 'DIRC junk' > .git/index": "too early",
}


@pytest.mark.parametrize("script", _PROBLEMS, ids=_PROBLEMS.values())
def test_what_cannot_be_judged_stays_whole(trial: Trial, work: Path, script: str) -> None:
    before = said(work)
    _run(trial, script)

    applied = trial.apply(without=["README"])

    assert [_PROBLEMS[script] in each.problem for each in applied.git_left] == [True]
    assert said(work) == before


def test_the_index_of_a_command_leads_nowhere(trial: Trial, work: Path) -> None:
    """A path that git itself would refuse, in an index that was written by hand."""
    before = said(work)
    script = (
        "echo x > aaaaaaaaa; git add aaaaaaaaa; python3 - <<'E'\n"
        "import hashlib\nd = open('.git/index', 'rb').read()[:-20].replace(b'aaaaaaaaa', b'.git/hook')\n"
        "open('.git/index', 'wb').write(d + hashlib.sha1(d).digest())\nE"
    )
    _run(trial, script)

    trial.apply(without=["aaaaaaaaa"])

    assert said(work) == before


def test_an_apply_that_was_killed_goes_on(trial: Trial, work: Path) -> None:
    """After each program that git starts, and before."""
    from corral.trials.git.program import GitProgram

    before = said(work)
    _run(trial, _MANY)
    inside = trial.run(said.script).stdout
    plain = GitProgram.run

    class Killed(BaseException):
        pass

    for at in range(1, 40):
        calls = 0

        def run(*arguments: object, at: int = at, **options: object) -> bytes:
            nonlocal calls
            calls += 1
            if calls == at:
                raise Killed
            return plain(*arguments, **options)  # type: ignore[arg-type]

        GitProgram.run = run  # type: ignore[method-assign, assignment]
        try:
            trial.apply()
        except Killed:
            GitProgram.run = plain  # type: ignore[method-assign]
            trial.apply()
        finally:
            GitProgram.run = plain  # type: ignore[method-assign]
        assert said(work) == inside
        trial.undo()
        assert said(work) == before
        if calls < at:
            break
    assert calls < at


def test_nothing_of_the_hosts_settings_runs(trial: Trial, work: Path) -> None:
    marker = work.parent / "ran"
    hook = work / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    _run(trial, "echo 2 >> README; git -c core.hooksPath=/dev/null commit -qam second")

    trial.apply()

    assert not marker.exists() and git(work, "log", "-1", "--format=%s") == "second\n"
    subprocess.run(["git", "-C", str(work), "branch", "control"], check=True)
    assert marker.exists()
