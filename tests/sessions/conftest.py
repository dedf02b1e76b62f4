"""Fixtures: a workspace, and sessions in it that end with the test, whatever becomes of it."""

from __future__ import annotations

import pytest

from support.controls import control
from support.keeping import Keeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["control"]  # a fixture of these tests


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    """Makes sessions in a fresh workspace; its quarantine is not the user's own."""
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    made = Keeper(tmp_path / "work")
    yield made
    made.close()
