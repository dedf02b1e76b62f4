"""What a command leaves for git is looked at in a bounded number of steps; the host's own may need more."""

from __future__ import annotations

import os
import struct

import pytest

from corral.git_check.check import RepositoryCheck
from corral.git_check.scope import scope_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MIB = 1 << 20
FEW_STEPS = 1000


@pytest.fixture
def git(place: Path) -> Path:
    for name in ("objects/pack", "refs/heads", "info", "logs"):
        (place / ".git" / name).mkdir(parents=True)
    (place / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (place / ".git/config").write_text("[core]\n\tbare = false\n")
    return place / ".git"


@pytest.fixture
def begin(git: Path, tmp_path: Path, make_plan) -> Callable[[], RepositoryCheck]:
    def make() -> RepositoryCheck:
        plan = make_plan(writable=(str(git.parent),), worktrees=(str(git.parent),))
        check = RepositoryCheck(scope_of(plan), str(tmp_path / "quarantine"))
        check.begin()
        return check

    return make


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.git_check.check.MOST_MORE_STEPS", FEW_STEPS, raising=False)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of every entry that git's directories were asked for."""
    names: list[str] = []
    real = os.scandir

    class Counted:
        def __init__(self, place: int) -> None:
            self._entries = real(place)

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            return self._count()

        def __exit__(self, *_: object) -> None:
            self._entries.close()

        def _count(self) -> Iterator[os.DirEntry[str]]:
            for entry in self._entries:
                names.append(entry.name)
                yield entry

    monkeypatch.setattr("corral.git_check.files.os.scandir", Counted)
    return names


def bytes_read() -> int:
    """By this thread, as the kernel counts."""
    with open("/proc/thread-self/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


def make_sparse(path: Path, size: int, head: bytes = b"") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head)
    os.truncate(path, size)


def flood(directory: Path, number: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in range(number):
        (directory / str(name)).symlink_to("/x")


def test_a_file_of_nothing_but_its_size_is_not_read(begin: Callable[..., RepositoryCheck], git: Path) -> None:
    check = begin()
    make_sparse(git / "index", 512 * MIB, b"DIRC" + struct.pack(">II", 2, 1))
    before = bytes_read()

    assert check.sweep() == ()
    assert bytes_read() - before < MIB
    assert not (git / "index").exists()
    assert [found.subject for found in check.take_violations()] == [str(git / "index")]


def test_many_large_files_are_not_all_read(begin: Callable[..., RepositoryCheck], git: Path) -> None:
    check = begin()
    todos = [git / f"worktrees/{number}/rebase-merge/git-rebase-todo" for number in range(40)]
    for todo in todos:
        make_sparse(todo, 3 * MIB, b"exec ./evil\n")
    before = bytes_read()

    assert check.sweep() == ()
    assert bytes_read() - before < 40 * 3 * MIB  # each look reads a few, and takes them away
    assert not any(todo.exists() for todo in todos)


@pytest.mark.usefixtures("few_steps")
def test_a_new_directory_with_too_much_in_it_is_taken_away_as_a_whole(
    begin: Callable[..., RepositoryCheck], git: Path, listed: list[str]
) -> None:
    check = begin()
    flood(git / "logs/refs/heads", 2 * FEW_STEPS)
    (git / "COMMIT_EDITMSG").symlink_to("/x")
    listed.clear()

    assert check.sweep() == ()
    assert len(listed) < 2 * (FEW_STEPS + 100)  # two looks, the second finds nothing
    assert not (git / "logs/refs/heads").exists()
    assert not (git / "COMMIT_EDITMSG").is_symlink()


@pytest.mark.usefixtures("few_steps")
def test_one_that_was_there_before_is_told_and_the_rest_is_looked_at(
    begin: Callable[..., RepositoryCheck], git: Path, listed: list[str]
) -> None:
    check = begin()
    flood(git / "refs/heads", 2 * FEW_STEPS)
    (git / "rebase-merge").mkdir()
    (git / "rebase-merge/strategy").write_text("evil")
    listed.clear()

    assert check.sweep() == (str(git / "refs/heads"),)
    assert len(listed) < 4 * (FEW_STEPS + 100)
    assert not (git / "rebase-merge/strategy").exists()


@pytest.mark.usefixtures("few_steps")
def test_names_that_git_would_follow_are_counted(begin: Callable[..., RepositoryCheck], git: Path) -> None:
    """Each is looked up on the host, which takes longer than to write it."""
    check = begin()
    (git / "objects/info").mkdir()
    (git / "objects/info/alternates").write_text("../../x\n" * FEW_STEPS)

    assert check.sweep() == ()
    assert not (git / "objects/info/alternates").exists()


@pytest.mark.usefixtures("few_steps")
def test_the_hosts_own_may_be_as_large_as_it_is(begin: Callable[..., RepositoryCheck], git: Path) -> None:
    for number in range(FEW_STEPS):
        (git / f"refs/heads/{number}").write_text("0" * 40)
    check = begin()
    for _ in range(2):  # also when the look before was remembered
        (git / "refs/heads/new").write_text("0" * 40)
        assert check.sweep() == ()
        check.begin()

    assert check.take_violations() == ()
    assert len(os.listdir(git / "refs/heads")) == FEW_STEPS + 1


def test_what_is_not_read_is_known_by_more_than_its_name(
    begin: Callable[..., RepositoryCheck], git: Path
) -> None:
    make_sparse(git / "rebase-merge/git-rebase-todo", 5 * MIB, b"pick 1\n")
    make_sparse(git / "rebase-merge/author-script", 5 * MIB)
    check = begin()
    make_sparse(git / "rebase-merge/git-rebase-todo", 5 * MIB, b"exec ./evil\n")

    assert check.sweep() == ()
    assert sorted(os.listdir(git / "rebase-merge")) == ["author-script"]


def test_an_index_of_packs_may_be_large(begin: Callable[..., RepositoryCheck], git: Path) -> None:
    check = begin()
    names = b"pack-1.idx\0"
    chunks = struct.pack(">4sQ4sQ", b"PNAM", 36, bytes(4), 36 + len(names))
    head = b"MIDX\1\1\1\0" + struct.pack(">I", 1) + chunks + names
    make_sparse(git / "objects/pack/multi-pack-index", 6 * MIB, head)
    make_sparse(git / "objects/pack/multi-pack-index.d/x.midx", 6 * MIB, head.replace(b"pack-1", b"../x/1"))

    assert check.sweep() == ()
    assert sorted(os.listdir(git / "objects/pack")) == ["multi-pack-index", "multi-pack-index.d"]
    assert os.listdir(git / "objects/pack/multi-pack-index.d") == []
