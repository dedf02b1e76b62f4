"""What leads git elsewhere than it leads corral: links of a process, two readings of a text, long paths."""

from __future__ import annotations

import hashlib
import os
import struct

import pytest

from support.git_repository import CONFIG, EVIL, make_repository, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.runtime.repositories import RepositoryCheck


def make_submodule(git: Path, name: str = "m", worktree: str = "../../../sub") -> Path:
    """One whose git directory names the directory `sub` of the workspace."""
    (git.parent / "sub").mkdir(exist_ok=True)
    return make_repository(git / "modules" / name, f"{CONFIG}\tworktree = {worktree}\n")


@pytest.mark.parametrize("way", ["../.git/modules/m", "/proc/self/cwd/.git/modules/m"])
def test_no_pointer_is_a_link(
    check: RepositoryCheck, git: Path, place: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Also not one that leads, for who looks, to what names this very worktree."""
    make_submodule(git)
    (place / "sub/.git").symlink_to(way)
    monkeypatch.chdir(place)

    assert check.sweep() == ()
    assert not (place / "sub/.git").is_symlink()


def test_no_pointer_leads_through_a_link_of_a_process(
    check: RepositoryCheck, git: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`..` behind it leads each process elsewhere."""
    make_submodule(git)
    (place / "sub/inner").mkdir()
    (place / "sub/here").symlink_to("/proc/self/cwd")
    put(place / "sub/.git", "gitdir: here/../../.git/modules/m\n")
    monkeypatch.chdir(place / "sub/inner")

    assert check.sweep() == ()
    assert not (place / "sub/.git").exists()


@pytest.mark.parametrize("above", ["modules/a", "modules/a/b", "worktrees/w/modules/a"])
def test_no_head_hides_the_git_directory_of_a_submodule(
    check: RepositoryCheck, place: Path, above: str
) -> None:
    """To git a directory with a HEAD, but without objects and refs, is a part of a submodule's name."""
    made = make_repository(place / "sub/.git")
    put(made / above / "HEAD", "ref: refs/heads/main\n")
    hidden = make_repository(made / above / "c/d", CONFIG + EVIL)
    put(hidden / "hooks/post-checkout", "#!/bin/sh\n")

    assert check.sweep() == ()
    assert (hidden / "config").read_text() == CONFIG
    assert os.listdir(hidden / "hooks") == ["pre-commit.sample"]


@pytest.mark.parametrize("inside", ["b", "info/b", "objects/info/b", "refs/b", "logs/refs/b"])
def test_a_git_directory_in_that_of_a_submodule_keeps_nothing_that_git_would_run(
    check: RepositoryCheck, place: Path, inside: str
) -> None:
    made = make_repository(place / "sub/.git")
    hidden = make_repository(make_repository(made / "modules/a") / inside, CONFIG + EVIL)

    assert check.sweep() == ()
    assert (hidden / "config").read_text() == CONFIG


def test_no_directory_is_among_objects(check: RepositoryCheck, git: Path) -> None:
    make_repository(git / "objects/ab/hidden")

    assert check.sweep() == ()
    assert os.listdir(git / "objects/ab") == []


@pytest.mark.parametrize(
    "setting",
    [
        "\tworktree = ../../../su\tb\n",  # older git reads a blank there
        "\tworktree = ../../../sub\n\tworktree = ../../../other\n",
    ],
)
def test_a_submodule_has_one_worktree_for_every_git(
    check: RepositoryCheck, place: Path, setting: str
) -> None:
    made = make_repository(place / "top/.git")
    module = make_repository(made / "modules/m", CONFIG + setting)
    for name in ("sub", "su\tb", "su b", "other"):
        put(place / "top" / name / ".git", "gitdir: ../.git/modules/m\n")

    assert check.sweep() == ()
    assert (module / "config").read_text().rstrip() == CONFIG.rstrip()


def make_index(path: str) -> bytes:
    """One that says of a directory that all of it is left out of the worktree."""
    entry = struct.pack(">10I", 0, 0, 0, 0, 0, 0, 0o40000, 0, 0, 0) + bytes(20)
    entry += struct.pack(">HH", 0x4000 | min(len(path), 0xFFF), 0x4000) + path.encode()
    data = b"DIRC" + struct.pack(">II", 3, 1) + entry + bytes(8 - len(entry) % 8) + b"sdir" + bytes(4)
    return data + hashlib.sha1(data).digest()


@pytest.mark.parametrize("depth", [1, 20])
def test_a_directory_that_git_has_left_out_is_not_there_however_long_its_path_is(
    check: RepositoryCheck, git: Path, place: Path, depth: int
) -> None:
    """Too long where it begins at the root, short enough where git begins."""
    parts = ["z" * (200 if depth > 1 else 1)] * depth
    here = os.open(place, os.O_RDONLY)
    for part in parts:
        os.mkdir(part, dir_fd=here)
        inner = os.open(part, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    (git / "index").write_bytes(make_index("/".join(parts) + "/"))

    assert check.sweep() == ()
    assert not (git / "index").exists()


def test_a_directory_that_git_has_left_out_and_that_is_gone_may_stay_so(
    check: RepositoryCheck, git: Path
) -> None:
    (git / "index").write_bytes(make_index("out/"))

    assert check.sweep() == ()
    assert check.take_violations() == ()
