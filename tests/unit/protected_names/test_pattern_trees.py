"""Patterns that are watched: whatever fulfils one later is removed, wherever it appears."""

from __future__ import annotations

import errno
import os
import select

import pytest

from corral.model.errors import SetupError
from corral.model.plan import Search, WatchedName
from corral.model.rules.pattern import glob_of
from corral.protected_names import guard as guard_module
from corral.protected_names import pattern_trees
from corral.protected_names.guard import Guard
from corral.protected_names.session_guard import SessionGuard
from corral.untrusted_files.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_NEVER_SECONDS = 20
_DEPTH = 520  # with such names longer than any path can be


def search_of(place: Path, *texts: str, known: tuple[str, ...] = (), closed: tuple[str, ...] = ()) -> Search:
    status = place.stat()
    globs = frozenset(glob_of(text, text) for text in texts or ("**/*.pem",))
    paths = [frozenset(str(place / name) for name in names) for names in (known, closed)]
    return Search(str(place), status.st_dev, status.st_ino, globs, *paths)


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("evil")


def _hear(guard: Guard) -> None:
    """Wait for the kernel; it tells at once, or never."""
    assert select.select([guard.descriptor], [], [], _NEVER_SECONDS)[0]
    guard.react()


def _until_gone(guard: Guard, path: Path) -> None:
    while path.exists():
        _hear(guard)


@pytest.mark.parametrize("name", ["a.pem", "new/deep/a.pem", "dir.pem/x", "odd\nname.pem", "\udcff.pem"])
def test_what_fulfils_a_pattern_is_taken_away(place: Path, tmp_path: Path, guarding, name: str) -> None:
    guard = guarding(searches=(search_of(place),))
    _make(place / name)
    _make(place / "new/kept.txt")

    assert guard.sweep() == ()
    assert [path.name for path in place.rglob("*") if path.name.endswith(".pem")] == []
    assert (place / "new/kept.txt").read_text() == "evil"
    assert len(guard.violations) == 1
    assert len(list((tmp_path / "quarantine").iterdir())) == 1


def test_what_was_there_before_stays(place: Path, guarding) -> None:
    _make(place / "old/a.pem")
    _make(place / "other/b.pem")
    guard = guarding(searches=(search_of(place, known=("old/a.pem",), closed=("other",)),))

    assert guard.sweep() == ()
    assert (place / "old/a.pem").exists()
    assert (place / "other/b.pem").exists()
    assert guard.violations == []


@pytest.mark.parametrize(
    ("text", "taken"), [("**/x/", {"a/x", "l/x"}), ("a/*", {"a/x"}), ("**/x/f", {"a/x/f"})]
)
def test_only_what_fulfils_it_is_taken(place: Path, guarding, text: str, taken: set[str]) -> None:
    for name in ("a/x/f", "b/f", "c/x"):
        _make(place / name)
    (place / "l").mkdir()
    (place / "l/x").symlink_to("/etc")
    guard = guarding(searches=(search_of(place, text),))

    assert guard.sweep() == ()
    assert {violation.subject.removeprefix(f"{place}/") for violation in guard.violations} == taken
    assert os.path.isdir("/etc")


def test_no_link_is_followed(place: Path, tmp_path: Path, guarding) -> None:
    _make(tmp_path / "elsewhere/a.pem")
    guard = guarding(searches=(search_of(place),))
    (place / "away").symlink_to(tmp_path / "elsewhere")

    assert guard.sweep() == ()
    assert (tmp_path / "elsewhere/a.pem").exists()


def test_the_kernel_tells_of_directories_that_come_later(place: Path, guarding, monkeypatch) -> None:
    monkeypatch.setattr(guard_module, "_LISTEN_AFTER_SECONDS", 0)
    guard = guarding(searches=(search_of(place),))
    while guard.descriptor < 0:
        guard.glance()
    for name in ("one/two/a.pem", "one/two/three/b.pem"):
        _make(place / name)
        _until_gone(guard, place / name)

    (place / "moved").mkdir()
    (place / "moved/c.txt").write_text("")
    (place / "moved").rename(place / "one/moved")
    (place / "one/moved/c.txt").rename(place / "one/moved/c.pem")
    _until_gone(guard, place / "one/moved/c.pem")

    (place / "one").rename(place / "old")
    _make(place / "one/x")
    _hear(guard)
    for name in ("one/d.pem", "old/two/e.pem"):
        _make(place / name)
        _until_gone(guard, place / name)

    made = ("one/two/a.pem", "one/two/three/b.pem", "one/moved/c.pem", "one/d.pem", "old/two/e.pem")
    assert [violation.subject for violation in guard.violations] == [str(place / name) for name in made]


def test_where_the_kernel_will_not_tell_it_is_looked(place: Path, guarding, monkeypatch) -> None:
    monkeypatch.setattr(guard_module, "_LISTEN_AFTER_SECONDS", 0)
    guard = guarding(searches=(search_of(place),))
    while guard.descriptor < 0:
        guard.glance()

    def refuse() -> list:
        raise OSError(28, "no more watches")

    monkeypatch.setattr(guard._trees, "heard", refuse)
    _make(place / "one/a.pem")
    _hear(guard)
    assert guard.patience_ms is not None
    while (place / "one/a.pem").exists():
        guard.glance()

    assert len(guard.violations) == 1


def test_what_lies_deeper_than_any_path_is_found(place: Path, guarding) -> None:
    guard = guarding(searches=(search_of(place),))
    handle = os.open(place, os.O_RDONLY)
    for _ in range(_DEPTH):
        os.mkdir("d" * 8, dir_fd=handle)
        above, handle = handle, os.open("d" * 8, os.O_RDONLY, dir_fd=handle)
        os.close(above)
    os.close(os.open("a.pem", os.O_CREAT | os.O_WRONLY, dir_fd=handle))

    assert guard.sweep() == ()
    assert os.listdir(handle) == []
    os.close(handle)
    remove_tree(str(place), "d" * 8)  # which others would not get down to


def test_a_closed_directory_is_looked_into(place: Path, guarding) -> None:
    guard = guarding(searches=(search_of(place),))
    _make(place / "closed/a.pem")
    (place / "closed").chmod(0)

    assert guard.sweep() == ()
    assert os.listdir(place / "closed") == []


@pytest.mark.parametrize("name", [".", "sub"])
def test_a_place_that_a_command_closes_is_opened_again(place: Path, guarding, monkeypatch, name: str) -> None:
    opened = pattern_trees.open_beneath

    def as_ordinary_user(root: str, directory: str) -> int:
        if not os.stat(directory).st_mode & 0o700:
            raise PermissionError(errno.EACCES, "closed", root)
        return opened(root, directory)

    monkeypatch.setattr(pattern_trees, "open_beneath", as_ordinary_user)
    guard = guarding(searches=(search_of(place),))
    _make(place / name / "a.pem")
    (place / name).chmod(0)

    assert guard.sweep() == ()
    assert os.listdir(place / name) == []


def test_another_place_that_is_closed_stays_closed(place: Path, monkeypatch) -> None:
    trees = pattern_trees.PatternTrees((search_of(place),))
    place.rename(place.with_name("planned"))
    place.mkdir()
    place.chmod(0)

    def closed(root: str, _directory: str) -> int:
        raise PermissionError(errno.EACCES, "closed", root)

    monkeypatch.setattr(pattern_trees, "open_beneath", closed)
    with pytest.raises(SetupError) as raised:
        trees.find(may_open=True)

    assert raised.value.code == "pattern-unseen"
    assert place.stat().st_mode & 0o777 == 0


def test_more_than_can_be_looked_at_is_said(place: Path, guarding, monkeypatch) -> None:
    guard = guarding(searches=(search_of(place),))
    for number in range(8):
        (place / f"d{number}").mkdir()
    monkeypatch.setattr(pattern_trees, "MOST_WORK", 4)

    with pytest.raises(SetupError) as raised:
        guard.sweep()

    assert (raised.value.code, raised.value.ran) == ("pattern-unseen", True)


def test_another_directory_in_the_place_of_the_planned_one_is_noticed(place: Path) -> None:
    search = search_of(place)
    place.rename(place.parent / "old")
    place.mkdir()

    with pytest.raises(OSError, match="changed since it was planned"):
        Guard((), "", searches=(search,))


def test_what_the_host_makes_between_commands_makes_a_kept_sandbox_stale(place: Path, make_plan) -> None:
    for plan in (
        make_plan().replace(searches=(search_of(place),)),
        make_plan().replace(host_searches=(search_of(place),)),
    ):
        session_guard = SessionGuard(plan, "")
        session_guard.end(session_guard.begin())
        _make(place / "new/a.pem")

        with pytest.raises(SetupError) as raised:
            session_guard.begin()

        assert raised.value.code == "session-stale"
        assert str(place / "new/a.pem") in raised.value.why
        (place / "new/a.pem").unlink()
        session_guard.close()


def test_a_directory_that_the_host_closes_between_commands_stays_closed(place: Path, make_plan) -> None:
    (place / "closed").mkdir()
    session_guard = SessionGuard(make_plan().replace(searches=(search_of(place),)), "")
    session_guard.end(session_guard.begin())
    (place / "closed").chmod(0)

    if os.geteuid() == 0:  # no mode is in the way of root
        session_guard.end(session_guard.begin(), is_leftover=False)
    else:
        with pytest.raises(SetupError, match="does not protect what is there now"):
            session_guard.begin()

    assert (place / "closed").stat().st_mode & 0o777 == 0
    session_guard.close()


@pytest.mark.parametrize(
    ("is_own", "can_be_entered", "counts"), [(False, True, True), (False, False, False), (True, False, True)]
)
def test_a_directory_of_another_user_counts_if_commands_can_enter_it(
    place: Path, monkeypatch, is_own: bool, can_be_entered: bool, counts: bool
) -> None:
    """Of mode 0711, say. Who runs the tests may be root, whom no mode keeps out."""
    theirs = place / "theirs"
    trees = pattern_trees.PatternTrees((search_of(place),))
    theirs.mkdir()
    look, open_beneath = os.lstat, pattern_trees.open_beneath

    def lstat(path: str) -> os.stat_result:
        if path == f"{theirs}/." and not can_be_entered:
            raise PermissionError(errno.EACCES, "shut", path)
        return look(path)

    def unlisted(root: str, directory: str) -> int:
        if directory == str(theirs):
            raise PermissionError(errno.EACCES, "closed", directory)
        return open_beneath(root, directory)

    monkeypatch.setattr(pattern_trees, "open_beneath", unlisted)
    monkeypatch.setattr(os, "geteuid", lambda: look(theirs).st_uid + (not is_own))
    monkeypatch.setattr(os, "lstat", lstat)

    assert trees.find_changes() == ([str(theirs)] if counts else [])


def test_what_is_out_of_the_way_is_not_taken_once_more(place: Path) -> None:
    """Without a home to keep it in, it has another name there until nothing runs any more."""
    guard = Guard((), "", searches=(search_of(place, "**/*"),))
    _make(place / "a")
    while (place / "a").exists():
        guard.glance()
    aside = os.listdir(place)

    assert [name.startswith(".corral-quarantine-") for name in aside] == [True]
    guard._inspect_all()
    guard._take_planted(guard._trees.find())
    assert os.listdir(place) == aside
    assert guard.sweep() == ()
    assert os.listdir(place) == []
    assert len(guard.violations) == 1
    guard.close()


def test_what_is_told_of_other_directories_is_no_matter(
    place: Path, tmp_path: Path, guarding, monkeypatch
) -> None:
    monkeypatch.setattr(guard_module, "_LISTEN_AFTER_SECONDS", 0)
    other = tmp_path / "other"
    other.mkdir()
    status = other.stat()
    watch = WatchedName(str(other), str(other), status.st_dev, status.st_ino, ".envrc", ".envrc")
    guard = guarding(watch, searches=(search_of(place),))
    while guard.descriptor < 0:
        guard.glance()
    _make(other / "x.pem")
    _hear(guard)
    _make(other / ".envrc")
    _until_gone(guard, other / ".envrc")

    assert (other / "x.pem").exists()


@pytest.mark.parametrize(
    ("number", "is_seen"), [(errno.ENOENT, True), (errno.ENOTDIR, True), (errno.EIO, False)]
)
def test_a_directory_that_is_gone_by_now_is_not_missed(
    place: Path, guarding, monkeypatch, number: int, is_seen: bool
) -> None:
    (place / "gone").mkdir()
    guard = guarding(searches=(search_of(place),))
    real = pattern_trees.open_beneath

    def open_beneath(root: str, directory: str) -> int:
        if directory.endswith("gone"):
            raise OSError(number, os.strerror(number), directory)
        return real(root, directory)

    monkeypatch.setattr(pattern_trees, "open_beneath", open_beneath)

    if is_seen:
        assert guard.sweep() == ()
        return
    with pytest.raises(SetupError) as raised:
        guard.sweep()
    assert raised.value.code == "pattern-unseen"
