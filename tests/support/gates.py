"""A gate: tells when the last process that holds it is gone, without asking for a process by its number."""

from __future__ import annotations

import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_SECONDS = 20.0


class Gate:
    """A named pipe. A script holds it with `exec 9>gate`, and so does whatever it starts."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._ours = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def is_left(self, seconds: float = PATIENCE_SECONDS) -> bool:
        """Whether everyone who ever held it is gone; waits for that. At least one must have held it."""
        poller = select.poll()
        poller.register(self._ours, 0)
        return bool(poller.poll(seconds * 1000))

    def close(self) -> None:
        os.close(self._ours)
