"""Executors on every backend that runs the caller's own Python, and a look around afterwards."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from corral.backends.registry import UNCONFINED
from corral.parallel.executor import SandboxExecutor
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.gates import PATIENCE_SECONDS, Gate
from support.workplaces import work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = os.path.dirname(os.path.realpath(__file__))

__all__ = ["work"]  # a fixture of these tests


@pytest.fixture
def gate(work: Path) -> Iterator[Gate]:
    """It tells when the last process that holds it is gone."""
    made = Gate(work / "gate")
    yield made
    made.close()


@pytest.fixture
def make(work: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., SandboxExecutor]]:
    """Makes an executor; what a backend does not claim of the policy is waived."""
    made: list[SandboxExecutor] = []

    def make_one(*capabilities: str, backend: str = "native", preset: str = "moderate", **more: object):
        policy = build_policy(preset, (f"filesystem:read:{HERE}", *capabilities))
        probe = next(Sandbox(backend=backend, workspace=work).probes())
        if not probe.available:
            required = request.config.getoption("--require").split(",")
            (pytest.fail if backend in required else pytest.skip)(f"{backend}: {probe.reason}")
        wish = Sandbox(policy, backend=UNCONFINED, workspace=work).explain(["true"]).plan.requires
        lacking = () if backend == UNCONFINED else wish - probe.enforces
        sandbox = Sandbox(policy, backend=backend, workspace=work, waive=lacking)
        made.append(SandboxExecutor(sandbox, **more))
        return made[-1]

    yield make_one
    for executor in made:
        executor.shutdown(cancel_futures=True)


@pytest.fixture
def native(make: Callable[..., SandboxExecutor]) -> None:
    """Skips, with the reason, where programs that leave the choice to corral would not get `native`."""
    make()


@pytest.fixture
def executor(make: Callable[..., SandboxExecutor]) -> SandboxExecutor:
    return make(max_workers=4)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """Neither processes in the workspace nor scratch directories."""
    yield
    place = tmp_path / "work"
    if not place.exists():
        return
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := _processes_in(place)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == []
    assert list(tmp_path.glob("temporary/*")) == []


def _processes_in(place: Path) -> list[str]:
    wanted = (place.stat().st_dev, place.stat().st_ino)
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            status = os.stat(f"/proc/{name}/cwd")
        except OSError:  # it is gone, or belongs to somebody else
            continue
        if (status.st_dev, status.st_ino) == wanted:
            found.append(name)
    return found
