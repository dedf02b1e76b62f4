"""An entry program with a home of its own, which counts the starts of Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

_BESIDE = Path(sys.executable).parent
#: Of a launcher that is tested instead of the installed one: what else must lead to it.
_LAUNCHER, _LEADING = "CORRAL_LAUNCHER", ("CORRAL_LAUNCHER", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
NATIVE = "native"
_WAYS = {
    "": NATIVE,
    "run": "python",
    "session": "python",
    "_continue": "continued",
    "_answered": "continued",
}


class Entry:
    """One home, one workspace. `run` says which way a command went."""

    def __init__(
        self,
        top: Path,
        uid: int = 0,
        packages: Path | None = None,
        places: tuple[Path, Path] | None = None,
    ) -> None:
        """`packages`: where corral is for whoever cannot read that of the tests.

        `places`: a home and a workspace that are there.
        """
        self.uid, self._packages = uid, packages
        self.home, self.workspace = places or (top / "home", top / "home" / "work")
        self._log = top / "starts"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o700)
        self._log.touch()
        for path in (self.home, self.workspace, self._log):
            os.chown(path, uid, uid)
        self._passwd = top / "passwd"
        self._passwd.write_text(f"somebody:x:{uid}:{uid}:somebody:{self.home}:/bin/sh\n")
        self.python, self._setup = sys.executable, f"mount --bind {self._passwd} /etc/passwd"
        if packages is not None:  # the interpreter may be where nobody else looks
            base, place = sys._base_executable, top / "python"  # type: ignore[attr-defined]
            place.mkdir()
            self.python = str(place / os.path.relpath(base, sys.base_prefix))
            self._setup += f" && mount --bind {sys.base_prefix} {place}"
        self.program = self._install(top / "bin")
        self.warmed: set[tuple[str, ...]] = set()  # options that a plan is stored for
        self.stored = self.home / ".local/state/corral/stored"
        time.sleep(0.05)  # what was made a moment ago may change once more without another time

    def _install(self, place: Path) -> Path:
        """A copy of the program, beside a Python part that writes down how it was started."""
        place.mkdir()
        shutil.copy2(_find_program(), place / "corral")
        note = f"with open({str(self._log)!r}, 'a') as log: log.write(sys.argv[1] + '\\n')"
        start = "from corral.cli.main import main_behind_entry\nmain_behind_entry()"
        (place / "corral-python").write_text(f"#!{self.python}\nimport sys\n{note}\n{start}\n")
        (place / "corral-python").chmod(0o755)
        return place / "corral"

    def environment(self, **more: str) -> dict[str, str]:
        if self._packages is not None:
            more = {"PYTHONPATH": str(self._packages), "PYTHONDONTWRITEBYTECODE": "1", **more}
        if _LAUNCHER in os.environ:
            more = {**{name: os.environ[name] for name in _LEADING if name in os.environ}, **more}
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **more}

    def command(self, *words: str) -> list[str]:
        """In a mount namespace of its own, with our password database."""
        become = f"setpriv --reuid={self.uid} --regid={self.uid} --clear-groups" if self.uid else ""
        script = f'{self._setup} && exec {become} "$@"'
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
        return self.call("run", *words, **options)

    def warm_up(self, *options: str, **more) -> None:
        """Leave a plan behind. Raises RuntimeError where it is not used: then nothing is proved."""
        told = [self.run(*options, "--", "true", **more) for _ in range(2)].pop()
        if told[:2] != (NATIVE, 0):
            raise RuntimeError(f"the stored plan is not used: {told}")

    def calls(self) -> list[str]:
        """How the Python part was started, each time."""
        return self._log.read_text().split()

    def call(self, *words: str, **options) -> tuple[str, int, str, str]:
        before = self._log.stat().st_size
        process = self.start(*words, **options)
        out, errors = process.communicate(timeout=60)
        told = self._log.read_text()[before:].split()
        return _WAYS["".join(told)], process.returncode, out, errors

    def run_by_python(self, *words: str) -> tuple[int, str, str]:
        """The same, without the entry program."""
        return self.call_python("run", *words)

    def call_python(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words, program=(self.python, "-m", "corral"))
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


def _find_program() -> Path:
    """The one that is installed, or the one beside the launcher that is tested: they must be of one build."""
    launcher = os.environ.get(_LAUNCHER)
    return Path(launcher).with_name("corral-entry") if launcher else _BESIDE / "corral"


def check_available() -> None:
    """Skip where there is no entry program, or no such home."""
    if os.geteuid() != 0:
        pytest.skip("a password database of its own takes a mount namespace, and that takes root")
    if not _find_program().exists() or not (_BESIDE / "corral-python").exists():
        pytest.skip("corral was installed without its entry program")
