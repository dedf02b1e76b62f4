"""Repositories where the plan does not look: found at any depth, and what a command did is told by time."""

from __future__ import annotations

import os
import time

import pytest

from corral.git_check import check as repositories
from corral.git_check import everywhere as git_everywhere
from corral.git_check import look
from corral.git_check import remembered as git_remembered
from corral.git_check.check import RepositoryCheck
from corral.git_check.scope import scope_of
from corral.untrusted_files import unchanged
from support.git_repository import CONFIG, EVIL, make_repository, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Checking = Callable[..., RepositoryCheck]

DEEP = "a/b/c/d/e/f/g/h/i"
PLACES = ["node_modules/x", DEEP, "target/deep/.venv/x", "node_modules/x.git/objects/x"]


@pytest.fixture(autouse=True)
def telling_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk; the temporary directory may be in memory, of which `test_mapped_files.py` is."""
    monkeypatch.setattr(git_everywhere, "tells_of_mappings", lambda _: True)


@pytest.fixture
def keeping(git: Path, tmp_path: Path, make_plan) -> Checking:
    """A check as one run has it, which remembers what the runs before have found."""

    def make() -> RepositoryCheck:
        place = str(git.parent)
        plan = make_plan(writable=(place,), worktrees=(place,))
        return RepositoryCheck(scope_of(plan), str(tmp_path / "quarantine"), str(tmp_path / "memory"))

    return make


def settle() -> None:
    """Until times of change are over that are too near to now to tell anything."""
    began = time.time_ns()
    while time.time_ns() < began + 2 * unchanged.TICK_NS:
        time.sleep(0.001)


@pytest.mark.parametrize("where", PLACES)
def test_a_repository_that_is_made_anywhere_keeps_no_program(
    check: RepositoryCheck, place: Path, where: str
) -> None:
    inner = make_repository(place / where / ".git", f"{CONFIG}\tfsmonitor = {EVIL}\n")
    put(inner / "hooks/post-checkout", "x")

    assert check.sweep() == ()
    assert EVIL not in (inner / "config").read_text()
    assert not (inner / "hooks/post-checkout").exists()


@pytest.mark.parametrize("is_remembered", [False, True])
def test_the_hosts_own_stays_when_a_command_works_in_it(
    keeping: Checking, git: Path, *, is_remembered: bool
) -> None:
    """It was looked at before, or is known from an earlier run."""
    inner = make_repository(git.parent / "node_modules/x/.git", f"{CONFIG}\tfsmonitor = {EVIL}\n")
    put(inner / "hooks/post-checkout", "x")
    settle()
    if is_remembered:
        first = keeping()
        first.begin()
        first.sweep()
        first.close()
    check = keeping()
    check.begin()
    put(inner / "COMMIT_EDITMSG", "x")

    assert check.sweep() == ()
    assert (inner / "hooks/post-checkout").exists()
    assert EVIL in (inner / "config").read_text()


def test_what_the_host_made_since_the_last_run_is_told_by_its_time(keeping: Checking, git: Path) -> None:
    first = keeping()
    first.begin()
    first.sweep()
    first.close()
    inner = make_repository(git.parent / "node_modules/x/.git", f"{CONFIG}\tfsmonitor = {EVIL}\n")
    put(inner / "hooks/post-checkout", "x")
    settle()
    check = keeping()
    check.begin()
    put(git.parent / "other", "x")

    assert check.sweep() == ()
    assert (inner / "hooks/post-checkout").exists()

    put(inner / "config", f"{CONFIG}\tfsmonitor = {EVIL}\n")

    assert check.sweep() == ()
    assert EVIL not in (inner / "config").read_text()


def test_old_parts_that_are_put_together_are_new(check: RepositoryCheck, place: Path) -> None:
    """An earlier command has left them, where they were no repository."""
    parts = make_repository(place / "node_modules/parts", f"{CONFIG}\tfsmonitor = {EVIL}\n")
    (parts / "HEAD").rename(place / "node_modules/HEAD")
    settle()
    check.begin()
    (place / "node_modules/HEAD").rename(parts / "HEAD")

    assert check.sweep() == ()
    assert EVIL not in (parts / "config").read_text()


def test_where_times_tell_nothing_everything_is_looked_at_before(
    keeping: Checking, git: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_everywhere, "is_local", lambda _: False)
    monkeypatch.setattr(unchanged, "is_local", lambda _: False)
    own = make_repository(git.parent / "node_modules/own/.git", f"{CONFIG}\tfsmonitor = {EVIL}\n")
    check = keeping()
    check.begin()
    made = make_repository(git.parent / "node_modules/made/.git", f"{CONFIG}\tfsmonitor = {EVIL}\n")
    long_ago = (0, 0)
    os.utime(made / "config", long_ago)

    assert check.sweep() == ()
    assert EVIL in (own / "config").read_text()
    assert EVIL not in (made / "config").read_text()


def test_one_file_system_beneath_whose_times_tell_nothing_is_enough(
    keeping: Checking, git: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a directory in memory, in a project on a disk."""
    device = 1 << 30
    beneath = (device, str(git.parent / "node_modules"), "tmpfs")
    plain = unchanged._mounts
    monkeypatch.setattr(unchanged, "_mounts", lambda: (*plain(), beneath))
    monkeypatch.setattr(git_everywhere, "tells_of_mappings", lambda number: number != device)
    first = keeping()
    first.begin()
    first.sweep()
    first.close()
    own = make_repository(git.parent / "node_modules/own/.git", f"{CONFIG}\tfsmonitor = {EVIL}\n")
    check = keeping()
    check.begin()
    put(own / "hooks/post-checkout", "x")
    put(own / "config", f"{CONFIG}\tfsmonitor = {EVIL}\n")  # the same as before

    assert check.sweep() == ()
    assert EVIL in (own / "config").read_text()
    assert not (own / "hooks/post-checkout").exists()


def test_mounts_are_found_by_the_names_that_they_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed = tmp_path / "mountinfo"
    listed.write_text(
        f"1 2 0:77 / {tmp_path}/a\\040b\\134040 rw - tmpfs none rw\n1 2 0:78 / {tmp_path}2/c rw - nfs x rw\n"
    )
    plain = open
    monkeypatch.setattr(unchanged, "open", lambda _, *how, **more: plain(listed, *how, **more), raising=False)

    assert [place for _, place, _ in unchanged._mounts()] == [f"{tmp_path}/a b\\040", f"{tmp_path}2/c"]
    assert unchanged.mounted_in((str(tmp_path),)) == {os.makedev(0, 77), tmp_path.stat().st_dev}


def test_what_lies_beyond_the_bound_is_told(
    check: RepositoryCheck, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_everywhere, "MOST_STEPS", 20)
    for number in range(30):
        (place / f"many/{number:02}").mkdir(parents=True)

    assert check.sweep() == ()
    (told,) = check.take_violations()
    assert told.subject.startswith(f"{place}/many/") and "more than 20 directories" in told.detail


def test_a_way_without_an_end_is_not_followed_to_it(
    check: RepositoryCheck, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too far down for the kernel's paths takes a step for each name above it."""
    monkeypatch.setattr(git_everywhere, "MOST_STEPS", 600)
    here = os.open(place, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 200, dir_fd=here)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)

    assert check.sweep() == ()
    assert any("more than 600 directories" in told.detail for told in check.take_violations())


def test_what_has_not_changed_is_neither_listed_nor_read_again(
    keeping: Checking, git: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next run."""
    for number in range(3):
        make_repository(git.parent / f"node_modules/{number}/.git", CONFIG)
    settle()
    first = keeping()
    first.begin()
    first.sweep()
    first.close()
    listed: list[object] = []
    plain = unchanged.list_directory
    monkeypatch.setattr(unchanged, "list_directory", lambda place: listed.append(place) or plain(place))
    monkeypatch.setattr(look, "GitDirectory", lambda *_, **__: int("nothing is read"))
    second = keeping()

    second.begin()

    assert second.sweep() == ()
    assert listed == []


@pytest.mark.parametrize("spoilt", ["content", "identity", "owner"])
def test_only_what_corral_itself_has_kept_is_believed(
    keeping: Checking, git: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoilt: str
) -> None:
    settle()
    first = keeping()
    first.begin()
    first.sweep()
    first.close()
    (kept,) = (tmp_path / "memory").iterdir()
    if spoilt == "content":
        kept.write_bytes(kept.read_bytes()[:-9])
    elif spoilt == "identity":
        kept.write_bytes(kept.read_bytes().replace(os.fsencode(git.parent), b"/" * len(str(git.parent)), 1))
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    looked = []
    plain = look.GitDirectory
    monkeypatch.setattr(look, "GitDirectory", lambda *a, **k: looked.append(a[0]) or plain(*a, **k))

    keeping().begin()

    assert looked == [str(git)]


def test_what_was_kept_for_many_workspaces_does_not_pile_up(
    keeping: Checking, git: Path, tmp_path: Path
) -> None:
    settle()
    for number in range(git_remembered._MOST_FILES):
        put(tmp_path / f"memory/{number}", "x")
        os.utime(tmp_path / f"memory/{number}", (number, number))
    check = keeping()
    check.begin()
    check.sweep()
    check.close()

    left = {path.name for path in (tmp_path / "memory").iterdir()}
    assert len(left) == git_remembered._MOST_FILES // 2
    assert "0" not in left and any(not name.isdecimal() or len(name) == 8 for name in left)


def test_where_the_search_is_given_up_what_it_has_seen_is_not_listed_again(
    keeping: Checking, git: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_everywhere, "MOST_STEPS", 20)
    for number in range(30):
        (git.parent / f"many/{number:02}").mkdir(parents=True)
    settle()
    first = keeping()
    first.begin()
    first.sweep()
    first.close()
    listed: list[object] = []
    plain = unchanged.list_directory
    monkeypatch.setattr(unchanged, "list_directory", lambda place: listed.append(place) or plain(place))
    second = keeping()
    second.begin()
    second.sweep()

    assert listed == []
    assert any("more than 20 directories" in told.detail for told in second.take_violations())


def test_more_repositories_than_can_be_looked_at_are_not_left(
    check: RepositoryCheck, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "MOST_MORE_STEPS", 2000)
    monkeypatch.setattr("corral.git_check.work._MOST_SPARE_PARTS", 8)
    made = [make_repository(place / f"node_modules/{number}/.git", CONFIG + EVIL) for number in range(40)]

    assert check.sweep() == ()
    kept = [git for git in made if git.exists()]
    assert 0 < len(kept) < 40
    assert all(EVIL not in (git / "config").read_text() for git in kept)


def test_a_directory_that_is_moved_brings_nothing_along(keeping: Checking, git: Path) -> None:
    """A bare repository out of sight: what lies in a git directory is nobody's until it is moved out."""
    hidden = make_repository(git.parent / "node_modules/q/.git") / "foo/w"
    first = keeping()
    first.begin()
    make_repository(hidden, f"{CONFIG}\tfsmonitor = {EVIL}\n")
    put(hidden / "hooks/post-update", "x")
    first.sweep()
    first.close()
    settle()

    second = keeping()
    second.begin()
    moved = git.parent / "node_modules/foo"
    os.rename(hidden.parent, moved)

    assert second.sweep() == ()
    assert EVIL not in (moved / "w/config").read_text()
    assert not (moved / "w/hooks/post-update").exists()


def test_a_time_of_whole_seconds_may_be_any_moment_of_that_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ext4 with small inodes keeps them."""
    second = 1_000_000_000
    now = 7 * second + 500_000_000
    monkeypatch.setattr(unchanged, "is_local", lambda _: True)

    assert not unchanged.is_settled((1, 2, 7 * second), now)
    assert unchanged.is_settled((1, 2, 6 * second), now)
    assert unchanged.is_settled((1, 2, 7 * second + 1), now)
    assert unchanged.latest_ns(7 * second) > now > unchanged.latest_ns(7 * second + 1)


def test_what_an_index_makes_a_hazard_later_is_not_the_hosts(
    keeping: Checking, git: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link of an earlier command, in a repository that changed so late that nothing of it was kept."""
    place = git.parent / "node_modules/q"
    inner = make_repository(place / ".git")
    (place / "l").symlink_to("/outside")
    settle()
    check = keeping()
    monkeypatch.setattr(check._look.elsewhere, "_found", ())  # none that is known before commands
    check.begin()
    elsewhere = check._look.elsewhere

    assert elsewhere.is_hosts(str(place), str(place), "l")

    put(inner / "index", "new")

    assert not elsewhere.is_hosts(str(place), str(place), "l")
