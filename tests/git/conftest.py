"""A repository to copy, corral where every user can read it, and stages of one user or another."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import click
import pytest

import corral
from support.git_stage import PLAIN, Stage, make_template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.git_trap import Trap

    MakeStage = Callable[..., Stage]

OWN, ORDINARY = "own", "ordinary"
USER = 61_237  # in nobody's password file; it owns what is made here and nothing else


@pytest.fixture(autouse=True)
def _tools() -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    reason = _why_nothing_is_watched()
    if reason:
        pytest.skip(reason)


@cache
def _why_nothing_is_watched() -> str:
    if shutil.which("strace") is None:
        return "there is no strace to watch git with"
    done = subprocess.run(
        ["strace", "--seccomp-bpf", "-f", "-o", os.devnull, "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"strace cannot watch here: {done.stderr.strip()}" if done.returncode else ""


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    place = _open_directory()
    try:
        yield make_template(place)
    finally:
        shutil.rmtree(place)


@pytest.fixture(scope="session")
def packages() -> Iterator[Path]:
    """Corral and click where every user can read them."""
    place = _open_directory()
    for package in (corral, click):
        source = Path(str(package.__file__)).parent
        shutil.copytree(source, place / source.name, ignore=shutil.ignore_patterns("*.pyc.*"))
    for path in place.rglob("*"):
        path.chmod(path.stat().st_mode | 0o444 | (0o111 if path.is_dir() or os.access(path, os.X_OK) else 0))
    yield place
    shutil.rmtree(place)


@pytest.fixture
def stage(template: Path) -> Iterator[MakeStage]:
    """Makes stages for traps, as OWN or as an ORDINARY user. Nothing is left of them, whatever traps did."""
    yield from _stages(template)


@pytest.fixture(scope="module")
def lasting_stage(template: Path) -> Iterator[MakeStage]:
    """The same for tests that go back to one stage, each to try something else on it."""
    yield from _stages(template)


def _stages(template: Path) -> Iterator[MakeStage]:
    places: list[Path] = []

    def make(traps: tuple[Trap, ...] = (), user: str = OWN, layout: str = PLAIN) -> Stage:
        if user == ORDINARY and os.geteuid() != 0:
            pytest.skip("the tests run as an ordinary user already")
        if user == ORDINARY and shutil.which("setpriv") is None:
            pytest.skip("there is no setpriv to become another user with")
        places.append(_open_directory())
        return Stage(places[-1], template, traps, USER if user == ORDINARY else os.geteuid(), layout)

    yield make
    for place in places:
        shutil.rmtree(place)


def _open_directory() -> Path:
    """Not pytest's own: others cannot enter that."""
    place = Path(tempfile.mkdtemp(prefix="corral-git-"))
    place.chmod(0o755)
    return place
