"""Fixtures: somebody who types `corral ...`, as root and as an ordinary user."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

import click
import pytest

import corral
from support.named_sessions import ORDINARY, Person
from support.probed import probe_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def packages() -> Iterator[Path]:
    """Corral and click where every user can read them."""
    place = Path(tempfile.mkdtemp(prefix="corral-named-"))
    ignore = shutil.ignore_patterns("*.pyc.*")  # compiled files are kept, but for unfinished ones
    for package in (corral, click):
        source = Path(str(package.__file__)).parent
        shutil.copytree(source, place / source.name, ignore=ignore)
    place.chmod(0o755)
    for path in place.rglob("*"):
        path.chmod(path.stat().st_mode | 0o444 | (0o111 if path.is_dir() or os.access(path, os.X_OK) else 0))
    yield place
    shutil.rmtree(place)


@pytest.fixture(params=["own", "ordinary"])
def person(request: pytest.FixtureRequest, packages: Path) -> Iterator[Person]:
    """Whoever runs the tests; and, if that is root, an ordinary user as well."""
    uid = os.geteuid()
    if request.param == "ordinary":
        if uid != 0:
            pytest.skip("the tests run as an ordinary user already")
        if shutil.which("setpriv") is None:
            pytest.skip("there is no setpriv to become another user with")
        uid = ORDINARY
    yield from _made(packages, uid)


@pytest.fixture
def root_person(packages: Path) -> Iterator[Person]:
    """Whoever runs the tests."""
    yield from _made(packages, os.geteuid())


def _made(packages: Path, uid: int) -> Iterator[Person]:
    probe = probe_of("native")
    if not probe.available:
        pytest.skip(f"native is not available: {probe.reason}")
    root = Path(tempfile.mkdtemp(prefix="corral-person-"))
    root.chmod(0o755)
    person = Person(root, packages, uid)
    try:
        yield person
    finally:
        for record in root.rglob("*.session"):
            lines = dict(line.split("=", 1) for line in record.read_text().splitlines())
            if lines["state"] in {"starting", "running"}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(lines["pid"]), signal.SIGKILL)
        shutil.rmtree(root)
