"""The guard: what appears under a protected name is removed, and nothing else is touched."""

from __future__ import annotations

import errno
import os
import select

import pytest

from corral.model.feature import Feature
from corral.model.plan import WatchedName
from corral.model.violation import Evidence
from corral.protected_names import guard as guard_module
from corral.protected_names.guard import PATIENCE, Guard
from corral.untrusted_files import quarantine
from corral.untrusted_files.removal import remove_tree
from support.descriptors import count_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def watch_of(place: Path, name: str, link_text: str = "") -> WatchedName:
    stat = place.stat()
    return WatchedName(str(place), str(place), stat.st_dev, stat.st_ino, name, name, link_text)


def test_a_planted_file_is_moved_to_quarantine(place, tmp_path, guarding) -> None:
    guard = guarding(watch_of(place, ".envrc"))
    (place / ".envrc").write_text("evil")

    assert guard.sweep() == ()
    assert not (place / ".envrc").exists()
    assert [path.read_text() for path in (tmp_path / "quarantine").iterdir()] == ["evil"]
    (violation,) = guard.violations
    assert (violation.feature, violation.evidence) == (Feature.FS_PROTECT, Evidence.OBSERVED)
    assert violation.subject == str(place / ".envrc")


@pytest.mark.parametrize("kind", ["directory", "full directory", "link", "fifo", "closed directory"])
def test_whatever_is_planted_is_taken_away(place, guarding, kind: str) -> None:
    guard, planted = guarding(watch_of(place, ".git")), place / ".git"
    if kind == "fifo":
        os.mkfifo(planted)
    elif kind == "link":
        planted.symlink_to("/etc/passwd")
    else:
        (planted / "hooks").mkdir(parents=True)
        if kind == "closed directory":
            planted.chmod(0)

    assert guard.sweep() == ()
    assert not os.path.lexists(planted)
    assert os.path.exists("/etc/passwd")


def test_a_repository_may_be_made_where_the_plan_permits_it(place, guarding) -> None:
    guard = guarding(watch_of(place, ".git").replace(is_repository=True))
    (place / ".git").mkdir()

    assert guard.sweep() == ()
    assert (place / ".git").is_dir()
    assert guard.violations == []


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_repository_is_taken_away_there_as_well(place, guarding, kind: str) -> None:
    guard, planted = guarding(watch_of(place, ".git").replace(is_repository=True)), place / ".git"
    if kind == "file":
        planted.write_text("gitdir: /out")
    else:
        planted.symlink_to("/")

    assert guard.sweep() == ()
    assert not os.path.lexists(planted)


def test_a_repository_that_the_host_makes_is_told_and_one_of_a_command_is_not(place, guarding) -> None:
    guard = guarding(watch_of(place, ".git").replace(is_repository=True), watch_of(place, ".envrc"))
    assert guard.resume() == ()
    (place / ".git").mkdir()
    assert guard.sweep() == ()
    assert guard.resume() == ()

    (place / ".git").rename(place / "old")
    (place / ".git").mkdir()
    assert guard.resume() == (str(place / ".git"),)


@pytest.mark.parametrize("name", ["config", "config.worktree", "hooks/pre-push", "info/attributes", "new"])
def test_a_repository_of_a_command_that_the_host_changes_is_the_hosts(place: Path, guarding, name) -> None:
    guard = guarding(watch_of(place, ".git").replace(is_repository=True))
    for directory in ("hooks", "info"):
        (place / ".git" / directory).mkdir(parents=True)
    (place / ".git/config").touch()
    assert guard.sweep() == () == guard.resume()
    (place / ".git" / name).write_text("more")

    assert guard.resume() == (str(place / ".git"),)


def test_a_repository_of_the_hosts_with_the_number_of_a_commands_is_the_hosts(place: Path, guarding) -> None:
    guard = guarding(watch_of(place, ".git").replace(is_repository=True))
    (place / ".git").mkdir()
    guard.sweep()
    before = (place / ".git").stat()
    while (place / ".git").stat().st_ctime_ns == before.st_ctime_ns:  # as coarse as the kernel's tick
        (place / ".git").rmdir()
        (place / ".git").mkdir()

    assert guard.resume() == (str(place / ".git"),)


def test_other_names_are_left_alone(place, guarding) -> None:
    guard = guarding(watch_of(place, ".envrc"))
    (place / ".envrc.bak").touch()
    (place / "file").touch()
    guard.sweep()

    assert sorted(path.name for path in place.iterdir()) == [".envrc.bak", "file"]
    assert guard.violations == []


def test_a_link_that_was_replaced_is_put_back(place, guarding) -> None:
    (place / "link").symlink_to("good")
    guard = guarding(watch_of(place, "link", "good"))
    (place / "link").unlink()
    (place / "link").symlink_to("evil")
    guard.sweep()

    assert os.readlink(place / "link") == "good"
    assert len(guard.violations) == 1


def test_a_link_that_was_removed_is_put_back(place, guarding) -> None:
    guard = guarding(watch_of(place, "link", "good"))
    guard.sweep()

    assert os.readlink(place / "link") == "good"


def test_a_link_that_is_as_it_was_is_left_alone(place, guarding) -> None:
    (place / "link").symlink_to("good")
    inode = (place / "link").lstat().st_ino
    guard = guarding(watch_of(place, "link", "good"))
    guard.sweep()

    assert (place / "link").lstat().st_ino == inode
    assert guard.violations == []


def test_a_directory_that_was_closed_is_opened_for_the_moment(place, guarding) -> None:
    guard = guarding(watch_of(place, ".envrc"))
    (place / ".envrc").touch()
    place.chmod(0o500)

    left = guard.sweep()
    mode = place.stat().st_mode & 0o777
    place.chmod(0o700)

    assert (left, mode) == ((), 0o500)
    assert not (place / ".envrc").exists()


def test_nobody_looks_twice_within_two_milliseconds(place, guarding, monkeypatch) -> None:
    monkeypatch.setattr(guard_module, "_GLANCE_MS", 60_000)
    guard = guarding(watch_of(place, ".envrc"))
    (place / ".envrc").touch()
    guard.glance()

    assert (place / ".envrc").exists()
    assert guard.sweep() == ()
    assert not (place / ".envrc").exists()


def test_patience_ends(place, guarding, monkeypatch) -> None:
    monkeypatch.setattr(guard_module, "_GLANCE_MS", 0)
    guard = guarding(watch_of(place, ".envrc"))
    for attempt in range(PATIENCE):
        assert not guard.is_exhausted
        (place / ".envrc").write_text(str(attempt))
        guard.glance()

    assert guard.is_exhausted


def test_a_directory_that_was_renamed_is_watched_still(place, guarding) -> None:
    guard = guarding(watch_of(place, ".envrc"))
    moved = place.rename(place.with_name("moved"))
    (moved / ".envrc").touch()
    guard.sweep()

    assert not (moved / ".envrc").exists()


def test_a_long_run_is_told_by_the_kernel(place, guarding, monkeypatch) -> None:
    monkeypatch.setattr(guard_module, "_LISTEN_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(guard_module, "_GLANCE_MS", 0)
    guard = guarding(watch_of(place, ".envrc"))

    assert guard.glance()
    assert guard.patience_ms is None
    (place / "other").touch()
    (place / ".envrc").touch()
    readable, _, _ = select.select([guard.descriptor], [], [], 5)
    assert readable
    guard.react()
    assert sorted(path.name for path in place.iterdir()) == ["other"]


def test_a_link_in_place_of_the_directory_is_refused(place, tmp_path, guarding) -> None:
    (tmp_path / "alias").symlink_to(place)

    with pytest.raises(OSError, match="alias"):
        guarding(WatchedName(str(tmp_path / "alias"), str(tmp_path / "alias"), 0, 0, ".envrc", ".envrc"))


def test_no_descriptor_is_left(place, tmp_path) -> None:
    before = count_descriptors()
    guard = Guard([watch_of(place, ".envrc")], str(tmp_path / "quarantine"))
    guard.sweep()
    guard.close()

    assert count_descriptors() <= before


def test_something_that_cannot_be_moved_is_removed(place, tmp_path, guarding) -> None:
    (tmp_path / "quarantine").write_text("a file where the directory should be")
    guard = guarding(watch_of(place, ".git"))
    (place / ".git/hooks").mkdir(parents=True)

    assert guard.sweep() == ()
    assert not (place / ".git").exists()
    assert "removed" in guard.violations[0].detail


def test_what_was_put_aside_does_not_stay_in_a_directory_that_was_closed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root needs no right to write; here nobody has it without."""

    def remove(handle: int, name: str) -> None:
        if not os.fstat(handle).st_mode & 0o200:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        remove_tree(handle, name)

    monkeypatch.setattr(quarantine, "remove_tree", remove)
    (place / ".envrc").write_text("evil")
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    kept_nowhere = quarantine.Quarantine("")
    assert kept_nowhere.take(handle, ".envrc") == "it was removed"
    place.chmod(0o555)

    kept_nowhere.clear()
    os.close(handle)

    assert list(place.iterdir()) == []


def test_runs_that_begin_at_the_same_moment_share_their_directories(tmp_path, monkeypatch) -> None:
    make = os.mkdir

    def another_was_first(path, mode) -> None:
        make(path, mode)
        raise FileExistsError(path)

    monkeypatch.setattr(os, "mkdir", another_was_first)
    quarantine.make_private(str(tmp_path / "state/corral"))

    assert (tmp_path / "state/corral").is_dir()
