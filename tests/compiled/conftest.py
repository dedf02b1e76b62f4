"""Fixtures: corral where an ordinary user can use it, a project, and plans for that user and for root."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import click
import pytest

import corral
from corral.host.real import RealHost
from support.plan_stage import Stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ORDINARY = 61235  # in nobody's password file; it owns what is made here and nothing else


@pytest.fixture(scope="session")
def package() -> Iterator[Path]:
    """Corral and click where another user can read them."""
    place = Path(tempfile.mkdtemp(prefix="corral-compiled-"))
    place.chmod(0o755)
    ignore = shutil.ignore_patterns("*.pyc.*")  # compiled files are kept, but for unfinished ones
    for source in (Path(corral.__file__).parent, Path(click.__file__).parent):
        shutil.copytree(source, place / source.name, ignore=ignore)
    programs = place / "corral" / "bin"
    programs.mkdir(exist_ok=True)
    shutil.copy(RealHost().launcher()[0], programs / "corral-launch")  # the one that is tested
    for path in place.rglob("*"):
        path.chmod(path.stat().st_mode | 0o444 | (0o111 if path.is_dir() else 0))
    yield place
    shutil.rmtree(place)


@pytest.fixture(params=["root", "ordinary"])
def stage(request: pytest.FixtureRequest, package: Path) -> Iterator[Stage]:
    if os.geteuid() != 0 and request.param == "root":
        pytest.skip("needs root")
    user = 0 if request.param == "root" else ORDINARY if os.geteuid() == 0 else os.geteuid()
    place = Path(tempfile.mkdtemp(prefix="corral-plans-"))
    place.chmod(0o755)
    made = Stage(user, package, place)
    for name in ("home", "project", "plans"):
        (place / name).mkdir()
    (made.home / "key").write_text("SECRET KEY")
    (made.project / "data").write_text("data\n")
    for name in ("home", "project", "plans"):
        made.own(place / name)
    yield made
    shutil.rmtree(place)
