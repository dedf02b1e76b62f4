"""Sandboxes of pools: the backends that can keep one, and how to make them in a test."""

from __future__ import annotations

from corral.model.container import Container
from support.engines import ENGINES
from support.user_engines import CONTAINER

LOCAL = ("native", "landlock", "bubblewrap")
EVERY = (*LOCAL, "firejail", *ENGINES)


def container_of(name: str) -> Container:
    """What an engine is told."""
    return CONTAINER if name in ENGINES else Container()
