"""The whole suite once more as an ordinary user, when it is run as root: the two are confined differently."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import corral

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
USER = 61234  # in nobody's password file; it owns what is made here and nothing else
SECONDS = 300  # a minute where nothing else runs
PACKAGES = ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments", "xdist", "execnet")


@pytest.fixture
def copy() -> Iterator[Path]:
    """Corral and its tests where another user can read them, with a home and a temporary directory."""
    place = Path(tempfile.mkdtemp(prefix="corral-ordinary-"))
    ignore = shutil.ignore_patterns("*.pyc.*")  # compiled files are kept, but for unfinished ones
    place.chmod(0o755)
    shutil.copytree(Path(corral.__file__).parent, place / "src/corral", ignore=ignore)
    for name in ("tests/support", "tests/conformance"):
        shutil.copytree(ROOT / name, place / name, ignore=ignore)
    for name in ("tests/conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, place / name)
    for name in ("home", "temporary"):
        (place / name).mkdir(mode=0o700)
        os.chown(place / name, USER, USER)
    for path in place.rglob("*"):
        if path.stat().st_uid == 0:
            path.chmod(path.stat().st_mode | 0o444 | (0o111 if path.is_dir() else 0))
    yield place
    _end_processes()
    shutil.rmtree(place)


def _end_processes() -> None:
    """Podman, asked about itself, leaves a process of its own behind."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # gone meanwhile
            if entry.name.isdigit() and entry.stat().st_uid == USER:
                os.kill(int(entry.name), signal.SIGKILL)


@pytest.mark.timeout(SECONDS + 10)
@pytest.mark.skipif(os.geteuid() != 0, reason="the suite runs as an ordinary user already")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv to become another user with")
def test_every_guarantee_holds_for_an_ordinary_user_as_well(
    copy: Path, request: pytest.FixtureRequest
) -> None:
    environment = {
        "HOME": str(copy / "home"),
        "TMPDIR": str(copy / "temporary"),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join([str(copy / "src"), *_packages(copy)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    scope = "--all" if request.config.getoption("--all") else "--first-proofs"
    suite = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n2", scope, "--require", "native,landlock"]

    done = subprocess.run(
        [*become, _interpreter(), *suite, "tests/conformance"],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    lines = [line for line in done.stdout.splitlines() if not line.startswith(("XFAIL", "SKIPPED"))]
    print("\n".join(lines[-40:]), done.stderr[-2000:])
    assert done.returncode == 0


def _interpreter() -> str:
    """This interpreter, if others may run it; the system's otherwise."""
    real = Path(sys.executable).resolve()
    reachable = all(path.stat().st_mode & stat.S_IXOTH for path in (real, *real.parents))
    return str(real) if reachable else "/usr/bin/python3"


def _packages(copy: Path) -> list[str]:
    """Pytest and what it needs, copied as well: our own environment may be out of their sight."""
    source, place = Path(pytest.__file__).parents[1], copy / "packages"
    place.mkdir()
    for entry in source.iterdir():
        if entry.name.lower().startswith(PACKAGES):
            take = shutil.copytree if entry.is_dir() else shutil.copy
            take(entry, place / entry.name)
    return [str(place)]
