"""Fixtures: somebody who types `corral session ...`, as root and as an ordinary user."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import pytest

import corral
from corral.backends.registry import get_backend
from corral.host import RealHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ORDINARY = 61_735  # in nobody's password file
OTHER = 61_736
PATIENCE_SECONDS = 30.0


class Person:
    """A user with a home, a project and a runtime directory of his own."""

    def __init__(self, root: Path, packages: Path, uid: int) -> None:
        self.root = root
        self.uid = uid
        self.home, self.project, self.runtime = root / "home", root / "project", root / "runtime"
        self.sessions = self.runtime / "corral"
        self._packages = packages
        for directory in (self.home, self.project, self.runtime):
            directory.mkdir(mode=0o700)
            os.chown(directory, uid, uid)
        self.environment = {
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(packages),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SHELL": "/bin/sh",
        }

    def argv(self, *arguments: str, uid: int | None = None) -> list[str]:
        """How to run a program of Python's as this user, or another."""
        user = self.uid if uid is None else uid
        become = (
            ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            if user != os.geteuid()
            else []
        )
        return [*become, sys._base_executable, *arguments]  # type: ignore[attr-defined]

    def corral(
        self, *arguments: str, stdin: bytes = b"", cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `corral ARGUMENTS` to its end."""
        return subprocess.run(
            self.argv("-m", "corral", *arguments),
            input=stdin,
            capture_output=True,
            cwd=cwd or self.project,
            env={**self.environment, **env},
            timeout=60,
            check=False,
        )

    def begin(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start `corral ARGUMENTS`; pipes unless something else is given."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(
            self.argv("-m", "corral", *arguments),
            cwd=self.project,
            env=self.environment,
            **{**pipes, **options},
        )

    def start(self, name: str = "s", *options: str) -> str:
        """Start a session; returns its name."""
        done = self.corral("session", "start", name, *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    def facts(self, name: str = "s") -> dict[str, Any]:
        """What `status` says."""
        done = self.corral("session", "status", name, "--json")
        facts: dict[str, Any] = json.loads(done.stdout)["session"]
        return facts

    def pid(self, name: str = "s") -> int:
        """The host process, from the record: nothing has to be started to learn it."""
        lines = (self.sessions / f"{name}.session").read_text().splitlines()
        return next(int(line.partition("=")[2]) for line in lines if line.startswith("pid="))

    def tree(self, name: str = "s") -> list[int]:
        """Descriptors of the host process of a session and of everything below it."""
        pids = [self.pid(name)]
        for pid in pids:
            pids += children(pid)
        return [os.pidfd_open(pid) for pid in pids]


def children(pid: int) -> list[int]:
    """The processes that one has started and that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if entry.name.isdigit() and (entry / "stat").read_text().rpartition(")")[2].split()[1] == str(
                pid
            ):
                found.append(int(entry.name))
    return found


def wait_for_ends(descriptors: list[int]) -> None:
    """Wait until all these processes have ended; fails if one does not."""
    for descriptor in descriptors:
        ready = select.select([descriptor], [], [], PATIENCE_SECONDS)[0]
        os.close(descriptor)
        assert ready, "a process lives on"


def wait_until(question: Any) -> None:
    """Ask until the answer is yes; fails if it never is."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not question():
        assert time.monotonic() < deadline, "it never came true"


@pytest.fixture(scope="session")
def packages() -> Iterator[Path]:
    """Corral and click where every user can read them."""
    place = Path(tempfile.mkdtemp(prefix="corral-named-"))
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
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
    probe = get_backend("native").probe(RealHost())
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
