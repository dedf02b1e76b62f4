"""Docker and podman as a user has them, but private: each worker has its own, with an image of corral's."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from corral.backends.registry import get_backend
from corral.host.real import RealHost
from corral.model.container import DEFAULT_IMAGE, Container
from corral.model.probe import Probe
from support.engines import ENGINES, why_unavailable
from support.images import build_once, install_engine, why_not_buildable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.engines import Engine

VARIANT = "python"
#: The workspace keeps its path, so that the same scripts run on every backend.
CONTAINER = Container(image=f"corral/sandbox:{VARIANT}", workspace="")

_running: dict[str, Engine] = {}
_programs: dict[str, Path] = {}


def why_not(name: str) -> str:
    """Why an engine of this name cannot be tried here; empty if it can."""
    return why_unavailable(name) or why_not_buildable()


def probe_engine(name: str) -> Probe:
    """Start a private engine, if it does not run yet, and let its backend look at it."""
    reason = why_not(name)
    if reason:
        return Probe(name, False, reason=reason)
    programs = start_engine(name)
    before = dict(os.environ)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    try:
        return get_backend(name).probe(RealHost())
    finally:
        os.environ.clear()
        os.environ.update(before)


def start_engine(name: str) -> Path:
    """The directory with the program that is the private engine."""
    if name not in _running:
        archive = build_once(VARIANT)
        programs = Path(tempfile.mkdtemp(prefix="corral-programs-"))
        engine = ENGINES[name](())
        _running[name], _programs[name] = engine, programs
        try:
            engine._check(["import", str(archive), CONTAINER.image])
            engine._check(["tag", CONTAINER.image, DEFAULT_IMAGE])
            install_engine(engine, programs)
        except BaseException:  # one without its image is not taken for one by the next test
            stop_engine(name)
            raise
    return _programs[name]


def engine_of(name: str) -> Engine:
    """The private engine itself, to look at what is left in it."""
    start_engine(name)
    return _running[name]


def stop_engine(name: str) -> None:
    """End it, and all that runs in it."""
    engine = _running.pop(name, None)
    if engine is not None:
        shutil.rmtree(_programs.pop(name), ignore_errors=True)
        engine.close()


def stop_engines() -> None:
    """At the end of a session: a worker does not live to see its own exit handlers."""
    for name in tuple(_running):
        stop_engine(name)
