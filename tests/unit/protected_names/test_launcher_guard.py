"""The guard of a run whose launcher watches over names: its lines become words, and nobody is left out."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from corral.linux.spec import NameFlag
from corral.model.plan import WatchedName
from corral.protected_names.launcher_guard import LauncherGuard, name_guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def plan(tmp_path: Path) -> SimpleNamespace:
    for name in ("top", "top/sub"):
        (tmp_path / name).mkdir()
    top, sub = (_names(tmp_path / name) for name in ("top", "top/sub"))
    watches = (top(".envrc", "label"), sub("hooks", "hooks"), top(".git", ".git", is_repository=True))
    resolved = SimpleNamespace(workspace=str(tmp_path / "top"), grants=())
    return SimpleNamespace(watches=watches, resolved=resolved)


def _names(place: Path):
    found = place.stat()

    def make(name: str, label: str, **more) -> WatchedName:
        return WatchedName(str(place), str(place), found.st_dev, found.st_ino, name, label, **more)

    return make


@pytest.fixture
def guard(plan, tmp_path: Path) -> Iterator[LauncherGuard]:
    made = LauncherGuard(plan, str(tmp_path / "quarantine"))
    yield made
    made.close()


def test_the_launcher_is_told_of_each_directory_once_with_its_names(plan, tmp_path: Path) -> None:
    told = name_guard(plan, f"{tmp_path}//quarantine/")

    assert told.quarantine == f"{tmp_path}/quarantine"
    assert [(each.path, [name.name for name in each.names]) for each in told.directories] == [
        (f"{tmp_path}/top", [".envrc", ".git"]),
        (f"{tmp_path}/top/sub", ["hooks"]),
    ]
    assert [name.flags for name in told.directories[0].names] == [NameFlag(0), NameFlag.REPOSITORY]
    assert told.directories[0].inode == (tmp_path / "top").stat().st_ino


def test_without_a_home_nothing_is_kept(plan) -> None:
    assert name_guard(plan, "").quarantine == ""


def test_what_was_planted_is_a_violation_with_its_fate(guard, tmp_path: Path) -> None:
    guard.hear(["planted 0 3", "planted 2 removed", "swept"])

    first, second = guard.violations
    assert first.subject == f"{tmp_path}/top/.envrc"
    assert first.detail == (
        "label is protected and must not be made by the command; "
        f"it was moved to {tmp_path}/quarantine/3-.envrc"
    )
    assert second.subject == f"{tmp_path}/top/sub/hooks"
    assert second.detail.endswith("; it was removed")
    assert guard.sweep() == ()


@pytest.mark.parametrize(
    "line", ["planted 3 0", "planted -1 0", "planted x 0", "gone 2", "made 0", "planted"]
)
def test_lines_that_mean_nothing_are_no_violation(guard, line: str) -> None:
    guard.hear([line])

    assert guard.violations == []
    assert guard.take_findings() == ()


def test_a_directory_that_has_gone_is_told(guard, tmp_path: Path) -> None:
    guard.hear(["gone 1"])

    assert [found.subject for found in guard.take_findings()] == [f"{tmp_path}/top/sub"]


def test_what_could_not_be_taken_away_is_left(guard, tmp_path: Path) -> None:
    guard.hear(["unremoved 0", "swept"])

    assert guard.sweep() == (f"{tmp_path}/top/.envrc",)


def test_a_command_that_the_launcher_has_ended_is_blocked(guard) -> None:
    assert not guard.attend()
    assert not guard.has_ended_it

    guard.hear(["blocked"])

    assert guard.attend()
    assert guard.has_ended_it


def test_if_the_launcher_was_killed_the_last_look_is_made_here(guard, tmp_path: Path) -> None:
    (tmp_path / "top/.envrc").write_text("evil")

    assert guard.sweep() == ()

    assert not (tmp_path / "top/.envrc").exists()
    assert [found.subject for found in guard.violations] == [f"{tmp_path}/top/.envrc"]
    assert os.listdir(tmp_path / "quarantine/afterwards") == ["0-.envrc"]


def test_what_the_launcher_has_swept_is_not_looked_at_again(guard, tmp_path: Path) -> None:
    """It is the host's own by then."""
    guard.hear(["swept"])
    (tmp_path / "top/.envrc").write_text("the host's")

    assert guard.sweep() == ()
    assert (tmp_path / "top/.envrc").exists()


def test_a_last_look_that_cannot_be_made_is_told(guard, tmp_path: Path) -> None:
    (tmp_path / "top/sub").rename(tmp_path / "top/other")

    assert guard.sweep() == (f"{tmp_path}/top/sub",)


def test_nobody_waits_for_names(guard) -> None:
    assert guard.patience_ms is None


def test_a_repository_at_the_top_is_looked_at(plan) -> None:
    guard = LauncherGuard(plan, "", SimpleNamespace(is_made_at_the_top=lambda: True))

    assert guard.patience_ms == 20


def test_a_last_look_without_a_home_keeps_nothing(plan, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "top/.envrc").write_text("evil")

    assert LauncherGuard(plan, "").sweep() == ()

    assert sorted(os.listdir(tmp_path)) == ["top"]
    assert os.listdir(tmp_path / "top") == ["sub"]
