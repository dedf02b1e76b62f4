"""Many at once: a thousand kept sandboxes that wait, and many commands through an executor."""

from __future__ import annotations

import gc
import importlib
import itertools
import resource
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import corral
from timing import BARE, Missing, Row, take_turns

TRUE = ["/bin/true"]
SIZES = (1, 10, 100, 1000)
COMMANDS = 300
PARALLEL = 200
_PARALLEL_COMMAND = ["/bin/sleep", "1"]  # so long that they overlap
_DESCRIPTORS_EACH = 16
_CROWD = "next session"
_KERNEL = ("Slab", "KernelStack", "PageTables", "Percpu")


class Cost(NamedTuple):
    """What a command takes while so many sandboxes are kept; each goes to the next one."""

    sessions: int
    median: float
    bare: float  # of a bare process, in the same rounds


class Memory(NamedTuple):
    """Bytes that the processes of all sandboxes take, and other measures of the same."""

    processes: int
    rss: int  # shared pages, such as the program itself, count in every process
    pss: int | None  # shared pages count once for all: the sum is what they take; only root is told
    kernel: int  # by how much the kernel's own memory grew, whoever it was for
    caller: int  # by how much the Python process that keeps them grew


class Crowd(NamedTuple):
    """What was found."""

    asked: int
    kept: int
    answering: int
    start_seconds: float
    memory: Memory
    costs: tuple[Cost, ...]
    problem: str  # why there are not more


class Parallel(NamedTuple):
    """How commands at the same time ended."""

    commands: int
    failures: tuple[str, ...]
    seconds: float


def keep_many(project: Path, sizes: Sequence[int] = SIZES, commands: int = COMMANDS) -> Crowd:
    """Make more and more sandboxes, and measure a command in them at every size."""
    sandbox = corral.Sandbox("moderate", backend="native", workspace=project)
    sandbox.run(TRUE).check()
    before, own = _kernel_bytes(), _resident_bytes()
    costs, problem, seconds = [], "", 0.0
    with _many_descriptors(_DESCRIPTORS_EACH * sizes[-1]), ExitStack() as stack:
        sessions: list[corral.sessions.session.Session] = []
        for size in sizes:
            began = time.perf_counter()
            try:
                while len(sessions) < size:
                    sessions.append(stack.enter_context(sandbox.session()))
            except (corral.CorralError, OSError) as error:
                problem = f"the session after {len(sessions)} could not be made: {error}"
                break
            finally:
                seconds += time.perf_counter() - began
            if _count_answers(sessions) == size:  # also, the first command of each pays for what is kept
                costs.append(_cost(sessions, commands))
        gc.collect()
        memory = _memory(sessions, before, own)
        answering = _count_answers(sessions)
    return Crowd(sizes[-1], len(sessions), answering, seconds, memory, tuple(costs), problem)


def run_many(project: Path, count: int = PARALLEL) -> Parallel:
    """As many commands at the same time through an executor, each in a sandbox of its own."""
    try:
        module = importlib.import_module("corral.parallel.executor")
    except ModuleNotFoundError as problem:
        raise Missing("this corral has no module corral.parallel.executor") from problem
    sandbox = corral.Sandbox("moderate", backend="native", workspace=project)
    with (
        _many_descriptors(_DESCRIPTORS_EACH * count),
        module.SandboxExecutor(sandbox, max_workers=count) as executor,
    ):
        began = time.perf_counter()
        results = executor.execute_parallel([_PARALLEL_COMMAND] * count, return_errors=True)
        seconds = time.perf_counter() - began
    failures = (str(result) for result in results if not getattr(result, "ok", False))
    return Parallel(count, tuple(failures), seconds)


def _cost(sessions: list[corral.sessions.session.Session], commands: int) -> Cost:
    turn = itertools.cycle(sessions)
    rows = (
        Row(BARE, "", lambda: subprocess.run(TRUE, capture_output=True, check=True)),
        Row(_CROWD, "", lambda: next(turn).run(TRUE).check()),
    )
    found = take_turns(rows, commands)
    return Cost(len(sessions), found[_CROWD].median, found[BARE].median)


def _count_answers(sessions: list[corral.sessions.session.Session]) -> int:
    def answers(number: int, session: corral.sessions.session.Session) -> bool:
        try:
            return session.run(["/bin/echo", str(number)]).stdout == f"{number}\n"
        except corral.CorralError:
            return False

    return sum(answers(number, session) for number, session in enumerate(sessions))


def _memory(sessions: list[corral.sessions.session.Session], before: int, own: int) -> Memory:
    pids = list(_with_descendants([session._kept.pid for session in sessions]))
    rss, pss = 0, 0
    for pid in pids:
        try:
            fields = _fields(Path(f"/proc/{pid}/smaps_rollup"))
        except PermissionError:  # nobody but root may look into a launcher
            fields = {"Rss": _fields(Path(f"/proc/{pid}/status"))["VmRSS"]}
        rss += fields["Rss"]
        pss = pss + fields["Pss"] if pss is not None and "Pss" in fields else None
    return Memory(len(pids), rss, pss, _kernel_bytes() - before, _resident_bytes() - own)


def _with_descendants(pids: list[int]) -> Iterator[int]:
    """The processes and all that are below them. Launchers are stable while nothing runs."""
    for pid in pids:
        yield pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        yield from _with_descendants([int(child) for child in children.split()])


def _fields(path: Path) -> dict[str, int]:
    """Sizes in bytes of a file whose lines are `Name:  12 kB`."""
    lines = [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[-1] == "kB"}


def _kernel_bytes() -> int:
    fields = _fields(Path("/proc/meminfo"))
    return sum(fields[name] for name in _KERNEL)


def _resident_bytes() -> int:
    return _fields(Path("/proc/self/status"))["VmRSS"]


@contextmanager
def _many_descriptors(wanted: int) -> Iterator[None]:
    """Permit this process more open files, as far as it may: every kept sandbox takes some of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
