"""Files that the host runs later: whatever a run has changed among them is found, however little is asked."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.runtime.handoff import find_handoff, stamp_handoff
from corral.untrusted_files.unchanged import is_settled, stamp_of

CHANGES: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "nothing": (lambda top: None, ()),
    "a new one": (lambda top: (top / "Makefile").write_text("all:\n"), ("Makefile",)),
    "a new link": (lambda top: (top / "setup.py").symlink_to("nowhere"), ("setup.py",)),
    "one that was there": (lambda top: (top / "tox.ini").write_text("other\n"), ("tox.ini",)),
    "another in its place": (lambda top: (top / "spare").rename(top / "tox.ini"), ("tox.ini",)),
    "one that is gone": (lambda top: (top / "tox.ini").unlink(), ()),
    "one further down": (
        lambda top: (top / "tests/conftest.py").write_text("x = 1\n"),
        ("tests/conftest.py",),
    ),
    "a workflow": (
        lambda top: (top / ".github/workflows/new.yml").write_text("on: push\n"),
        (".github/workflows/new.yml",),
    ),
    "others": (lambda top: (top / "notes.txt").write_text("x\n"), ()),
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for directory in ("tests", ".github/workflows"):
        (tmp_path / directory).mkdir(parents=True)
    for name in ("tox.ini", "spare", ".github/workflows/old.yml"):
        (tmp_path / name).write_text("as it was\n")
    return tmp_path


@pytest.mark.parametrize("is_old", [False, True], ids=["just made", "settled"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_run_has_changed_is_found(workspace: Path, change: str, is_old: bool) -> None:
    if is_old:
        until_settled(workspace)
    act, expected = CHANGES[change]
    before = stamp_handoff(str(workspace))

    act(workspace)

    assert find_handoff(str(workspace), before) == expected


def test_names_that_are_missing_are_not_asked_for_again(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the kernel says that nothing was made in the directory since."""
    until_settled(workspace)
    if not is_settled(stamp_of(str(workspace)), time.time_ns()):
        pytest.skip("the file system of temporary files does not tell times that can be relied on")
    before = stamp_handoff(str(workspace))
    asked: list[str] = []
    lstat = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: (asked.append(str(path)), lstat(path))[1])

    assert find_handoff(str(workspace), before) == ()
    assert f"{workspace}/tox.ini" in asked
    assert f"{workspace}/Makefile" not in asked


def until_settled(workspace: Path) -> None:
    """Its last change is so long ago that another one has another time; a clock decides, nothing else."""
    changed = workspace.stat().st_ctime_ns
    while time.time_ns() < changed + 50_000_000:
        time.sleep(0.01)
