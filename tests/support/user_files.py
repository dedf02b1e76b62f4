"""A user without any configuration yet."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def forget_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Take the caller's own settings away, and return where the user's file would be; it is not there."""
    for name in list(os.environ):
        if name.startswith("CORRAL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "config" / "corral").mkdir(parents=True)
    return tmp_path / "config" / "corral" / "corral.toml"
