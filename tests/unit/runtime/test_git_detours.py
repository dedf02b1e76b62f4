"""What leads git elsewhere than it leads corral: links of a process, two readings of a text, long paths."""

from __future__ import annotations

import pytest

from support.git_repository import CONFIG, make_repository, put

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
