"""A project that is full of files and processes: C to compile, Python to byte-compile, a repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCES = 12
MODULES = 60

WORKLOAD = (
    "set -e; for f in src/*.c; do cc -O0 -c $f -o ${f%.c}.o; done; cc -o program src/*.o; ./program; "
    "git status --short > status.txt; python3 -m compileall -q -f modules; rm -f src/*.o program"
)


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
