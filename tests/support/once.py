"""What takes long is made once for all workers of a run of the tests: the first who needs it makes it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A file of this name, which `make` has written; whoever asks meanwhile waits.

    It lies where the workers of this run have their temporary directories, and no other run looks.
    """
    own = factory.getbasetemp()
    place = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            unfinished = place.with_name(f"{name}.unfinished")  # who fails leaves nothing that seems made
            make(unfinished)
            unfinished.rename(place)
    return place
