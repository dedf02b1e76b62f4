"""Build hook: compile the launcher into the package.

A host without a C compiler, or with one that fails, still gets an installed corral: the reason is left in
`corral/bin/BUILD_FAILED`, where `corral doctor` finds it, and the backends that need no launcher work.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import (  # type: ignore[import-not-found, unused-ignore]
    BuildHookInterface,
)

FLAGS = (
    *("-std=c11", "-O2", "-Wall", "-Wextra", "-fstack-protector-strong"),
    *("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-D_GNU_SOURCE"),
)
# Static first: the same file then runs inside any container image. Without -Werror second: a newer compiler
# with a new warning must not break an install.
ATTEMPTS = (("-Werror", "-static"), ("-static",), ("-Werror",), ())
OUTPUTS = ("corral-launch", "BUILD_FAILED", "BUILD_NOTES")
#: The command as a Python script, and as what the entry program executes beside itself.
SCRIPT, BEHIND_ENTRY = "scripts/corral", "scripts/corral-python"
COMPILE_SECONDS = 300
LAST_LINES = 20


def find_compilers() -> list[list[str]]:
    """Return the compilers' commands, the preferred one first.

    A program linked with musl starts half a millisecond sooner than one with glibc, which is a tenth of
    what a sandbox costs.
    """
    chosen = os.environ.get("CC")
    if chosen:
        return [shlex.split(chosen)]
    return [[found] for found in map(shutil.which, ("musl-gcc", "cc", "gcc", "clang")) if found]


def describe_build(sources: list[Path]) -> str:
    """What a launcher was made from, in one word: a compiled plan is for the launcher it was compiled for."""
    digest = hashlib.sha256()
    for source in sorted({file for path in sources for file in path.parent.glob("*.[ch]")}):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def compile_launcher(sources: list[Path], binary: Path, more: tuple[str, ...] = ()) -> str:
    """Compile, and return what went wrong on the way, if anything. Raises OSError when nothing worked.

    `more` are arguments for another program that is made of the launcher's sources as well.
    """
    build = f'-DCORRAL_BUILD="{describe_build(sources)}"'
    compilers = find_compilers()
    if not compilers:
        raise OSError("no C compiler: looked for $CC, musl-gcc, cc, gcc and clang\n")
    notes: list[str] = []
    for compiler, extra in itertools.product(compilers, ATTEMPTS):
        command = [*compiler, *FLAGS, *extra, build, *more, *map(str, sources), "-o", str(binary)]
        problem = _compile(command)
        if problem is None:
            return "".join(notes)
        notes.append(f"{shlex.join(command)}\n{problem}\n")
    raise OSError("\n".join(notes))


def _compile(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else "\n".join(done.stderr.splitlines()[-LAST_LINES:])


def compile_entry(root: Path, binary: Path) -> None:
    """Compile the entry program, which has the launcher in it. Raises OSError when nothing worked."""
    launcher, entry = sorted((root / "launcher").glob("*.c")), sorted((root / "entry").glob("*.c"))
    rules = f'-DCORRAL_RULES="{describe_build([*launcher, *entry])[:16]}"'
    flags = ("-DCORRAL_ENTRY", rules, f"-I{root / 'launcher'}", *map(str, entry))
    compile_launcher(launcher, binary, flags)


class CorralBuildHook(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
    """Adds corral/bin/corral-launch to wheels and to editable installs."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        if not sys.platform.startswith("linux"):
            build_data["shared_scripts"][str(root / SCRIPT)] = "corral"
            return
        directory = root / "src" / "corral" / "bin"
        binary = directory / "corral-launch"
        directory.mkdir(parents=True, exist_ok=True)
        for name in OUTPUTS:  # nothing stale: not an old binary, not an old reason
            (directory / name).unlink(missing_ok=True)
        try:
            notes = compile_launcher(sorted((root / "launcher").glob("*.c")), binary)
        except OSError as error:
            (directory / "BUILD_FAILED").write_text(str(error), encoding="utf-8")
            self.app.display_warning("corral-launch was not built; `corral doctor` will say why")
        else:
            binary.chmod(0o755)
            build_data["pure_python"] = False
            build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
            if notes:
                (directory / "BUILD_NOTES").write_text(notes, encoding="utf-8")
        if version == "editable":  # there the files already are where they are looked for
            build_data["shared_scripts"][str(root / SCRIPT)] = "corral"
        else:
            for name in OUTPUTS:
                if (directory / name).exists():
                    build_data["force_include"][str(directory / name)] = f"corral/bin/{name}"
            if binary.exists():  # a plan is run by a program on the PATH, without Python
                build_data["shared_scripts"][str(binary)] = "corral-launch"
            self._add_command(root, binary, build_data)

    def _add_command(self, root: Path, launcher: Path, build_data: dict[str, Any]) -> None:
        """`corral` is the entry program where it can be compiled, and the Python script elsewhere."""
        scripts, entry = build_data["shared_scripts"], launcher.with_name("corral-entry")
        entry.unlink(missing_ok=True)
        try:
            if not launcher.exists():
                raise OSError("there is no launcher")
            compile_entry(root, entry)
        except OSError:
            scripts[str(root / SCRIPT)] = "corral"
        else:
            entry.chmod(0o755)
            scripts[str(entry)] = "corral"
            scripts[str(root / BEHIND_ENTRY)] = "corral-python"
