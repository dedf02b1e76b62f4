"""SeenRun: a run of another process, as its file tells. Everything in it is text to be judged."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import stat
import sys

from corral.host.real import RUNS, control_directories
from corral.live_runs.live_run import MOST_BYTES, VERSION
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Facts = dict[str, str]

STARTING, RUNNING, ENDED, LOST = "starting", "running", "ended", "lost"
_MOST_READ = 2 * MOST_BYTES
_MOST_RUNS = 1000


class RunFacts(Record):
    """What a run says of itself when it begins."""

    identity: str
    pid: int
    began: float
    backend: str
    policy: str
    net: str
    workspace: str
    agent: str
    argv: tuple[str, ...]
    namespace: str  # of PIDs: in another one the number means another process


class SeenRun:
    """One run. Its file is held open, so that its end can be read when the name is gone."""

    def __init__(self, descriptor: int, facts: RunFacts, rest: bytes) -> None:
        self.facts = facts
        self.state = STARTING
        self.status: int | None = None
        self.text = ""  # how it ended
        self._descriptor = descriptor
        self._rest = rest
        self._read = 0

    def read_new(self) -> list[Facts]:
        """What it has said since the last time: events and network decisions, in their order."""
        while self._descriptor >= 0 and self._read < _MOST_READ:
            piece = os.read(self._descriptor, 65_536)
            if not piece:
                break
            self._read += len(piece)
            self._rest += piece
        *whole, self._rest = self._rest.split(b"\0\0")
        said = [_decode(record) for record in whole]
        for facts in said:
            self._take_state(facts)
        is_open = self._descriptor >= 0
        if is_open and self.state in {STARTING, RUNNING} and not _is_held(self._descriptor):
            self.state, self.text = LOST, "its corral was killed"
        return [facts for facts in said if "state" not in facts]

    def _take_state(self, facts: Facts) -> None:
        if facts.get("state") in {RUNNING, ENDED}:
            self.state = facts["state"]
            self.text = facts.get("text", "")
            with contextlib.suppress(ValueError):
                self.status = int(facts.get("status", ""))

    @property
    def is_in_own_namespace(self) -> bool:
        """Whether its PID means the same process here."""
        return self.facts.namespace == _own_namespace()

    def send(self, number: int) -> bool:
        """Pass a signal to the corral that runs it; whether it was there to have it."""
        if sys.platform != "linux" or not self.is_in_own_namespace:
            return False  # elsewhere a number may be another process by the time that it gets the signal
        try:
            process = os.pidfd_open(self.facts.pid)
        except OSError:
            return False
        try:
            # ORDER: it is still the process that holds the file, after the descriptor was opened.
            if not _is_held(self._descriptor):
                return False
            signal.pidfd_send_signal(process, number)
        except OSError:
            return False
        finally:
            os.close(process)
        return True

    def close(self) -> None:
        """Forget it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RunDirectory:
    """The runs of this user, looked at again and again."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], SeenRun] = {}

    def look(self) -> list[SeenRun]:
        """Every run that is known: those under way, and once more those that have ended since."""
        found = {key: run for place in control_directories() for key, run in self._look_at(place)}
        gone = [run for key, run in self._seen.items() if key not in found]
        self._seen = found
        return [*found.values(), *gone]

    def _look_at(self, place: str) -> Iterator[tuple[tuple[str, int], SeenRun]]:
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(os.path.join(place, RUNS), flags)
        except OSError:
            return
        try:
            status = os.fstat(handle)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return
            for name in sorted(os.listdir(handle))[:_MOST_RUNS]:
                if not name.startswith("."):
                    yield from self._take(handle, name)
        finally:
            os.close(handle)

    def _take(self, handle: int, name: str) -> Iterator[tuple[tuple[str, int], SeenRun]]:
        try:
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle
            )
        except OSError:  # it has just ended
            return
        status = os.fstat(descriptor)
        key = (name, status.st_ino)
        is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if is_ours and not _is_held(descriptor):  # its process was killed: nobody else clears it away
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=handle)
            is_ours = False
        if not is_ours or key in self._seen:
            os.close(descriptor)
            if is_ours:
                yield key, self._seen[key]
            return
        first, _, rest = os.read(descriptor, 65_536).partition(b"\0\0")
        facts = _read_facts(first)
        if facts is None:
            os.close(descriptor)
            return
        yield key, SeenRun(descriptor, facts, rest)


def _is_held(descriptor: int) -> bool:
    """Whether the run's own process has the lock, which ends with it however that ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _read_facts(record: bytes) -> RunFacts | None:
    said = _decode(record)
    argv = [text.partition("=")[2] for text in _texts(record) if text.startswith("arg=")]
    try:
        if said["corral-run"] != VERSION:
            return None
        return RunFacts(
            said["id"],
            int(said["pid"]),
            float(said["began"]),
            argv=tuple(argv),
            namespace=said.get("pidns", ""),
            **{name: said.get(name, "") for name in ("backend", "policy", "net", "workspace", "agent")},
        )
    except (KeyError, ValueError):
        return None


def _decode(record: bytes) -> Facts:
    pairs = (text.partition("=") for text in _texts(record))
    return {name: value for name, _, value in pairs}


def _texts(record: bytes) -> list[str]:
    return record.decode("utf-8", "surrogateescape").split("\0")


def _own_namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""
