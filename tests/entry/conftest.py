"""The entry program as a user has it, with a home that the password database names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

_BESIDE = Path(sys.executable).parent
_NATIVE = "native"


class Entry:
    """One home, one workspace. `run` says which way a command went."""

    def __init__(self, top: Path) -> None:
        self.home, self.workspace, self._log = top / "home", top / "home" / "work", top / "starts"
        self.workspace.mkdir(parents=True)
        self.home.chmod(0o700)
        self._log.touch()
        self._passwd = top / "passwd"
        self._passwd.write_text(f"root:x:0:0:root:{self.home}:/bin/sh\n")
        self.program = self._install(top / "bin")
        self.warmed: set[tuple[str, ...]] = set()  # options that a plan is stored for
        self.stored = self.home / ".local/state/corral/stored"
        time.sleep(0.05)  # what was made a moment ago may change once more without another time

    def _install(self, place: Path) -> Path:
        """A copy of the program, beside a Python part that writes down how it was started."""
        place.mkdir()
        shutil.copy2(_BESIDE / "corral", place / "corral")
        note = f"with open({str(self._log)!r}, 'a') as log: log.write(sys.argv[1] + '\\n')"
        start = "from corral.cli.main import main_behind_entry\nmain_behind_entry()"
        (place / "corral-python").write_text(f"#!{sys.executable}\nimport sys\n{note}\n{start}\n")
        (place / "corral-python").chmod(0o755)
        return place / "corral"

    def environment(self, **more: str) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **more}

    def command(self, *words: str) -> list[str]:
        """In a mount namespace of its own, with our password database."""
        script = f'mount --bind {self._passwd} /etc/passwd && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "sh", *words]

    def start(self, *words: str, program: tuple[str, ...] = (), env: dict[str, str] | None = None):
        return subprocess.Popen(
            self.command(*(program or (str(self.program),)), *words),
            cwd=self.workspace,
            env=env or self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **options) -> tuple[str, int, str, str]:
        """Which way it went, the exit status, stdout and stderr."""
        before = self._log.stat().st_size
        process = self.start("run", *words, **options)
        out, errors = process.communicate(timeout=60)
        told = self._log.read_text()[before:].split()
        way = {"": _NATIVE, "run": "python", "_continue": "continued"}["".join(told)]
        return way, process.returncode, out, errors

    def run_by_python(self, *words: str) -> tuple[int, str, str]:
        """The same, without the entry program."""
        process = self.start("run", *words, program=(sys.executable, "-m", "corral"))
        out, errors = process.communicate(timeout=60)
        return process.returncode, out, errors

    def git(self, *words: str, where: Path | None = None) -> str:
        settings = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        done = subprocess.run(
            ["git", *settings, *words],
            cwd=where or self.workspace,
            env=self.environment(),
            text=True,
            capture_output=True,
            check=True,
        )
        return done.stdout


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    return _make(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    """For many requests that leave nothing behind."""
    return _make(tmp_path_factory.mktemp("shared"))


def _make(top: Path) -> Entry:
    if os.geteuid() != 0:
        pytest.skip("a password database of its own takes a mount namespace, and that takes root")
    if not (_BESIDE / "corral-python").exists():
        pytest.skip("corral was installed without its entry program")
    return Entry(top)


@pytest.fixture
def warm(entry: Entry) -> Entry:
    """With a plan that is stored."""
    assert entry.run("--", "true")[:2] == ("python", 0)
    assert entry.run("--", "true")[:2] == (_NATIVE, 0)
    return entry
