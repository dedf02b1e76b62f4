"""More repositories than a process has descriptors: all are protected, or it is said which are not."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from corral.git_formats import search
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.result import Result

MANY = 300
#: What a command tries on the repository that the search finds last.
SCRIPT = "cd {last}/.git; echo evil > hooks/pre-commit; echo evil >> config; ln -s / logs"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for number in range(MANY):
        git = tmp_path / "work" / f"r{number:03}" / ".git"
        for name in ("hooks", "objects", "refs"):
            (git / name).mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        (git / "config").write_text("[core]\n")
    return tmp_path / "work"


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """Fewer than there are repositories."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(map(int, os.listdir("/proc/self/fd"))) + 1 + MANY - 50
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def check_harmless(work: Path, done: Result) -> None:
    last = work / f"r{MANY - 1}" / ".git"
    assert done.stdout == "tried\n", done.stderr
    assert (last / "config").read_text() == "[core]\n"
    assert os.listdir(last / "hooks") == [] and not (last / "logs").is_symlink()


@pytest.mark.usefixtures("few_descriptors")
def test_a_run_protects_the_last_as_the_first(work: Path) -> None:
    sandbox = Sandbox("moderate", backend="native", workspace=work)
    script = SCRIPT.format(last=f"r{MANY - 1}")

    check_harmless(work, sandbox.run(f"{script}; echo tried"))


@pytest.mark.usefixtures("few_descriptors")
def test_a_session_protects_the_last_as_the_first(work: Path) -> None:
    script = SCRIPT.format(last=f"r{MANY - 1}")
    new = work / f"r{MANY - 1}" / ".git/config.lock"
    with Sandbox("moderate", backend="native", workspace=work).session() as session:
        check_harmless(work, session.run(f"{script}; echo tried"))
        new.write_text("[core]\n")
        new.rename(new.with_name("config"))

        check_harmless(work, session.run(f"{script}; echo tried"))
        assert session.made_anew == 1


def test_where_the_search_is_given_up_every_result_says_so(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_DIRECTORIES", 4)
    (work / "r100/deep/er/.git").mkdir(parents=True)
    sandbox = Sandbox("moderate", backend="native", workspace=work)

    done = sandbox.run("true")
    with sandbox.session() as session:
        kept = session.run("true")

    for result in (done, kept):
        assert len(result.notes) == 1 and f"{work}/r003" in result.notes[0]


def test_a_command_that_makes_too_many_directories_is_told_of(tmp_path: Path, monkeypatch) -> None:
    """What it has left for git out of sight is not found: so at least that is said."""
    monkeypatch.setattr(search, "MOST_DIRECTORIES", 8)
    (tmp_path / "work").mkdir()
    sandbox = Sandbox("moderate", backend="native", workspace=tmp_path / "work")

    quiet = sandbox.run("mkdir a b c")
    loud = sandbox.run("mkdir d e f g h i")

    assert not quiet.violations and not quiet.notes
    assert ["was not looked for" in violation.detail for violation in loud.violations] == [True]
