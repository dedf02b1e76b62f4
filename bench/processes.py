"""Rows that need no container engine: bare processes, corral's ways to run a command, and its peers."""

from __future__ import annotations

import functools
import importlib
import itertools
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import corral
import peers
import workload
from timing import BARE, Missing, Row

TRUE = ["/bin/true"]
SHOWN = '["/bin/true"]'
WARM, POOL, COLD, COLD_LANDLOCK = "session, native", "pool, native", "cold, native", "cold, landlock"
BWRAP = "bwrap, same isolation"
PLAIN_BWRAP = "bwrap, plain"
COLD_FILES, COLD_REPOSITORIES = "cold, 100,000 files", "cold, 300 repositories"
SHELL, SHELL_PLAN, SHELL_BWRAP = "shell: bare", "shell: compiled plan", "shell: bwrap, same isolation"
SHELL_MODERATE, SHELL_PLAIN_BWRAP = "shell: compiled plan, moderate", "shell: bwrap, plain"
PYTHON, CLI = "python -I -c pass", "corral run -- true"
READ, READ_BARE = "session.read_file, 4 kB", "open and read, 4 kB"
WRITE, WRITE_BARE = "session.write_file, 4 kB, new", "open and write, 4 kB, new"
#: An overwritten file is written out at once by ext4, whoever does it.
WRITE_OVER, WRITE_OVER_BARE = "session.write_file, 4 kB, over", "open and write, 4 kB, over"
LANDLOCK_WAIVERS = ("fs.metadata", "fs.protect", "proc.contained", "proc.hidden")

_POOL_SIZE = 2
_IN_A_ROW = 10
_LOOP = f"i=0; while [ $i -lt {_IN_A_ROW} ]; do %s || exit 1; i=$((i + 1)); done"


class Place(NamedTuple):
    """Where rows are made, and what ends them."""

    project: Path
    scratch: Path  # not writable for any command of the project
    stack: ExitStack
    divisor: int = 1  # of what makes workspaces large


def sandbox(place: Place, backend: str, preset: str = "moderate") -> corral.Sandbox:
    waived = LANDLOCK_WAIVERS if backend == "landlock" else ()
    return corral.Sandbox(preset, backend=backend, workspace=place.project, waive=waived)


def session_row(name: str, session: corral.sessions.session.Session) -> Row:
    """A warm command in a kept sandbox."""
    return Row(name, f"`session.run({SHOWN})`", lambda: session.run(TRUE).check())


def bare(_: Place) -> Iterator[Row]:
    shown = f"`subprocess.run({SHOWN}, capture_output=True)`"
    yield Row(BARE, shown, lambda: subprocess.run(TRUE, capture_output=True, check=True))


def warm(backend: str, place: Place) -> Iterator[Row]:
    session = place.stack.enter_context(sandbox(place, backend).session())
    yield session_row(f"session, {backend}", session)


def pooled(place: Place) -> Iterator[Row]:
    """The sandbox that replaces the used one is made, and the used one gone, before the next row begins."""
    pool = place.stack.enter_context(_module("sessions.pool").Pool(sandbox(place, "native"), size=_POOL_SIZE))

    def settle() -> None:
        pool.fill()
        while pool.stats().ending:
            time.sleep(0.001)

    settle()
    yield Row(POOL, f"`pool.run({SHOWN})`", lambda: pool.run(TRUE).check(), settle=settle)


def cold(backend: str, place: Place) -> Iterator[Row]:
    own = sandbox(place, backend)
    yield Row(f"cold, {backend}", f"`sandbox.run({SHOWN})`", lambda: own.run(TRUE).check())


def cold_in_large(place: Place) -> Iterator[Row]:
    """In workspaces that have much to look at."""
    makers = ((COLD_FILES, workload.make_many_files), (COLD_REPOSITORIES, workload.make_many_repositories))
    for number, (name, make) in enumerate(makers):
        project = place.scratch / f"large-{number}"
        project.mkdir()
        own = sandbox(place._replace(project=make(project, place.divisor)), "native")
        yield Row(name, f"`sandbox.run({SHOWN})`", lambda own=own: own.run(TRUE).check(), COLD, every=10)


def bwrap(place: Place) -> Iterator[Row]:
    _need("bwrap")
    explanation = sandbox(place, "native").explain(TRUE)
    yield Row(BWRAP, "`bwrap`, with corral's mounts, namespaces and filter", peers.bubblewrap(explanation))
    yield Row(PLAIN_BWRAP, peers.PLAIN_SHOWN, peers.plain_bubblewrap())


def firejail(place: Place) -> Iterator[Row]:
    _need("firejail")
    shown = "`firejail --noprofile --private --net=none --seccomp ...`"
    yield Row("firejail", shown, peers.firejail(place.project), every=4)


def from_a_shell(place: Place) -> Iterator[Row]:
    yield _in_a_shell(SHELL, "`/bin/true`", TRUE)
    _need("bwrap")
    spec = peers.spec_of(sandbox(place, "native", "strict").explain(TRUE))
    program = place.scratch / "filter"
    program.write_bytes(spec.seccomp)
    line = [*peers.bubblewrap_line(spec), "--seccomp", "9", "--", *TRUE]
    shown = "`bwrap`, as above, for the profile `strict`"
    yield _in_a_shell(SHELL_BWRAP, shown, line, f'"$@" 9<{shlex.quote(str(program))}')
    yield _in_a_shell(SHELL_PLAIN_BWRAP, peers.PLAIN_SHOWN, peers.PLAIN_LINE)


def compiled(name: str, preset: str, place: Place) -> Iterator[Row]:
    plan = place.scratch / f"plan-{preset}"
    compiling = [_beside_python("corral"), "compile", "-p", preset, "--no-config", "-o", str(plan)]
    done = subprocess.run(compiling, cwd=place.project, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(f"`corral compile` did not make a plan: {' '.join(done.stderr.splitlines()[-3:])}")
    *line, _ = shlex.split(done.stdout)  # the last word stands for the command
    shown = f"`corral-launch --plan {plan.name} -- /bin/true`"
    yield _in_a_shell(name, shown, [*line, *TRUE], cwd=place.project)


def command_line(place: Place) -> Iterator[Row]:
    corral_run = [_beside_python("corral"), "run", "--", "true"]
    lines = {PYTHON: [sys.executable, "-I", "-c", "pass"], CLI: corral_run}
    for name, line in lines.items():
        run = functools.partial(subprocess.run, line, cwd=place.project, capture_output=True, check=True)
        yield Row(name, f"`{name}`", run, base=PYTHON, every=10)


def files(place: Place) -> Iterator[Row]:
    """A fresh name is not made each time: agents change files more often than they make them."""
    own, direct = place.project / "notes.txt", place.project / "other.txt"
    piece = b"a line of text\n" * 280
    data = piece[:4096]
    direct.write_bytes(data)

    def read() -> None:
        with open(direct, "rb") as file:
            file.read()

    def write() -> None:
        with open(direct, "wb") as file:
            file.write(data)

    session = place.stack.enter_context(sandbox(place, "native").session())
    if not hasattr(session, "read_file"):
        raise Missing("sessions have no `read_file` and `write_file` here")
    session.write_file(own.name, data)
    assert own.read_bytes() == data == session.read_file(own.name)
    inside_read = functools.partial(session.read_file, own.name)
    inside_write = functools.partial(session.write_file, own.name, data)
    numbers = itertools.count()

    def write_new() -> None:
        with open(direct.with_name(f"direct-{next(numbers)}"), "xb") as file:
            file.write(data)

    def inside_write_new() -> None:
        session.write_file(f"new-{next(numbers)}", data)

    yield Row(READ_BARE, '`open(path, "rb").read()`', read, READ_BARE)
    yield Row(READ, "`session.read_file(path)`", inside_read, READ_BARE)
    yield Row(WRITE_BARE, '`open(path, "xb").write(data)`', write_new, WRITE_BARE)
    yield Row(WRITE, "`session.write_file(path, data)`", inside_write_new, WRITE_BARE)
    yield Row(WRITE_OVER_BARE, '`open(path, "wb").write(data)`', write, WRITE_OVER_BARE)
    yield Row(WRITE_OVER, "`session.write_file(path, data)`", inside_write, WRITE_OVER_BARE)


#: In the order of the table; each makes its rows, or raises Missing.
MAKERS: dict[str, Callable[[Place], Iterator[Row]]] = {
    BARE: bare,
    WARM: functools.partial(warm, "native"),
    "session, landlock": functools.partial(warm, "landlock"),
    "session, bubblewrap": functools.partial(warm, "bubblewrap"),
    POOL: pooled,
    COLD: functools.partial(cold, "native"),
    COLD_LANDLOCK: functools.partial(cold, "landlock"),
    BWRAP: bwrap,
    "cold, in large workspaces": cold_in_large,
    "firejail": firejail,
    "from a shell": from_a_shell,
    SHELL_PLAN: functools.partial(compiled, SHELL_PLAN, "strict"),
    SHELL_MODERATE: functools.partial(compiled, SHELL_MODERATE, "moderate"),
    "command line": command_line,
    "files": files,
}


def _module(name: str):
    try:
        return importlib.import_module(f"corral.{name}")
    except ModuleNotFoundError as problem:
        raise Missing(f"this corral has no module corral.{name}") from problem


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise Missing(f"{program} is not installed")


def _beside_python(program: str) -> str:
    return str(Path(sys.executable).with_name(program))


def _in_a_shell(name: str, shown: str, line: list[str], words: str = '"$@"', cwd: Path | None = None) -> Row:
    """Several in a row in one shell, so that neither its own start nor Python's part counts for much."""
    argv = ["/bin/sh", "-c", _LOOP % words, "sh", *line]
    run = functools.partial(subprocess.run, argv, cwd=cwd, capture_output=True, check=True)
    return Row(name, shown, run, base=SHELL, every=10, commands=_IN_A_ROW)
