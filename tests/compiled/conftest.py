"""Fixtures: corral where an ordinary user can use it, a project, and plans for that user and for root."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

import corral

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ORDINARY = 61235  # in nobody's password file; it owns what is made here and nothing else
PATH = "/usr/local/bin:/usr/bin:/bin"
Done = subprocess.CompletedProcess


@dataclass
class Stage:
    """A user with a home, a project, and a directory for plans that no command gets."""

    user: int
    package: Path
    place: Path

    @property
    def project(self) -> Path:
        return self.place / "project"

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def plan(self) -> Path:
        return self.place / "plans" / "plan"

    @property
    def launcher(self) -> str:
        return str(self.package / "corral/bin/corral-launch")

    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": PATH, "LANG": "C.UTF-8", "SECRET": "hunter2", "LC_TIME": "C"}

    def own(self, path: Path) -> Path:
        """Give a path, and all in it, to the user."""
        for each in (path, *path.rglob("*")) if path.is_dir() else (path,):
            os.chown(each, self.user, self.user, follow_symlinks=False)
        return path

    def corral(self, *arguments: str, cwd: Path | None = None) -> Done[str]:
        """Run `corral ARGUMENTS` in the project."""
        variables = {**self.environment(), "PYTHONPATH": str(self.package), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [*self.become(), _interpreter(), "-m", "corral", *arguments],
            cwd=cwd or self.project,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def compile(self, *options: str) -> Path:
        """Compile a plan; it has to succeed."""
        done = self.corral("compile", *options, "-o", str(self.plan))
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{self.launcher} --plan {self.plan} -- COMMAND\n"
        return self.plan

    def line(self, *command: str, plan: Path | None = None, become: bool = True) -> list[str]:
        """The command line that runs a command by the plan."""
        start = self.become() if become else []
        return [*start, self.launcher, "--plan", str(plan or self.plan), "--", *command]

    def run(self, *command: str, plan: Path | None = None, **more: object) -> Done[bytes]:
        """Run a command by the plan, without Python."""
        values: dict[str, object] = {
            "cwd": self.project,
            "env": self.environment(),
            "stdin": subprocess.DEVNULL,
            "capture_output": True,
            "timeout": 60,
            "check": False,
        }
        if "input" in more:
            del values["stdin"]
        return subprocess.run(self.line(*command, plan=plan), **(values | more))  # type: ignore[call-overload, no-any-return]

    def become(self) -> list[str]:
        if self.user == os.geteuid():
            return []
        return ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]


@pytest.fixture(scope="session")
def package() -> Iterator[Path]:
    """Corral and click where another user can read them."""
    place = Path(tempfile.mkdtemp(prefix="corral-compiled-"))
    place.chmod(0o755)
    for source in (Path(corral.__file__).parent, Path(click.__file__).parent):
        shutil.copytree(source, place / source.name, ignore=shutil.ignore_patterns("__pycache__"))
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


def _interpreter() -> str:
    """This interpreter, if others may run it; the system's otherwise."""
    real = Path(sys.executable).resolve()
    reachable = all(path.stat().st_mode & stat.S_IXOTH for path in (real, *real.parents))
    return str(real) if reachable else "/usr/bin/python3"
