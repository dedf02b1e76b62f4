"""Sandboxes without a launcher: whether they can be watched over here, and why one never stood."""

from __future__ import annotations

import os
import select
import sys

from corral.model.errors import SetupError, UnenforceableError
from corral.runtime.starter import Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.runtime.status import Status

_NOT_FOUND = 127


def check_platform() -> None:
    """Raise UnenforceableError where the runner cannot notice that a command has ended: before it starts."""
    if not hasattr(os, "pidfd_open") and not hasattr(select, "kqueue"):
        raise UnenforceableError(
            "platform",
            "commands cannot be run on this platform",
            why="the runner watches processes by pidfd (Linux) or kqueue (macOS), and there is neither",
            fix="use corral on Linux or macOS; on Windows inside WSL2, which is Linux",
        )


if sys.platform == "darwin":

    class QueuedEnding(Ending):
        """A queue that holds one event: the end of the process."""

        def __init__(self, pid: int) -> None:
            self._queue = select.kqueue()
            flags = select.KQ_EV_ADD | select.KQ_EV_ONESHOT
            awaited = select.kevent(pid, select.KQ_FILTER_PROC, flags, select.KQ_NOTE_EXIT)
            try:
                self._queue.control([awaited], 0)
            except BaseException:
                self._queue.close()
                raise
            super().__init__(self._queue.fileno())

        def close(self) -> None:
            self._queue.close()


def queue_ending(pid: int) -> Ending:
    """Where there are no pidfds. Raises OSError."""
    if sys.platform == "darwin":
        try:
            return QueuedEnding(pid)
        except ProcessLookupError:
            # It has ended, and only waits to be waited for: a pipe that nobody writes to is at its end.
            told, end = os.pipe()
            os.close(end)
            return Ending(told)
    raise OSError("there is no kqueue")


def explain_missing(launch: Launch, status: Status, stderr: bytes) -> SetupError:
    """The error for it. What the program printed is the reason, as far as it was captured."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    how = f"signal {status.signal}" if status.signal is not None else f"status {status.exit_code}"
    why = lines[-1][:300] if lines else f"{launch.argv[0]} ended with {how}"
    if status.exit_code == _NOT_FOUND:
        return SetupError(
            "exec",
            "the command could not be started",
            why=why,
            fix="check the name; programs outside the granted paths can be added with --read",
            exit_status=_NOT_FOUND,
        )
    return SetupError(
        "sandbox",
        f"the sandbox of the backend {launch.backend} was not made",
        why=why,
        fix="run `corral doctor`, and the command again; what it printed says more",
    )
