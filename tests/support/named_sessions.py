"""Somebody who types `corral session ...`, and waiting for what follows."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
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
