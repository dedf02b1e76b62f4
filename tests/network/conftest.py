"""Fixtures: a network without a sandbox, servers that test names lead to, a backend to reach them from."""

from __future__ import annotations

import os

import pytest

from support.engines import ENGINES
from support.net_authority import Authority
from support.net_runs import LeakyPlace, Place, Site, why_not
from support.network_stage import make_stage
from support.user_engines import start_engine
from support.workplaces import work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.network_stage import Stage

__all__ = ["work"]  # a fixture of these tests


@pytest.fixture
def stage() -> Iterator[Stage]:
    with make_stage() as made:
        yield made


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Keys take time: one for all tests."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def site(authority: Authority, tmp_path: Path) -> Iterator[Site]:
    yield from Site(authority, tmp_path / "packages").serve()


@pytest.fixture
def place(request: pytest.FixtureRequest, work: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> Place:
    """On the backend that is its parameter; skipped, with the reason, where that cannot limit the network."""
    name = request.param
    monkeypatch.setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    for variable in tuple(os.environ):
        if variable.lower().endswith("_proxy"):
            monkeypatch.delenv(variable)
    if name == "leaky":
        return LeakyPlace(name, work, site)
    reason = why_not(name)
    if reason:
        required = request.config.getoption("--require").split(",")
        (pytest.fail if name in required else pytest.skip)(reason)
    if name in ENGINES:
        monkeypatch.setenv("PATH", f"{start_engine(name)}{os.pathsep}{os.environ['PATH']}")
    return Place(name, work, site)
