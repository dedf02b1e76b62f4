"""Sandboxes of pools: the backends that can keep one, and how to make them in a test."""

from __future__ import annotations

from functools import cache

from corral.backends.registry import get_backend
from corral.host import RealHost
from corral.model.container import Container
from support.engines import ENGINES
from support.user_engines import CONTAINER, probe_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.probe import Probe

LOCAL = ("native", "landlock", "bubblewrap")
EVERY = (*LOCAL, "firejail", *ENGINES)


@cache
def probe_of(name: str) -> Probe:
    """What a backend says; for an engine, a private one is started."""
    return probe_engine(name) if name in ENGINES else get_backend(name).probe(RealHost())


def container_of(name: str) -> Container:
    """What an engine is told."""
    return CONTAINER if name in ENGINES else Container()
