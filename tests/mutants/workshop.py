"""Workshop: a copy of the repository in which mutants are made, one after the other.

Only what a mutant changes is compiled; the rest of the launcher is kept as object files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutant import ROOT, Mutant, mutate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

COPIED = ("src", "launcher", "tests", "bench", "docs", "pyproject.toml", "hatch_build.py")
FLAGS = (
    *("-std=c11", "-O2", "-fstack-protector-strong", "-D_GNU_SOURCE", "-w"),
    *("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"),
)
COMPILER = os.environ.get("CC") or shutil.which("musl-gcc") or "cc"


def compile_all(objects: Path) -> None:
    """Compile every file of the launcher, once for all workshops."""
    objects.mkdir()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda source: _compile(source, objects), sorted((ROOT / "launcher").glob("*.c"))))


def _compile(source: Path, objects: Path) -> None:
    command = [COMPILER, *FLAGS, "-c", str(source), "-o", str(objects / f"{source.stem}.o")]
    subprocess.run(command, check=True)


class Workshop:
    """Readable to all: the tests run as an ordinary user as well."""

    def __init__(self, place: Path, objects: Path) -> None:
        self.place = place
        self.launcher = place / "bin" / "corral-launch"
        self.is_launcher_changed = False
        self._objects = objects
        place.mkdir()
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, place / name, ignore=shutil.ignore_patterns("__pycache__", "bin"))
            else:
                shutil.copy(source, place / name)
        self.launcher.parent.mkdir()
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(place / "src")], check=True)
        self._link(objects)
        self._whole = Path(shutil.copy2(self.launcher, place / "bin" / "whole"))

    def _link(self, *directories: Path) -> None:
        """The first directory that has an object is where it comes from."""
        found: dict[str, Path] = {}
        for directory in reversed(directories):
            found |= {path.name: path for path in directory.glob("*.o")}
        new = self.launcher.with_suffix(".new")
        subprocess.run([COMPILER, "-static", *map(str, found.values()), "-o", str(new)], check=True)
        new.replace(self.launcher)

    @contextlib.contextmanager
    def holding(self, mutant: Mutant) -> Iterator[None]:
        """Make a mutant, and undo it."""
        changed = mutate(mutant)
        before = {name: ((self.place / name).read_bytes(), (self.place / name).stat()) for name in changed}
        try:
            for name, text in changed.items():
                (self.place / name).write_text(text)
                os.utime(
                    self.place / name, (1, 1)
                )  # no time of an original: nothing compiled is taken for it
            self._rebuild([name for name in changed if name.startswith("launcher/")])
            self.is_launcher_changed = self.launcher.stat().st_mtime_ns != self._whole.stat().st_mtime_ns
            yield
        finally:
            for name, (raw, status) in before.items():
                (self.place / name).write_bytes(raw)
                os.utime(self.place / name, ns=(status.st_atime_ns, status.st_mtime_ns))
            if any(name.startswith("launcher/") for name in changed):
                shutil.copy2(self._whole, self.launcher)

    def _rebuild(self, names: list[str]) -> None:
        if not names:
            return
        own = self.place / "objects"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        for name in names:
            _compile(self.place / name, own)
        self._link(own, self._objects)
