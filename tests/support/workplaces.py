"""A workspace for a test, with everything that corral remembers fresh as well."""

from __future__ import annotations

from pathlib import Path

import pytest

_OWN = (("temporary", "TMPDIR"), ("state", "XDG_STATE_HOME"), ("home", "HOME"))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace. What corral remembers, and where it keeps its own, is fresh as well."""
    for name, variable in _OWN:
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    made = tmp_path / "work"
    made.mkdir()
    return made
