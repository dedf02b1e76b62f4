"""Links that a trial leaves where the host's git writes or removes files are not applied unless named."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from corral import Sandbox
from corral.model.errors import PolicyError
from corral.policy.compose import build_policy
from corral.trials.change import EntryKind
from support.confinement import INTERPRETER
from support.git_programs import DATES, git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from corral.sessions.trial import Trial

_ORIGINAL = "original\n"
#: What a command leaves, and what the user types afterwards. `$1` is a directory outside.
_TRAPS = {
    "a directory of the index": (
        "mkdir new; echo x > new/rc; git add new; git commit -qm two; rm -r new; ln -s $1 new",
        ["rm", "-rqf", "new"],
    ),
    "a directory above one of the index": (
        "mkdir -p new/$(basename $1); echo x > new/$(basename $1)/rc; git add new; git commit -qm two\n"
        "rm -r new; ln -s $(dirname $1) new",
        ["rm", "-rqf", "new"],
    ),
    "a directory that is missing": ("ln -s $1 gone", ["rm", "-rqf", "gone"]),
    "a directory that a linked worktree misses": (
        "ln -s $1 linked/gone",
        ["-C", "linked", "rm", "-rqf", "gone"],
    ),
    "a directory that a submodule misses": ("ln -s $1 sub/gone", ["-C", "sub", "rm", "-rqf", "gone"]),
    "a patch": ("git commit -q --allow-empty -m two; ln -s $1/rc 0001-two.patch", ["format-patch", "-1"]),
    "a numbered patch": (
        "git commit -q --allow-empty -m two; ln -s $1/rc 1",
        ["format-patch", "-1", "--numbered-files"],
    ),
}


@pytest.fixture
def work(work: Path) -> Path:
    """One directory of the index is missing, also in a linked worktree and in a submodule."""
    git(work, "init", "-q", "-b", "main")
    (work / "gone").mkdir()
    (work / "gone/rc").write_text("x\n")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")
    allowed = ("-c", "protocol.file.allow=always")
    git(work, *allowed, "submodule", "--quiet", "add", str(work), "sub")
    git(work, "commit", "-qm", "submodule")
    git(work, "worktree", "add", "-q", "--detach", "linked")
    for worktree in (work, work / "linked", work / "sub"):
        (worktree / "gone/rc").unlink()
        (worktree / "gone").rmdir()
    return work


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "rc").write_text(_ORIGINAL)
    return directory


def _is_touched(outside: Path) -> bool:
    file = outside / "rc"
    return not file.exists() or file.read_text() != _ORIGINAL


@pytest.mark.parametrize("where", _TRAPS)
def test_git_writes_through_no_link_that_was_applied(
    trial: Trial, work: Path, outside: Path, where: str
) -> None:
    code, typed = _TRAPS[where]
    assert trial.run(["sh", "-ec", DATES + code, "sh", str(outside)]).ok

    applied = trial.apply()

    git(work, *typed)
    assert not _is_touched(outside)
    assert [change.kind for change in applied.reserved] == [EntryKind.LINK]


@pytest.mark.parametrize("where", _TRAPS)
def test_the_control_writes_through_it(work: Path, outside: Path, where: str) -> None:
    code, typed = _TRAPS[where]
    done = subprocess.run(
        ["sh", "-ec", DATES + code, "sh", str(outside)], cwd=work, check=False, capture_output=True
    )
    assert not done.returncode, done.stderr

    git(work, *typed)

    assert _is_touched(outside)


def test_no_index_is_brought_over_that_has_files_behind_a_link(
    trial: Trial, work: Path, outside: Path
) -> None:
    """The link alone is harmless, and was applied before."""
    assert trial.run(["ln", "-s", str(outside), "new"]).ok
    trial.apply()
    assert (work / "new").is_symlink()
    code = "rm new; mkdir new; echo x > new/rc; git add new; git commit -qm two; rm -r new; ln -s $1 new"
    assert trial.run(["sh", "-ec", DATES + code, "sh", str(outside)]).ok

    applied = trial.apply()

    git(work, "rm", "-rqf", "--ignore-unmatch", "new")
    assert not _is_touched(outside)
    assert ["link" in each.problem for each in applied.git_left] == [True]


@pytest.fixture
def in_turn(work: Path, outside: Path) -> Iterator[Callable[..., list[Trial]]]:
    """Runs lines, each in a trial of its own that is applied before the next begins."""
    sandbox = Sandbox(build_policy("moderate", INTERPRETER), backend="native", workspace=work)
    with ExitStack() as stack:

        def apply(*lines: str) -> list[Trial]:
            made = []
            for line in lines:
                made.append(stack.enter_context(sandbox.trial()))
                assert made[-1].run(["sh", "-ec", DATES + line, "sh", str(outside)]).ok, line
                made[-1].apply()
            return made

        yield apply


#: Lines of which each is harmless when it is applied; the second is undone.
_UNDONE = {
    "a link where a later index has files": (
        "ln -s $1 new",
        "rm new",
        "git update-index --add --cacheinfo 100644,$(git hash-object -w README),new/rc; git commit -qm two",
    ),
    "an index with files where a link came later": (
        "mkdir new; echo x > new/rc; git add new; git commit -qm two",
        "git rm -rq new; git commit -qm three",
        "ln -s $1 new",
    ),
}


@pytest.mark.parametrize(
    ("what", "prefer"), [*((what, "ours") for what in _UNDONE), (next(iter(_UNDONE)), "theirs")]
)
def test_undo_puts_nothing_back_that_leads_git_elsewhere(
    in_turn, work: Path, outside: Path, what: str, prefer: str
) -> None:
    trial = in_turn(*_UNDONE[what])[1]
    with pytest.raises(PolicyError):
        trial.undo()

    trial.undo(prefer=prefer)

    git(work, "rm", "-rqf", "--ignore-unmatch", "new")
    assert not _is_touched(outside)


def test_undo_completes_no_repository(in_turn, work: Path) -> None:
    made = "mkdir -p bare/objects; touch bare/objects/x bare/HEAD"
    trial = in_turn(made, "rm bare/HEAD", "mkdir bare/refs; touch bare/refs/x")[1]
    with pytest.raises(PolicyError, match="git would"):
        trial.undo()

    trial.undo(prefer="ours")

    assert not (work / "bare/HEAD").exists()


def test_undo_puts_a_link_and_its_index_back(in_turn, work: Path, outside: Path) -> None:
    """Together they are what they were."""
    (work / "way").symlink_to(outside)
    git(work, "add", "way")
    git(work, "commit", "-qm", "way")
    (trial,) = in_turn("rm way; mkdir way; echo x > way/rc; git add way; git commit -qm two")
    assert (work / "way/rc").exists() and not (work / "way").is_symlink()

    trial.undo()

    assert (work / "way").is_symlink()


def test_a_link_is_applied_when_it_is_named(trial: Trial, work: Path, outside: Path) -> None:
    assert trial.run(["ln", "-s", str(outside / "rc"), "0001-two.patch"]).ok

    trial.apply(protected=["0001-two.patch"])

    assert (work / "0001-two.patch").is_symlink()


def test_other_links_are_applied(trial: Trial, work: Path) -> None:
    assert trial.run("ln -s src/main.py run; ln -s /usr/bin/env tool; mkdir d; ln -s ../src d/src").ok

    trial.apply()

    assert all((work / name).is_symlink() for name in ("run", "tool", "d/src"))
