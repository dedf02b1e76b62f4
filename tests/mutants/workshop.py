"""Workshop: a copy of the repository in which mutants are made, one after the other.

Only what a mutant changes is compiled; the rest of both programs is kept as object files.
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

COPIED = ("src", "launcher", "entry", "tests", "bench", "docs", "pyproject.toml", "hatch_build.py")
FLAGS = (
    *("-std=c11", "-O2", "-fstack-protector-strong", "-D_GNU_SOURCE", "-w"),
    *("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", '-DCORRAL_RULES="mutants"'),
)
COMPILER = os.environ.get("CC") or shutil.which("musl-gcc") or "cc"


#: The entry program has all of the launcher but its `main`.
MAIN = "launcher/main.c"


def compile_all(objects: Path) -> None:
    """Compile every file of the launcher and of the entry program, once for all workshops."""
    objects.mkdir()
    sources = [path.relative_to(ROOT) for part in ("launcher", "entry") for path in (ROOT / part).glob("*.c")]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda source: _compile(ROOT, str(source), objects), sorted(sources)))


def _compile(root: Path, name: str, objects: Path) -> None:
    """An object for each program that the file is part of in another way."""
    part, stem = name.partition("/")[0], Path(name).stem
    made = [(f"{part}-{stem}.o", part)] + [(f"entry-of-launcher-{stem}.o", "entry")] * (name == MAIN)
    for object_name, program in made:
        define = f"-{'D' if program == 'entry' else 'U'}CORRAL_ENTRY"
        command = [COMPILER, *FLAGS, define, f"-I{root / 'launcher'}", "-c", str(root / name)]
        subprocess.run([*command, "-o", str(objects / object_name)], check=True)


class Workshop:
    """Readable to all: the tests run as an ordinary user as well."""

    def __init__(self, place: Path, objects: Path) -> None:
        self.place = place
        self.launcher = place / "bin" / "corral-launch"
        self.entry = place / "bin" / "corral-entry"
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
        self._whole = {
            path: Path(shutil.copy2(path, path.with_suffix(".whole"))) for path in (self.launcher, self.entry)
        }

    def _link(self, *directories: Path) -> None:
        """The first directory that has an object is where it comes from."""
        found: dict[str, Path] = {}
        for directory in reversed(directories):
            found |= {path.name: path for path in directory.glob("*.o")}
        of_launcher = [path for name, path in found.items() if name.startswith("launcher-")]
        others = [path for path in found.values() if path not in of_launcher]
        shared = [path for path in of_launcher if path.name != "launcher-main.o"]
        for program, objects in ((self.launcher, of_launcher), (self.entry, [*shared, *others])):
            new = program.with_suffix(".new")
            subprocess.run([COMPILER, "-static", *map(str, objects), "-o", str(new)], check=True)
            new.replace(program)

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
            compiled = [name for name in changed if name.endswith(".c")]
            self._rebuild(compiled)
            self.is_launcher_changed = bool(compiled)
            yield
        finally:
            for name, (raw, status) in before.items():
                (self.place / name).write_bytes(raw)
                os.utime(self.place / name, ns=(status.st_atime_ns, status.st_mtime_ns))
            if any(name.endswith(".c") for name in changed):
                for program, whole in self._whole.items():
                    shutil.copy2(whole, program)

    def _rebuild(self, names: list[str]) -> None:
        if not names:
            return
        own = self.place / "objects"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        for name in names:
            _compile(self.place, name, own)
        self._link(own, self._objects)
