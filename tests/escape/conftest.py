"""Where a backend is an engine, it is a private one."""

from __future__ import annotations

import os

import pytest

from support.controls import control
from support.engines import ENGINES
from support.user_engines import start_engine, why_not

__all__ = ["control"]  # a fixture of these tests


@pytest.fixture(autouse=True)
def private_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found on the PATH by the tests that are about it, named by the parameter `name`."""
    name = request.node.callspec.params.get("name") if hasattr(request.node, "callspec") else None
    if name not in ENGINES:
        return
    reason = why_not(name)
    if reason:
        pytest.skip(reason)
    monkeypatch.setenv("PATH", f"{start_engine(name)}{os.pathsep}{os.environ['PATH']}")
