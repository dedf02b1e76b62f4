"""Sessions for tests, and what is known about their processes from outside."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.confinement import INTERPRETER, PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.backend import Host
    from corral.sessions.session import Session

PATIENCE_SECONDS = 30.0
#: Jobs of a server that wait for commands, at most: see launcher/job.c.
MOST_IDLE = 2


class Keeper:
    """Makes sessions in one workspace, and closes them."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self._open: list[Session] = []

    def session(
        self,
        *capabilities: str,
        backend: str = "native",
        preset: str = "moderate",
        waive: str = "",
        host: Host | None = None,
    ) -> Session:
        """A session; what the backend does not claim is waived if its name begins with `waive`."""
        policy = build_policy(preset, (*INTERPRETER, *capabilities))
        probe = next(Sandbox(backend=backend, workspace=self.work, host=host).probes())
        if not probe.available:
            pytest.skip(f"{backend} is not available: {probe.reason}")
        request = Sandbox(policy, backend="none", workspace=self.work, host=host).explain(["true"]).plan
        lacking = request.requires - probe.enforces
        given_up = [feature for feature in lacking if backend != "native" or feature.value.startswith(waive)]
        sandbox = Sandbox(policy, backend=backend, workspace=self.work, waive=given_up, host=host)
        self._open.append(sandbox.session())
        return self._open[-1]

    def close(self) -> None:
        for session in self._open:
            session.close()


def python(text: str, *arguments: str) -> tuple[str, ...]:
    return PYTHON, "-I", "-S", "-c", text, *arguments


def wait_until(question: Callable[[], bool], what: str) -> None:
    """Ask until the answer is yes; a test fails that would have to wait for very long."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not question():
        assert time.monotonic() < deadline, f"it did not come to pass: {what}"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not waited for does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def descendants_of(pid: int) -> list[int]:
    found = children_of(pid)
    for child in found:
        try:
            found += children_of(child)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def server_of(session: Session) -> int:
    """The server of a session on the native backend: PID 1 of the sandbox, the supervisor's only child."""
    return children_of(session._kept.inner)[0]


def find_by_argument(mark: str) -> list[int]:
    """Processes of this host that have a text among their arguments."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and mark.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                found.append(int(entry))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid() and is_alive(pid)]


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
