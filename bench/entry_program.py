"""The entry program: how many of an agent's commands it runs without Python, and what the second run costs.

    .venv/bin/python bench/entry_program.py

It stores plans in the state directory of whoever runs it, for a project in a temporary directory.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_BESIDE = Path(sys.executable).parent
_ROUNDS = 60
_LEAST_RATE = 0.95
_MOST_RATIO = 1.2
_COMMIT = "git -c user.name=a -c user.email=a@example.org commit -qm"
_BWRAP = (
    "bwrap",
    "--unshare-all",
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--die-with-parent",
)

#: What an agent does in a small project: it looks around, changes files, tests, and commits.
_TURN = (
    "ls -la",
    "git status --short",
    "cat src/main.py",
    "grep -rn def src",
    "sed -n 1,20p README.md",
    "mkdir -p src/part{n}",
    "printf 'def part():\\n    return {n}\\n' > src/part{n}/code.py",
    "touch src/part{n}/__init__.py",
    "sed -i 's/return {n}/return {n} + 0/' src/part{n}/code.py",
    "printf 'import unittest\\nfrom src.part{n}.code import part\\nclass T(unittest.TestCase):\\n"
    "    def test(self):\\n        self.assertEqual(part(), {n})\\n' > tests/test_part{n}.py",
    "python3 -m unittest discover -q -s tests -t .",
    "git diff --stat",
    "git add -A",
    _COMMIT + " 'part {n}'",
    "git log --oneline -3",
    "mv src/part{n}/code.py src/part{n}/moved.py",
    "git mv -k nothing elsewhere; git checkout -q -- src",
    "rm -f src/part{n}/moved.py",
    "wc -l src/*.py; false",
    "find . -name '*.py' -not -path './.git/*' | sort | head",
)


def make_project(top: Path) -> Path:
    """A small project with a repository."""
    project = top / "project"
    for name in ("src", "tests"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").touch()
    (project / "src" / "main.py").write_text("def main():\n    return 0\n")
    (project / "README.md").write_text("A project.\n")
    (project / ".gitignore").write_text("__pycache__/\n")
    for line in ("git init -q", "git add -A", f"{_COMMIT} begin"):
        subprocess.run(line.split(), cwd=project, check=True)
    return project


def make_counted(top: Path) -> tuple[Path, Path]:
    """The entry program with a Python part that writes down each start of it: the program, and that file."""
    place, log = top / "bin", top / "starts"
    place.mkdir()
    shutil.copy2(_BESIDE / "corral", place / "corral")
    log.touch()
    behind = place / "corral-python"
    # No shell: it would change variables, which are a part of the request.
    note = f"with open({str(log)!r}, 'a') as log: log.write(sys.argv[1])"
    start = "from corral.cli.main import main_behind_entry\nmain_behind_entry()"
    behind.write_text(f"#!{sys.executable}\nimport sys\n{note}\n{start}\n")
    behind.chmod(0o755)
    return place / "corral", log


def replay(project: Path, corral: Path, log: Path) -> tuple[int, int, list[str]]:
    """How many commands ran, how many without Python, and which did not."""
    lines = [line.replace("{n}", str(number)) for number in range(5) for line in _TURN]
    missed = []
    time.sleep(0.1)  # files that were made a moment ago may change once more without another time
    for line in ("true", *lines):
        before = log.stat().st_size
        subprocess.run([corral, "run", "-c", line], cwd=project, capture_output=True, check=False)
        if log.stat().st_size != before:
            missed.append(line)
    return len(lines) + 1, len(lines) + 1 - len(missed), missed


def time_second() -> tuple[float, float]:
    """Medians in milliseconds of `corral run -- true` and of bwrap, each started by a shell, in turns."""
    commands = ((str(_BESIDE / "corral"), "run", "--", "true"), (*_BWRAP, "true"))
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(_ROUNDS + 2):
        for samples, command in zip(took, commands, strict=True):
            began = time.perf_counter()
            pid = os.posix_spawn(shutil.which(command[0]) or command[0], command, os.environ)
            os.waitpid(pid, 0)
            if number >= 2:  # the first ones store the plan
                samples.append((time.perf_counter() - began) * 1000)
    return statistics.median(took[0]), statistics.median(took[1])


def main() -> int:
    """0 if both goals were reached."""
    with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as top:
        project = make_project(Path(top))
        count, native, missed = replay(project, *make_counted(Path(top)))
        print(f"an agent's commands without Python   {native} of {count}  {native / count:.0%}   goal >= 95%")
        for line in missed:
            print(f"    with Python: {line[:90]}")
        os.chdir(project)
        second, plain = time_second()
        print(f"`corral run -- true`, second time    {second:.2f} ms   plain bwrap {plain:.2f} ms", end="")
        print(f"   {second / plain:.2f} x   goal <= {_MOST_RATIO} x")
    return int(native / count < _LEAST_RATE or second / plain > _MOST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
