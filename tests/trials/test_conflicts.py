"""What the host changes while a trial lasts is never overwritten unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.sessions.trial import Trial


def _write(work: Path) -> None:
    (work / "README").write_text("the host's\n")


def _replace(work: Path) -> None:
    (work / "other").write_text("the host's\n")
    (work / "other").rename(work / "README")


def _remove(work: Path) -> None:
    (work / "README").unlink()


#: A file that is gone when the command has ended cannot be told from one that never was.
_CASES = [(_write, "while it runs"), (_replace, "while it runs"), (_write, "afterwards")]


@pytest.mark.parametrize(("act", "when"), [*_CASES, (_replace, "afterwards"), (_remove, "afterwards")])
def test_a_change_of_the_host_is_a_conflict(
    trial: Trial, work: Path, act: Callable[[Path], None], when: str
) -> None:
    if when == "while it runs":
        with trial.session() as session:
            assert session.run("echo more >> README; echo n > new").ok
            act(work)
    else:
        assert trial.run("echo more >> README; echo n > new").ok
        act(work)
    was = (work / "README").read_text() if (work / "README").exists() else None

    with pytest.raises(PolicyError) as caught:
        trial.apply()

    assert caught.value.code == "trial-conflict"
    assert not (work / "new").exists()
    left = trial.apply(prefer="ours").left
    assert left == ("README",)
    assert (work / "new").exists()
    assert ((work / "README").read_text() if (work / "README").exists() else None) == was
    trial.apply(prefer="theirs")
    assert (work / "README").read_text() == "read me\nmore\n"


def test_what_the_host_made_at_the_same_name_is_a_conflict(trial: Trial, work: Path) -> None:
    assert trial.run("echo n > new").ok
    (work / "new").write_text("the host's\n")

    with pytest.raises(PolicyError):
        trial.apply()

    assert (work / "new").read_text() == "the host's\n"


def test_a_directory_that_was_exchanged_is_a_conflict(trial: Trial, work: Path) -> None:
    """What is in it has old times: only the directory tells."""
    assert trial.run("echo more >> src/main.py").ok
    (work / "src").rename(work / "src.old")
    (work / "old").rename(work / "src")

    with pytest.raises(PolicyError):
        trial.apply()


def test_what_was_changed_since_is_not_undone(trial: Trial, work: Path) -> None:
    assert trial.run("echo more >> README; echo n > new").ok
    trial.apply()
    (work / "README").write_text("worked on\n")

    with pytest.raises(PolicyError):
        trial.undo()
    assert (work / "new").exists()
    trial.undo(prefer="ours")

    assert not (work / "new").exists()
    assert (work / "README").read_text() == "worked on\n"


def test_a_file_that_was_there_just_before_is_no_conflict(trial: Trial, work: Path) -> None:
    assert trial.run("echo more >> README").ok

    assert [change.path for change in trial.apply().changes] == ["README"]


def test_part_of_it_is_applied_with_the_directories_on_the_way(trial: Trial, work: Path) -> None:
    assert trial.run("mkdir -p a/b; echo 1 > a/b/one; echo 2 > a/two; rm -r old").ok

    trial.apply(["a/b/one"])
    assert sorted(path.name for path in (work / "a").iterdir()) == ["b"]
    trial.apply(without=["old"])

    assert (work / "a/two").exists() and (work / "old/notes").exists()


def test_a_directory_is_not_removed_while_something_in_it_stays(trial: Trial, work: Path) -> None:
    (work / "old/more").write_text("x")
    assert trial.run("rm -r old").ok

    trial.apply(without=["old/more"])

    assert [path.name for path in (work / "old").iterdir()] == ["more"]
