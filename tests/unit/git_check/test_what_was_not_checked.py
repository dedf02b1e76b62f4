"""Whatever ends the look at one repository ends nothing else; what was not checked is nobody's own."""

from __future__ import annotations

import os
import shutil
import threading

import pytest

from corral.git_check.check import RepositoryCheck, open_check
from corral.git_check.scope import scope_of
from corral.git_check.unchecked import find_abandoned
from corral.model.errors import SetupError
from support.git_repository import CONFIG, EVIL, make_repository, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from corral.model.plan import Plan

MIB = 1 << 20
MARKS = "state/unchecked"


@pytest.fixture
def plan(git: Path, make_plan) -> Plan:
    place = str(git.parent)
    return make_plan(writable=(place,), worktrees=(place,))


@pytest.fixture
def opening(plan: Plan, tmp_path: Path) -> Callable[..., RepositoryCheck]:
    """The check of a run as corral opens it; a run that is killed closes nothing but its descriptors."""

    def make(of: Plan = plan) -> RepositoryCheck:
        return open_check(of, str(tmp_path / "quarantine"), str(tmp_path / "state/searched"))

    return make


def flood_with_sparse_refs(git: Path, number: int) -> None:
    for name in range(number):
        (git / f"refs/heads/b{name}").touch()
        os.truncate(git / f"refs/heads/b{name}", 4 * MIB)


def test_whatever_is_too_large_hides_no_small_repository(check: RepositoryCheck, git: Path) -> None:
    made = make_repository(git.parent / "sub/.git", CONFIG + EVIL)
    flood_with_sparse_refs(git, 12)

    assert check.sweep() == ()
    assert (made / "config").read_text() == CONFIG
    assert os.listdir(git / "refs/heads") == []


def test_also_if_it_is_more_than_can_be_taken_away(
    check: RepositoryCheck, git: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.git_check.check._MOST_ROUNDS", 4)
    made = make_repository(git.parent / "sub/.git", CONFIG + EVIL)
    flood_with_sparse_refs(git, 20)

    with pytest.raises(SetupError) as failed:
        check.sweep()
    assert f"not looked at: {git.parent}: there is more in it than is looked at" in failed.value.why
    assert (made / "config").read_text() == CONFIG


def test_a_repository_of_the_commands_that_is_too_large_is_not_left(
    check: RepositoryCheck, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.git_check.check.MOST_MORE_STEPS", 5000)
    made = make_repository(place / "sub/.git", CONFIG + EVIL)
    for directory in range(60):
        for name in range(120):
            put(made / f"info/{directory}/{name}", "")

    assert check.sweep() == ()
    assert not made.exists() or EVIL not in (made / "config").read_text()


@pytest.mark.parametrize("where", ["GitDirectory.hazards", "GitDirectory._objects"])
def test_one_that_cannot_be_judged_is_not_left(
    check: RepositoryCheck, place: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Nor does it keep others from being judged; and the host's own stays where it is."""
    made = [make_repository(place / name / ".git", CONFIG + EVIL) for name in ("a", "b")]
    name = f"corral.git_check.directory.{where}"
    module, _, attribute = where.partition(".")
    from corral.git_check import directory

    plain = getattr(getattr(directory, module), attribute)

    def fail(self: directory.GitDirectory, *values: object) -> object:
        if self._path == str(made[0]):
            raise ZeroDivisionError
        return plain(self, *values)

    monkeypatch.setattr(name, fail)

    assert check.sweep() == ()
    assert not made[0].exists()
    assert (made[1] / "config").read_text() == CONFIG
    assert (place / ".git/HEAD").exists()


def test_what_cannot_be_taken_away_keeps_nothing_else(
    check: RepositoryCheck, git: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(git / "refs")
    made = make_repository(place / "sub/.git", CONFIG + EVIL)

    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("corral.git_check.check.make_whole", fail)
    with pytest.raises(SetupError) as failed:
        check.sweep()

    assert f"not looked at: {place}: [Errno 13]" in failed.value.why
    assert (made / "config").read_text() == CONFIG
    assert (git / "HEAD").exists()


def test_an_index_around_that_a_command_can_write_keeps_nothing_from_being_looked_at(
    make_plan, place: Path, tmp_path: Path
) -> None:
    """Of a linked worktree: the main one is not writable, its git directory is."""
    around = make_repository(tmp_path / ".git")
    roots = (str(place), str(around))
    check = RepositoryCheck(scope_of(make_plan(writable=roots, worktrees=(str(place),))), "")
    check.begin()
    made = make_repository(place / "sub/.git", CONFIG + EVIL)
    put(around / "index", "x")

    with pytest.raises(SetupError, match="could not be checked") as failed:
        check.sweep()
    assert f"{around}/index: it ends too early" in failed.value.why
    assert (made / "config").read_text() == CONFIG


def test_objects_that_were_put_in_their_place_are_looked_at_however_old_they_are(
    check: RepositoryCheck, git: Path, place: Path
) -> None:
    """An earlier command has left them where they were no objects."""
    (place / "new/ab").mkdir(parents=True)
    (place / "new/ab/cd").symlink_to("/x")
    check._look.since_ns += 1 << 60  # as if that were long ago
    os.rename(place / "new", git / "more")
    shutil.rmtree(git / "objects")
    os.rename(git / "more", git / "objects")

    assert check.sweep() == ()
    assert os.listdir(git / "objects/ab") == []


def test_what_a_killed_run_has_left_is_not_the_hosts_own(
    opening: Callable[..., RepositoryCheck], plan: Plan, place: Path, tmp_path: Path
) -> None:
    own = make_repository(place / "own/.git", CONFIG + EVIL)
    opening()._mark.close()  # as the kernel does
    made = make_repository(place / "sub/.git", CONFIG + EVIL)

    # By the next plan, which knows it, holds its settings, and is of another directory.
    with pytest.raises(SetupError, match="was not checked when it ended") as told:
        opening(plan.replace(worktrees=(str(place), f"{place}/sub")))

    assert str(made / "config") in told.value.why and not told.value.ran
    assert (made / "config").read_text() == CONFIG
    assert EVIL in (own / "config").read_text()
    opening().acquit()
    assert os.listdir(tmp_path / MARKS) == []


def test_only_a_run_that_has_ended_leaves_a_mark_to_others(
    opening: Callable[..., RepositoryCheck], place: Path, tmp_path: Path
) -> None:
    first = opening()
    make_repository(place / "sub/.git", CONFIG + EVIL)
    second = opening()  # beside it
    assert len(os.listdir(tmp_path / MARKS)) == 2

    assert first.sweep() == ()
    assert second.sweep(is_over=False) == ()
    assert len(os.listdir(tmp_path / MARKS)) == 1
    second.begin()
    assert second.sweep() == ()
    assert os.listdir(tmp_path / MARKS) == []


def test_after_a_failed_check_nothing_runs_there_until_one_has_ended_well(
    opening: Callable[..., RepositoryCheck], git: Path, tmp_path: Path, monkeypatch
) -> None:
    check = opening()
    put(git / "rebase-merge/strategy", "evil")
    with monkeypatch.context() as broken:
        broken.setattr("corral.git_check.look.is_whole", lambda _: int(""))
        with pytest.raises(SetupError):
            check.sweep()
        check.close()
        with pytest.raises(SetupError, match="has not been checked") as refused:
            opening()
    (mark,) = (tmp_path / MARKS).iterdir()
    assert str(mark) in refused.value.fix
    with pytest.raises(SetupError, match="is removed now"):
        opening()
    opening().acquit()
    assert not (git / "rebase-merge/strategy").exists()


def test_who_comes_while_another_run_checks_waits_for_it(
    opening: Callable[..., RepositoryCheck], place: Path, tmp_path: Path
) -> None:
    """Else it would take for the host's own what that one is about to remove."""
    opening()._mark.close()
    make_repository(place / "sub/.git", CONFIG + EVIL)
    finding = find_abandoned(str(tmp_path / MARKS), (str(place),))
    next(finding)
    others = threading.Thread(target=lambda: told.append(_told_by(opening)))
    told: list[str] = []
    others.start()
    others.join(0.2)
    assert others.is_alive() and told == []

    finding.close()  # it has failed
    others.join()

    assert "is removed now" in told[0]


def _told_by(opening: Callable[..., RepositoryCheck]) -> str:
    try:
        opening()
    except SetupError as problem:
        return problem.what
    return ""


def test_a_root_that_is_gone_keeps_nothing_from_being_looked_at(
    make_plan, git: Path, place: Path, tmp_path: Path
) -> None:
    (place / "inner").mkdir()
    plan = make_plan(writable=(str(place), str(place / "inner")), worktrees=(str(place),))
    check = RepositoryCheck(scope_of(plan), str(tmp_path / "quarantine"))
    check.begin()
    made = make_repository(place / "sub/.git", CONFIG + EVIL)
    (place / "inner").rmdir()

    assert check.sweep() == ()
    assert (made / "config").read_text() == CONFIG
