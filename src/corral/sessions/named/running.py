"""Activity: the commands of a named session, those that run and how many have."""

from __future__ import annotations

import os
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from corral.runtime.launcher.job import Job

_SHOWN_LENGTH = 200


class Running:
    """One command under way."""

    def __init__(self, argv: tuple[str, ...], job: Job, *, is_detached: bool) -> None:
        self.id = os.urandom(4).hex()
        self.text = " ".join(argv)[:_SHOWN_LENGTH]
        self.job = job
        self.is_detached = is_detached
        self.began = time.monotonic()

    def to_json(self) -> dict[str, Any]:
        """In JSON's own types."""
        return {
            "id": self.id,
            "command": self.text,
            "seconds": round(time.monotonic() - self.began, 3),
            "detached": self.is_detached,
        }


class Activity:
    """Counts for the idle limit and for `status`. Safe to use from several threads."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._running: dict[str, Running] = {}
        self._waiting: set[threading.Thread] = set()
        self.began = self.last = time.monotonic()
        self.count = 0

    @property
    def running(self) -> tuple[Running, ...]:
        """The commands under way."""
        with self._lock:
            return tuple(self._running.values())

    def find(self, key: str) -> Running | None:
        """The command of an id."""
        with self._lock:
            return self._running.get(key)

    def begin(self, running: Running) -> None:
        """A command is about to start."""
        with self._lock:
            self._running[running.id] = running
            self.count += 1
        self._changed()

    def end(self, running: Running) -> None:
        """A command is over."""
        with self._lock:
            self._running.pop(running.id, None)
            self.last = time.monotonic()
        self._changed()

    def wait_here(self) -> None:
        """The calling thread waits for the end of everything, which therefore must not wait for it."""
        self._waiting.add(threading.current_thread())

    def waits(self, thread: threading.Thread) -> bool:
        """Whether a thread has said so."""
        return thread in self._waiting
