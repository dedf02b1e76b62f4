"""Fixtures: a workspace, a sandbox of it, a gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral import aio
from support.gates import Gate
from support.probed import probe_of
from support.workplaces import work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["work"]  # a fixture of these tests


@pytest.fixture
def sandbox(request: pytest.FixtureRequest, work: Path) -> aio.Sandbox:
    probe = probe_of("native")
    if not probe.available:
        required = request.config.getoption("--require").split(",")
        (pytest.fail if "native" in required else pytest.skip)(f"native is not available: {probe.reason}")
    return aio.Sandbox("moderate", backend="native", workspace=work)


@pytest.fixture
def gate(work: Path) -> Iterator[Gate]:
    """It tells when the last process that holds it is gone."""
    made = Gate(work / "gate")
    yield made
    made.close()
