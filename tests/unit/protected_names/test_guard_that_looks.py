"""How the guard looks: where it begins, what it may skip, and what it must not."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

import pytest

from corral.model.plan import WatchedName
from corral.protected_names import guard as guard_module
from corral.protected_names import watched as watched_module
from corral.protected_names.guard import Guard
from corral.protected_names.notices import Inotify
from corral.protected_names.watched import WatchedDirectory
from support.descriptors import count_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_OVERFLOW = 0x4000  # IN_Q_OVERFLOW


def watch_of(directory: Path, name: str, root: Path | None = None, link_text: str = "") -> WatchedName:
    stat = directory.stat()
    return WatchedName(
        str(root or directory), str(directory), stat.st_dev, stat.st_ino, name, name, link_text
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(guard_module, "_GLANCE_MS", 0)
    (tmp_path / "work/sub").mkdir(parents=True)
    return tmp_path / "work"


def test_two_names_in_one_directory_are_both_watched(place, guarding) -> None:
    guard = guarding(watch_of(place, ".envrc"), watch_of(place, ".mcp.json"))
    for name in (".envrc", ".mcp.json"):
        (place / name).touch()
    guard.glance()

    assert [path.name for path in place.iterdir()] == ["sub"]


def test_a_directory_beneath_the_root_is_the_one_that_is_watched(place, guarding) -> None:
    guard = guarding(watch_of(place / "sub", ".envrc", root=place))
    for directory in (place, place / "sub"):
        (directory / ".envrc").touch()
    guard.sweep()

    assert (place / ".envrc").exists()
    assert not (place / "sub/.envrc").exists()


def test_a_directory_that_is_another_one_by_now_is_refused(place, guarding) -> None:
    planned = watch_of(place / "sub", ".envrc", root=place)
    (place / "sub").rename(place / "old")
    (place / "sub").mkdir()

    with pytest.raises(OSError) as refused:
        guarding(planned)
    assert refused.value.errno == errno.ESTALE


def test_a_link_on_the_way_is_refused(place, guarding) -> None:
    planned = watch_of(place / "sub", ".envrc", root=place)
    (place / "sub").rename(place / "old")
    (place / "sub").symlink_to("old")

    with pytest.raises(OSError) as refused:
        guarding(planned)
    assert refused.value.errno in {errno.ENOTDIR, errno.ELOOP}


def test_as_long_as_nobody_tells_it_wants_to_look(place, guarding, monkeypatch) -> None:
    monkeypatch.setattr(guard_module, "_GLANCE_MS", 2)

    assert guarding(watch_of(place, ".envrc")).patience_ms == 2


class Registered(list[int]):
    """A poller that only says what it was given."""

    def register(self, descriptor: int, _mask: int) -> None:
        self.append(descriptor)


def test_a_loop_waits_for_the_descriptor_as_soon_as_there_is_one(place, guarding, monkeypatch) -> None:
    guard, looking, listening = guarding(watch_of(place, ".envrc")), Registered(), Registered()
    assert (guard.prepare(looking), looking) == (0, [])
    monkeypatch.setattr(guard_module, "_LISTEN_AFTER_SECONDS", 0)
    guard.glance()

    assert (guard.prepare(listening), listening) == (None, [guard.descriptor])


def test_a_loop_that_attends_to_it_has_it_look(place, guarding) -> None:
    guard = guarding(watch_of(place, ".envrc"))
    (place / ".envrc").touch()

    assert not guard.attend()
    assert not (place / ".envrc").exists()


class Made(guard_module.NoRepositories):
    """A repository has been made."""

    looks = 0

    def is_made_at_the_top(self) -> bool:
        return True

    def glance(self) -> None:
        self.looks += 1


@pytest.mark.parametrize(("repositories", "expected"), [(Made(), 20), (guard_module.NoRepositories(), None)])
def test_what_nobody_tells_of_is_looked_at_from_time_to_time(
    place, tmp_path, monkeypatch, repositories: guard_module.NoRepositories, expected: int | None
) -> None:
    monkeypatch.setattr(guard_module, "_LISTEN_AFTER_SECONDS", 0)
    guard = Guard([watch_of(place, ".envrc")], str(tmp_path / "quarantine"), repositories)
    try:
        assert guard.glance()
        assert guard.patience_ms == expected
        listening = guard.descriptor
        assert not guard.glance()
        assert guard.descriptor == listening
    finally:
        guard.close()
    assert getattr(repositories, "looks", 2) == 2


def test_a_command_that_keeps_trying_in_a_repository_of_its_own_is_ended(place, tmp_path) -> None:
    repositories = Made()
    guard = Guard([watch_of(place, ".envrc")], str(tmp_path / "quarantine"), repositories)
    try:
        assert not guard.is_exhausted
        repositories.found_at_the_top = guard_module.PATIENCE
        assert guard.is_exhausted
    finally:
        guard.close()


def test_what_is_right_is_not_touched_by_a_look(place, guarding) -> None:
    (place / "link").symlink_to("good")
    inode = (place / "link").lstat().st_ino
    guard = guarding(watch_of(place, "link", link_text="good"))
    guard.glance()

    assert (place / "link").lstat().st_ino == inode
    assert guard.violations == []


class Scarce:
    """A libc whose inotify has no more instances, or no more watches."""

    def __init__(self, has_instance: bool) -> None:
        self.has_instance = has_instance

    def inotify_init1(self, _flags: int) -> int:
        return os.open("/", os.O_RDONLY) if self.has_instance else -1

    def inotify_add_watch(self, *_: object) -> int:
        return -1


@pytest.mark.parametrize("has_instance", [False, True])
def test_where_nobody_can_tell_it_looks_on(place, guarding, monkeypatch, has_instance: bool) -> None:
    """A user has few inotify instances, and so many watches."""
    monkeypatch.setattr(guard_module, "_LISTEN_AFTER_SECONDS", 0.0)
    guard = guarding(watch_of(place, ".envrc"))
    before = count_descriptors()
    with monkeypatch.context() as scarce:
        scarce.setattr(ctypes, "CDLL", lambda *_, **__: Scarce(has_instance))
        is_told = guard.glance()

    assert (is_told, guard.descriptor) == (False, -1)
    assert count_descriptors() <= before
    (place / ".envrc").touch()
    guard.glance()
    assert not (place / ".envrc").exists()


def test_where_the_kernel_could_not_tell_all_everything_is_looked_at(place, guarding) -> None:
    guard = guarding(watch_of(place, ".envrc"))
    (place / ".envrc").touch()
    guard._notices = Inotify()
    guard._notices.close()
    guard._notices.descriptor, writer = os.pipe()
    guard.descriptor = guard._notices.descriptor
    os.write(writer, struct.pack("iIII", -1, _OVERFLOW, 0, 0))
    os.close(writer)
    guard.react()

    assert not (place / ".envrc").exists()


def test_whoever_has_listened_leaves_no_descriptor(place, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(guard_module, "_LISTEN_AFTER_SECONDS", 0.0)
    before = count_descriptors()
    guard = Guard([watch_of(place, ".envrc")], str(tmp_path / "quarantine"))
    assert guard.glance()
    guard.close()

    assert count_descriptors() <= before


def test_times_that_are_trusted_hide_nothing(place, guarding) -> None:
    guard = guarding(watch_of(place, ".envrc"))
    guard.trust_times(lambda _: True)
    os.utime(place, (1, 1))
    for _ in range(2):
        assert guard.resume() == ()
    (place / ".envrc").touch()

    assert guard.resume() == (str(place / ".envrc"),)


def test_a_second_change_within_a_tick_is_not_hidden(place, guarding, monkeypatch) -> None:
    """The time of a directory is as coarse as the kernel's clock: here it stands still."""
    guard = guarding(watch_of(place, ".envrc"))
    guard.trust_times(lambda _: True)
    now = os.stat(place).st_ctime_ns

    class Still:
        st_ctime_ns, st_mode = now, os.stat(place).st_mode

    with monkeypatch.context() as still:
        still.setattr(guard_module.os, "fstat", lambda _: Still)
        still.setattr(guard_module.time, "time_ns", lambda: now + 1)
        before = guard.resume()
        (place / ".envrc").touch()
        after = guard.resume()

    assert (before, after) == ((), (str(place / ".envrc"),))


def test_without_a_home_nothing_is_kept(place) -> None:
    guard = Guard([watch_of(place, ".envrc")], "")
    (place / ".envrc").touch()

    assert guard.sweep() == ()
    assert [path.name for path in place.iterdir()] == ["sub"]
    assert "removed" in guard.violations[0].detail
    guard.close()


def test_what_was_there_for_a_moment_only_is_no_violation(place, guarding, monkeypatch) -> None:
    guard = guarding(watch_of(place, ".envrc"))
    (place / ".envrc").touch()
    rename = os.rename

    def vanish(source: str, *more: object, **named: object) -> None:
        (place / ".envrc").unlink()
        rename(source, *more, **named)

    monkeypatch.setattr(guard_module.os, "rename", vanish)
    guard.sweep()

    assert guard.violations == []


def test_one_that_is_moved_away_is_watched_where_it_is(place, guarding) -> None:
    """It is held open: its name leads elsewhere."""
    guard = guarding(watch_of(place / "sub", ".envrc", root=place))
    (place / "sub").rename(place / "moved")
    guard.glance()
    os.utime(place / "moved", (1, 1))
    (place / "moved" / ".envrc").touch()
    guard.glance()

    assert not (place / "moved" / ".envrc").exists()


@pytest.fixture
def many(place, guarding, monkeypatch) -> tuple[Guard, list[Path]]:
    """More directories than a guard holds open, by far."""
    monkeypatch.setattr(guard_module, "MOST_HELD", 2)
    directories = [place / str(number) for number in range(6)]
    for directory in directories:
        directory.mkdir()
    before = count_descriptors()
    guard = guarding(*(watch_of(directory, ".envrc", root=place) for directory in directories))
    assert count_descriptors() - before == 2
    return guard, directories


@pytest.mark.parametrize("how", ["glance", "sweep", "react"])
def test_where_there_are_very_many_none_is_forgotten(many, how: str) -> None:
    guard, directories = many
    if how == "react":
        assert guard.glance(), "then it does not wait until the run has lasted a while"
    for directory in directories:
        (directory / ".envrc").touch()
    getattr(guard, how)()

    assert [path.name for directory in directories for path in directory.iterdir()] == []
    assert guard.sweep() == () and guard.take_findings() == ()
    assert len(guard.violations) == len(directories)


@pytest.mark.parametrize("how", ["glance", "sweep"])
def test_one_of_very_many_that_was_moved_away_is_told_once(many, how: str) -> None:
    """Nobody holds it, so that nobody knows where it is; and another one has its name."""
    guard, directories = many
    directories[-1].rename(directories[-1].with_name("moved"))
    directories[-1].mkdir()
    (directories[-1] / ".envrc").touch()
    for _ in range(2):
        getattr(guard, how)()

    assert [violation.subject for violation in guard.take_findings()] == [str(directories[-1])]
    assert guard.descriptor >= 0 or how == "sweep", "of the others the kernel tells"
    assert (directories[-1] / ".envrc").exists(), "what is not watched is not touched"
    assert not guard.violations and not guard.is_exhausted
    assert guard.resume() == () == guard.take_findings()


def test_one_of_very_many_that_cannot_be_opened_is_not_taken_for_right(many, monkeypatch) -> None:
    guard, directories = many

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "closed")

    monkeypatch.setattr(watched_module, "open_beneath", refuse)

    assert guard.sweep() == tuple(map(str, directories[2:]))


def test_very_many_are_not_looked_at_all_the_time(many, monkeypatch) -> None:
    """Where the kernel tells nothing: the command is to get a turn as well."""
    guard, directories = many
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Scarce(has_instance=False))
    now = 100.0
    monkeypatch.setattr(guard_module.time, "monotonic", lambda: now)
    guard.resume()
    stamp = WatchedDirectory.stamp

    def slow(directory: WatchedDirectory) -> int:
        nonlocal now
        now += 1.0
        return stamp(directory)

    with monkeypatch.context() as slowly:
        slowly.setattr(WatchedDirectory, "stamp", slow)
        guard.glance()
    (directories[-1] / ".envrc").touch()
    guard.glance()
    assert (directories[-1] / ".envrc").exists()
    now += 5 * len(directories)
    guard.glance()

    assert not (directories[-1] / ".envrc").exists()
