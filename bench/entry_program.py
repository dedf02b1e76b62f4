"""The command line: how many of an agent's commands it runs without Python, and what the second run costs.

`python bench/entry_program.py` prints the tables, `--record` puts them into docs/performance.md as well;
`--quick` only looks whether everything can be measured at all. It stores plans in your state directory, for
a project in a temporary directory. Other tools are measured if they are on the PATH or in
`.agents`: `npm install --prefix .agents @anthropic-ai/sandbox-runtime @openai/codex`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from corral import Sandbox
from document import measure_and_tell
from goals import Goal
from peers import bubblewrap_line, spec_of
from report import goal_lines, rows_of
from timing import BARE, Missing, Row, Timed, take_turns

_BESIDE = Path(sys.executable).parent
_AGENTS = Path(__file__).resolve().parents[1] / ".agents/node_modules/.bin"
_ROUNDS, _MOST_SHOWN = 120, 10
_LEAST_RATE, _MOST_RATIO, _MOST_EXEC, _MOST_ALLOW = 0.95, 1.2, 3.0, 30.0
PLAIN, SAME, SECOND, LINE = "plain bwrap", "bwrap, same isolation", "corral run", "corral run -c"
STRICT, EXEC, ALLOW = "corral run -p strict", "corral session exec", "corral run --allow"
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


def _spawn(line: tuple[str, ...]) -> None:
    """As a shell starts it: nothing of Python's is in between, and nothing is captured."""
    pid = os.posix_spawn(line[0], line, os.environ)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise RuntimeError(f"it failed: {' '.join(line)}")


def _find(program: str) -> str:
    """On the PATH, or where npm has put it. Raises Missing."""
    found = shutil.which(program, path=f"{os.environ['PATH']}:{_AGENTS}")
    if found is None:
        raise Missing(f"there is no {program}")
    return found


def _row(name: str, *line: str, base: str = BARE, every: int = 1) -> Row:
    whole = (_find(line[0]), *line[1:])
    try:
        _spawn(whole)
    except RuntimeError as problem:
        raise Missing(str(problem)) from problem
    shown = " ".join((os.path.basename(line[0]), *line[1:]))
    return Row(name, f"`{shown[:60]}`", lambda: _spawn(whole), base, every)


def _same_isolation(project: Path) -> Row:
    """What corral's own launch has, made by bwrap."""
    spec = spec_of(Sandbox(workspace=str(project)).explain(["/bin/true"]))
    whole = (_find("bwrap"), *bubblewrap_line(spec)[1:])
    rules = os.memfd_create("filter", 0)
    os.write(rules, spec.seccomp)

    def run() -> None:
        os.lseek(rules, 0, os.SEEK_SET)
        _spawn((*whole, "--seccomp", str(rules), "--", "/bin/true"))

    return Row(SAME, "`bwrap`, same mounts, namespaces and filter", run, PLAIN)


def _rows(project: Path, session: str, missing: list[str]) -> Iterator[Row]:
    """Command line against command line."""
    own, jail = (
        str(_BESIDE / "corral"),
        "firejail --quiet --noprofile --private-dev --net=none --caps.drop=all",
    )
    wanted: tuple[tuple[str, tuple[str, ...], str, int], ...] = (
        (BARE, ("/bin/true",), BARE, 1),
        (PLAIN, (*_BWRAP, "/bin/true"), BARE, 1),
        (SECOND, (own, "run", "--", "/bin/true"), PLAIN, 1),
        (LINE, (own, "run", "-c", "true"), PLAIN, 1),
        (STRICT, (own, "run", "-p", "strict", "--", "/bin/true"), PLAIN, 1),
        (EXEC, (own, "session", "exec", session, "--", "/bin/true"), BARE, 1),
        (ALLOW, (own, "run", "--allow", "example.org", "--", "/bin/true"), PLAIN, 5),
        ("firejail", (*jail.split(), "/bin/true"), PLAIN, 5),
        ("srt", ("srt", "true"), PLAIN, 10),
        ("codex", ("codex", "sandbox", "--", "/bin/true"), PLAIN, 5),
    )
    for name, line, base, every in wanted:
        try:
            yield _row(name, *line, base=base, every=every)
        except Missing as reason:
            missing.append(f"{name}: {reason}")
    yield _same_isolation(project)


class Found(NamedTuple):
    """Everything that one run has found."""

    count: int
    native: int
    missed: list[str]
    idle: dict[str, Timed]
    busy: dict[str, Timed]
    missing: list[str]


@contextmanager
def _busy_loops() -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def measure(*, quick: bool) -> Found:
    rounds, missing = 3 if quick else _ROUNDS, list[str]()
    with tempfile.TemporaryDirectory(dir=os.path.expanduser("~")) as top:
        project = make_project(Path(top))
        replayed = replay(project, *make_counted(Path(top)))
        os.chdir(project)
        start = [_BESIDE / "corral", "session", "start"]
        session = subprocess.run(start, check=True, capture_output=True, text=True).stdout.strip()
        try:
            rows = [*_rows(project, session, missing)]
            idle = take_turns(rows, rounds)
            with _busy_loops():
                busy = take_turns(rows, rounds)
        finally:
            subprocess.run([_BESIDE / "corral", "session", "stop", session], check=True, capture_output=True)
            os.chdir("/")
    return Found(*replayed, idle, busy, missing)


def judge(found: Found) -> list[Goal]:
    """What was promised, of the quiet machine."""
    at = {name: timed.median for name, timed in found.idle.items()}
    rate = found.native / found.count
    return [
        Goal(f"an agent's commands without Python: >= {_LEAST_RATE:.0%}", _LEAST_RATE, rate, at_least=True),
        Goal(f"{SECOND}: <= {_MOST_RATIO:g} x {PLAIN}", _MOST_RATIO, at[SECOND] / at[PLAIN]),
        Goal(f"{EXEC}: <= {_MOST_EXEC:g} x {BARE}", _MOST_EXEC, at[EXEC] / at[BARE]),
        Goal(f"{ALLOW}: <= {_MOST_ALLOW:g} ms over {PLAIN}", _MOST_ALLOW, at[ALLOW] - at[PLAIN]),
    ]


def render(found: Found, judged: list[Goal]) -> Iterator[str]:
    yield from goal_lines(judged)
    yield ""
    yield f"{found.native} of {found.count} commands of an agent ran without Python. With it:"
    yield ""
    yield from (f"- `{line[:90]}`" for line in found.missed[:_MOST_SHOWN])
    for title, timed in (("With nothing beside it:", found.idle), ("With busy loops beside it:", found.busy)):
        yield from ("", title, "")
        yield from rows_of(timed.values())
    yield from (
        ("", "Not measured:", "", *(f"- {reason}" for reason in found.missing)) if found.missing else ()
    )


def main() -> int:
    described = str(__doc__)
    return measure_and_tell(described, measure, judge, render, document="performance.md", part="second runs")


if __name__ == "__main__":
    sys.exit(main())
