"""A user, root or ordinary, who compiles plans and runs commands by them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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
            [*self.become(), interpreter(), "-m", "corral", *arguments],
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


def interpreter() -> str:
    """This interpreter, if others may run it; the system's otherwise."""
    real = Path(sys.executable).resolve()
    reachable = all(path.stat().st_mode & stat.S_IXOTH for path in (real, *real.parents))
    return str(real) if reachable else "/usr/bin/python3"
