"""A project that is full of files and processes: C to compile, Python to byte-compile, a repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCES = 12
MODULES = 60

WORKLOAD = (
    "set -e; for f in src/*.c; do cc -O0 -c $f -o ${f%.c}.o; done; cc -o program src/*.o; ./program; "
    "git status --short > status.txt; python3 -m compileall -q -f modules; rm -f src/*.o program"
)


MANY_DIRECTORIES, FILES_IN_EACH = 1000, 100
MANY_REPOSITORIES = 300


def make_many_files(directory: Path, divisor: int = 1) -> Path:
    """The project with 100,000 files more, or a part of them."""
    make_project(directory)
    for number in range(MANY_DIRECTORIES // divisor):
        place = directory / "data" / f"part{number // 50}" / f"set{number}"
        place.mkdir(parents=True)
        for name in range(FILES_IN_EACH):
            (place / f"{name}.txt").touch()
    return directory


def make_many_repositories(directory: Path, divisor: int = 1) -> Path:
    """The project with 300 repositories in it, or a part; one is made by git, the others are its copies."""
    make_project(directory)
    first = directory / "vendor" / "0"
    subprocess.run(["git", "init", "-q", str(first)], check=True, capture_output=True)
    for number in range(1, MANY_REPOSITORIES // divisor):
        shutil.copytree(first, directory / "vendor" / str(number))
    return directory


def make_project(directory: Path) -> Path:
    """Write the project into an empty directory and commit it."""
    (directory / "src").mkdir()
    (directory / "modules").mkdir()
    for number in range(SOURCES):
        (directory / "src" / f"part{number}.c").write_text(
            f"#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
            f'int part{number}(int x) {{ char t[64]; snprintf(t, sizeof t, "%d", x); return atoi(t); }}\n'
        )
    calls = " + ".join(f"part{number}({number})" for number in range(SOURCES))
    declarations = "".join(f"int part{number}(int);\n" for number in range(SOURCES))
    (directory / "src" / "main.c").write_text(f"{declarations}int main(void) {{ return ({calls}) == 0; }}\n")
    for number in range(MODULES):
        body = "".join(f"def f{i}(a, b=None):\n    return [a, b, {i}]\n\n\n" for i in range(30))
        (directory / "modules" / f"m{number}.py").write_text(body)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "a project"]):
        author = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        subprocess.run(["git", *author, *arguments], cwd=directory, check=True, capture_output=True)
    return directory
