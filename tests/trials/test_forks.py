"""Forks of a trial, snapshots of it, and several commands from one base."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral import Sandbox
from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.trial import Trial


def _paths(trial: Trial) -> set[str]:
    return {f"{change.action.value} {change.path}" for change in trial.changes()}


def test_a_fork_begins_where_the_trial_was_and_goes_its_own_way(trial: Trial, work: Path) -> None:
    assert trial.run("echo one > one; rm -r old; echo more >> README").ok

    with trial.fork() as other:
        assert trial.run("rm one; echo mine > mine").ok
        assert other.run("cat one; test ! -e old; echo theirs > theirs; echo again >> README; mkdir old").ok

        assert _paths(trial) == {"added mine", "deleted old/notes", "deleted old", "changed README"}
        assert _paths(other) == {"added one", "added theirs", "deleted old/notes", "changed README"}
        other.apply()
    assert (work / "README").read_text() == "read me\nmore\nagain\n"
    assert (work / "one").exists() and (work / "theirs").exists() and not (work / "mine").exists()
    assert list((work / "old").iterdir()) == []


def test_a_layer_is_kept_as_long_as_a_trial_lies_over_it(trial: Trial) -> None:
    assert trial.run("echo one > one").ok
    frozen = Path(trial.record.directory).parent / "frozen"

    other = trial.fork()
    assert len(list(frozen.iterdir())) == 1
    trial.discard()
    assert _paths(other) == {"added one"}
    other.discard()

    assert list(frozen.iterdir()) == []


def test_rollback_forgets_what_came_after_a_snapshot(trial: Trial, work: Path) -> None:
    assert trial.run("echo one > one").ok
    first = trial.snapshot()
    assert trial.run("rm one; echo two > two; rm README").ok
    second = trial.snapshot()
    assert trial.run("echo three > three").ok

    trial.rollback(first)
    assert _paths(trial) == {"added one"}
    assert trial.run("cat one README").ok
    with pytest.raises(PolicyError):
        trial.rollback(second)

    trial.apply()
    assert (work / "one").exists() and (work / "README").exists()


def test_each_command_starts_from_the_same_workspace(work: Path) -> None:
    tried = Sandbox(backend="native", workspace=work).try_each([f"echo {n} >> README" for n in (1, 2, 3)])

    assert [result.ok for _, result in tried] == [True] * 3
    tried[1][0].apply()
    for trial, _ in tried:
        trial.discard()
    assert (work / "README").read_text() == "read me\n2\n"


def test_a_layer_that_waits_for_no_disk_is_taken_again(trial: Trial, work: Path) -> None:
    """The kernel refuses it, unless what it has noted there is removed."""
    for count in (1, 2, 3):
        done = trial.run("echo line >> README; grep -c volatile /proc/self/mounts")
        assert (done.stdout, done.ok) == ("1\n", True)
        (change,) = trial.changes()
        assert change.size == (work / "README").stat().st_size + 5 * count
