"""The directories of a test, as those of the conformance suite are."""

from __future__ import annotations

import pytest

from support.confinement import Stage, make_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return make_stage(tmp_path, monkeypatch)
