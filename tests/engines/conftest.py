"""Fixtures: the measuring program, and a private engine of each kind, started once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.engines import ENGINES, why_unavailable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))  # the measurements are shared with it

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.engines import Engine


@pytest.fixture(scope="session")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that takes more and more of something."""
    from limits.program import build_measure

    return build_measure(tmp_path_factory.mktemp("measure"))


@pytest.fixture(scope="session", params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine that runs until the last test that needs it is over."""
    reason = why_unavailable(request.param)
    if reason:
        pytest.skip(reason)
    started = ENGINES[request.param]([request.getfixturevalue("measure")])
    yield started
    started.close()
