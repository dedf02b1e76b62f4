"""A command by a stored plan: what is proved of runs, and what attacks them, once more without Python.

The first run leaves the plan, and the entry program does the second by itself. It hands over to Python as
soon as there is something to tell: then Python goes on with a sandbox that it has not made. What only Python
runs from the beginning is skipped here; a whole run fails if that is all there is of a guarantee.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from corral.model.plan import StdioMode
from corral.model.result import Enforcement, Outcome, Result, Usage
from support.entry_home import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from corral.model.policy import Policy
    from support.confinement import Case, Stage

#: Without limits of which only Python tells, limited networks and trials.
FEATURES = (
    *("fs.read", "fs.write", "fs.metadata", "fs.deny", "fs.protect", "fs.private"),
    *("net.none", "proc.", "ipc.", "privileges", "syscalls", "environment", "descriptors", "terminal"),
    *("limit.wall", "limit.pids", "limit.file-size", "limit.open-files"),
)
#: What `make test` proves once more of stored plans.
SAMPLE = ("fs.read", "fs.write", "proc.contained", "descriptors")
_WALL, _SECONDS = 124, 60


@contextmanager
def open_entry(home: Path, workspace: Path) -> Iterator[Entry]:
    """An entry program for somebody with this home, in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="corral-stored-") as place:
        Path(place).chmod(0o755)
        yield Entry(Path(place), places=(home, workspace))


def run_second(
    entry: Entry,
    words: tuple[str, ...],
    argv: tuple[str, ...],
    env: Mapping[str, str],
    **streams: Any,
) -> subprocess.CompletedProcess[bytes]:
    """Run it as the second of its kind."""
    try:
        entry.warm_up(*words, env=dict(env))
    except RuntimeError as problem:
        pytest.skip(f"only Python runs this: {problem}")
    before = len(entry.calls())
    command = entry.command(str(entry.program), "run", *words, "--", *argv)
    done = subprocess.run(command, cwd=entry.workspace, env=env, timeout=_SECONDS, check=False, **streams)
    if "run" in entry.calls()[before:]:
        pytest.skip("only Python runs this: what the plan was made from has changed")
    return done


def run_stored(
    case: Case,
    stage: Stage,
    policy: Policy,
    words: tuple[str, ...],
    argv: tuple[str, ...],
    stdio: StdioMode,
) -> Result:
    """What a proof asks for."""
    is_captured = stdio is StdioMode.CAPTURE
    pipe = subprocess.PIPE if is_captured else None
    streams = {"stdin": subprocess.DEVNULL if is_captured else None, "stdout": pipe, "stderr": pipe}
    with open_entry(stage.home, stage.work) as entry:
        done = run_second(entry, words, argv, os.environ, close_fds=False, **streams)
    outcome = Outcome.TIMED_OUT if done.returncode == _WALL else Outcome.EXITED
    return Result(
        *(outcome, done.returncode, None, done.stdout or b"", done.stderr or b""),
        truncated=False,
        duration_seconds=0.0,
        usage=Usage(),
        violations=(),
        enforcement=Enforcement(case.backend.name, {}, frozenset()),
        policy=policy,
        run_id="",
    )
