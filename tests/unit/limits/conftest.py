"""Control groups of both versions, made of ordinary directories."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from corral.model.enforcer import CGROUP1, CGROUP2
from support.control_groups import FakeGroups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.insert(0, str(Path(__file__).parent))  # for `fake_manager`, in whatever way pytest imports the tests


@pytest.fixture
def version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """A tree for each controller."""
    return FakeGroups(tmp_path, CGROUP1, monkeypatch)


@pytest.fixture
def version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """One tree for all controllers."""
    return FakeGroups(tmp_path, CGROUP2, monkeypatch)


@pytest.fixture
def member() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not end by itself."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()
