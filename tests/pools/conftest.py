"""Fixtures: a workspace and a home of one's own, a sandbox on each backend that can be kept, a gate."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from corral import Feature, Sandbox
from corral.model.policy import Policy
from corral.policy.preset import load_preset
from support.engines import ENGINES
from support.gates import Gate
from support.pooled import container_of
from support.probed import probe_of
from support.user_engines import start_engine
from support.workplaces import work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["work"]  # a fixture of these tests


@pytest.fixture
def make_sandbox(
    request: pytest.FixtureRequest, work: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Sandbox]:
    """Make a sandbox of the workspace on a backend; skips, with the reason, if it is not there."""

    def make(backend: str = "native", policy: Policy | str = "moderate", **options: object) -> Sandbox:
        probe = probe_of(backend)
        if not probe.available:
            required = request.config.getoption("--require").split(",")
            complain = pytest.fail if backend in required else pytest.skip
            complain(f"{backend} is not available: {probe.reason}")
        if backend in ENGINES:
            monkeypatch.setenv("PATH", f"{start_engine(backend)}{os.pathsep}{os.environ['PATH']}")
        wanted = load_preset(policy) if isinstance(policy, str) else policy
        if backend in {"landlock", "firejail"}:  # they cannot do everything that is asked for
            options.setdefault("waive", frozenset(Feature) - probe.enforces)
        return Sandbox(wanted, backend=backend, workspace=work, container=container_of(backend), **options)

    return make


@pytest.fixture
def gate(work: Path) -> Iterator[Gate]:
    """It tells when the last process that holds it is gone."""
    made = Gate(work / "gate")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No thread of a pool outlives its test."""
    yield
    assert [thread for thread in threading.enumerate() if thread.name == "corral-pool"] == []
