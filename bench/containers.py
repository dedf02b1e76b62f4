"""Rows of docker and podman: a command in a kept sandbox, and what the engines' own commands take."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import corral
from processes import Place, session_row
from timing import Missing, Row

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.engines import EngineFailed as EngineFailed
from support.user_engines import CONTAINER, engine_of, start_engine, stop_engine, why_not

EVERY = 25
_PAUSE_SECONDS = 0.05


def make_rows(name: str, place: Place) -> Iterator[Row]:
    """A private engine is started for them, and ended with everything in it."""
    if reason := why_not(name):
        raise Missing(reason)
    programs = start_engine(name)
    place.stack.callback(stop_engine, name)
    engine = engine_of(name)
    options = engine._run_options(())
    container = engine.ask(
        "run", "--detach", "--stop-signal", "KILL", *options, CONTAINER.image, "/bin/sleep", "infinity"
    )[-1]
    place.stack.callback(engine.ask, "rm", "--force", container)
    yield session_row(f"session, {name}", _session(name, programs, place))
    ways = {
        "exec CONTAINER": ["exec", container],
        "run --rm IMAGE": ["run", "--rm", *options, CONTAINER.image],
    }
    for shown, arguments in ways.items():
        line = engine._line([*arguments, "/bin/true"])
        run = functools.partial(subprocess.run, line, capture_output=True, check=True)
        way = f"{name} {arguments[0]}"
        yield Row(way, f"`{name} {shown} /bin/true`", run, every=EVERY, settle=_pause)


def _session(name: str, programs: Path, place: Place) -> corral.sessions.session.Session:
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{programs}{os.pathsep}{before}"
    try:
        kept = corral.Sandbox("moderate", backend=name, workspace=place.project, container=CONTAINER)
        return place.stack.enter_context(kept.session())
    finally:
        os.environ["PATH"] = before


def _pause() -> None:
    """The engines go on for a moment after they have answered."""
    time.sleep(_PAUSE_SECONDS)
