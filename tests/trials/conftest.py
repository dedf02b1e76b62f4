"""Fixtures: a workspace with a trial of it, and the state directory of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral import Sandbox
from corral.policy.compose import build_policy
from support.confinement import INTERPRETER
from support.persons import packages, person, root_person
from support.probed import probe_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.sessions.trial import Trial

__all__ = ["packages", "person", "root_person"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    probe = probe_of("native")
    if not probe.available:
        pytest.skip(f"native is not available: {probe.reason}")
    directory = tmp_path / "home"
    directory.mkdir()
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return directory


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A small project."""
    directory = tmp_path / "work"
    (directory / "src").mkdir(parents=True)
    (directory / "src/main.py").write_text("print('one')\n")
    (directory / "old").mkdir()
    (directory / "old/notes").write_text("old\n")
    (directory / "README").write_text("read me\n")
    return directory


@pytest.fixture
def trial(work: Path) -> Iterator[Trial]:
    """An empty trial of it."""
    sandbox = Sandbox(build_policy("moderate", INTERPRETER), backend="native", workspace=work)
    with sandbox.trial() as made:
        yield made
