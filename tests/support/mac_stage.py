"""A Mac to run commands on, made of this machine: the stand-in `sandbox-exec`, and Python without Linux."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from corral.host.real import RealHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from support.mac_server import MacServer

TESTS = Path(__file__).resolve().parent.parent
#: What `seatbelt` does not claim for anybody, and what it does not claim for root besides.
LACKING = ("proc.contained", "proc.hidden", "syscalls")
LACKING_FOR_ROOT = ("privileges", "terminal")
WAIVED = LACKING + (LACKING_FOR_ROOT if os.geteuid() == 0 else ())
_SECONDS = 60


class MacRealHost(RealHost):
    """This machine, if it were a Mac."""

    platform = "darwin"

    def launcher(self) -> tuple[str, str]:
        return "", "it is a program for Linux"

    def landlock_abi(self) -> int:
        return 0


def install_program(directory: Path, name: str, module: str) -> str:
    """Make a program of one of the modules in tests/support."""
    program = directory / name
    lines = (
        f"#!{sys.executable} -I",
        "import sys",
        f"sys.path.insert(0, {str(TESTS)!r})",
        f"from support.{module} import main",
        "main(sys.argv[1:])",
    )
    program.write_text("\n".join(lines) + "\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return str(program)


def find_standin(factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The stand-in for `sandbox-exec`, or why this machine cannot have one."""
    return _try_standin(factory.getbasetemp())


@cache
def _try_standin(place: Path) -> tuple[str, str]:
    if sys.platform == "darwin":
        return "/usr/bin/sandbox-exec", ""  # the real one
    (place / "stand-in").mkdir()
    program = install_program(place / "stand-in", "sandbox-exec", "sandbox_exec")
    done = subprocess.run(
        [program, "-p", "(version 1)(allow default)", "/bin/echo", "stands"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.stdout != "stands\n":
        return "", f"the stand-in for sandbox-exec does not work here: {done.stderr.strip()}"
    return program, ""


@dataclass(frozen=True)
class Mac:
    """Its directories, and its command line."""

    program: str
    work: Path
    outside: Path
    env: Mapping[str, str]
    server: MacServer | None = None

    def corral(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """`corral` as Python on a Mac runs it; by a server, which has started already, if there is one."""
        if self.server is not None:
            place, env = str(self.work), dict(self.env)
            return self.server.run(program=self.program, words=words, cwd=place, env=env, stdin=stdin)
        return subprocess.run(
            [sys.executable, "-m", "support.mac_python", self.program, "corral", *words],
            cwd=self.work,
            env=dict(self.env),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """`corral run` with what Seatbelt lacks given up."""
        waived = ",".join(WAIVED)
        return self.corral("run", "--backend", "seatbelt", "--waive", waived, *words, stdin=stdin)

    @property
    def left(self) -> list[str]:
        """What a run has left where it makes its private files."""
        state = Path(self.env["HOME"], ".local/state/corral")
        return sorted(str(path) for path in (*Path(self.env["TMPDIR"]).iterdir(), *state.glob("profiles/*")))


def make_mac(place: Path, server: MacServer | None = None) -> Mac:
    """Fresh directories, and the stand-in in one of them."""
    for name in ("bin", "work", "outside", "home", "tmp"):
        (place / name).mkdir()
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "PYTHONPATH": str(TESTS),
        "CORRAL_CONFIG": "",
    }
    program = "/usr/bin/sandbox-exec"
    if sys.platform != "darwin":
        program = install_program(place / "bin", "sandbox-exec", "sandbox_exec")
    return Mac(program, place / "work", place / "outside", env, server)
