"""LiveRun: the file in which a run says what it does, for `corral top`. Nothing slow is imported.

The format is in README.md. It is written by one process, and read by others of the same user.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from corral.host.real import open_runs_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from corral.model.event import Event
    from corral.model.network.traffic import NetEvent

VERSION = "1"
#: What a run may say in all; only its end comes after that.
MOST_BYTES = 256 * 1024
_MOST_VALUE = 512
_MOST_ARGUMENTS = 32


class LiveRun:
    """One run, from before its plan to its end. Whatever goes wrong here, the run goes on unseen."""

    def __init__(self, handle: int) -> None:
        self._handle = handle  # of the directory
        self._descriptor = -1
        self._name = ""
        self._size = 0

    def begin(self, name: str, argv: Sequence[str], **described: str) -> None:
        """The run is planned, and starts now. Described are backend, policy, net, workspace and agent."""
        facts = [
            *(("corral-run", VERSION), ("id", name), ("pid", str(os.getpid()))),
            *(("began", f"{time.time():.3f}"), ("pidns", _pid_namespace())),
            *described.items(),
            *(("arg", argument) for argument in argv[:_MOST_ARGUMENTS]),
        ]
        # ORDER: nobody reads a name that begins with a dot, and whoever reads it else finds the lock held.
        hidden = f".{name}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            self._descriptor = os.open(hidden, flags, 0o600, dir_fd=self._handle)
            self._name = hidden
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(facts)
            os.rename(hidden, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
            self._name = name
        except OSError:
            self.close()

    def note_started(self) -> None:
        """The command itself runs."""
        self._write([("state", "running"), _now()])

    def note_event(self, event: Event) -> None:
        """Something was refused, removed or ended."""
        self._write([
            ("event", event.kind.value),
            _now(),
            ("feature", event.feature.value),
            ("evidence", event.evidence.value),
            ("subject", event.subject),
            ("reason", event.reason),
            ("hint", event.remedy()),
        ])  # fmt: skip

    def note_network(self, event: NetEvent) -> None:
        """Something was decided about a connection."""
        self._write([
            ("network", event.action.value),
            _now(),
            ("allowed", "yes" if event.allowed else "no"),
            ("host", event.host),
            ("port", str(event.port)),
            ("reason", event.reason.value),
        ])  # fmt: skip

    def end(self, status: int, text: str) -> None:
        """It is over, with this exit status."""
        self._write([("state", "ended"), _now(), ("status", str(status)), ("text", text)], is_last=True)
        self.close()

    def close(self) -> None:
        """Nothing is left of it; whoever has the file open can still read it."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):  # somebody has cleared it away
                os.unlink(self._name, dir_fd=self._handle)
            os.close(self._descriptor)
            self._descriptor = -1
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _write(self, facts: Iterable[tuple[str, str]], *, is_last: bool = False) -> None:
        if self._descriptor < 0:
            return
        data = b"".join(_encode(name, value) for name, value in facts) + b"\0"
        if self._size + len(data) > MOST_BYTES and not is_last:
            self._size = MOST_BYTES  # what is shorter does not come through either: the order holds
            return
        self._size += len(data)
        try:
            os.write(self._descriptor, data)  # one call: two threads do not mix
        except OSError:
            self._size = MOST_BYTES


def open_live_run() -> LiveRun | None:
    """A place for one run; None where there is none."""
    handle = open_runs_directory()
    return LiveRun(handle) if handle >= 0 else None


def _encode(name: str, value: str) -> bytes:
    """TRUST: a command chose some values. No value ends early, or begins another one."""
    return f"{name}={value[:_MOST_VALUE]}".replace("\0", "\\0").encode("utf-8", "surrogateescape") + b"\0"


def _now() -> tuple[str, str]:
    return "at", f"{time.time():.3f}"


def _pid_namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""
