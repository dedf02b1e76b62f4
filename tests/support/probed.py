"""What the backends of this host say of themselves. Each is asked once: asking starts a sandbox."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from corral.backends.registry import get_backend
from corral.host.real import RealHost
from support.engines import ENGINES
from support.user_engines import probe_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.probe import Probe


@cache
def probe_of(name: str) -> Probe:
    """What a backend says; for an engine, a private one is started."""
    return probe_engine(name) if name in ENGINES else get_backend(name).probe(RealHost())


def silence_engines(place: Path) -> str:
    """A directory for the PATH, where engines say at once that they do not work.

    To ask a real one takes most of a second, in every test that asks all backends.
    """
    place.mkdir()
    for name in ENGINES:
        (place / name).write_text("#!/bin/sh\necho 'no engine in this test' >&2\nexit 125\n")
        (place / name).chmod(0o755)
    return str(place)


def require(request: pytest.FixtureRequest, name: str = "native") -> None:
    """Skip a test where a backend does not work, or fail it where `--require` names that backend."""
    probe = probe_of(name)
    if not probe.available:
        required = request.config.getoption("--require").split(",")
        (pytest.fail if name in required else pytest.skip)(f"{name} is not available: {probe.reason}")
