"""Workers: daemon threads for what may wait: the host's resolver, and what callers gave to be called."""

from __future__ import annotations

import threading
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_IDLE_SECONDS = 5.0


class Workers:
    """A bounded number of threads. One that never comes back is not waited for, not even at the end."""

    def __init__(self, name: str, most: int) -> None:
        self._name, self._most = name, most
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._threads = self._idle = 0
        self._is_stopping = False

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job that raises nothing, as soon as a thread is free."""
        with self._changed:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._changed.notify()
                return
            if self._threads >= self._most:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError:  # the process may have no more threads: those that it has do it later
            with self._changed:
                self._threads -= 1

    def stop(self) -> None:
        """Idle threads end; the others when they have nothing more to do."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._jobs:
                    if self._is_stopping or not self._changed.wait(_IDLE_SECONDS):
                        break
                self._idle -= 1
                if not self._jobs:
                    self._threads -= 1
                    return
                job = self._jobs.popleft()
            try:
                job()
            except BaseException:
                with self._changed:
                    self._threads -= 1
                raise  # to be printed: jobs have to report their errors themselves
            del job


class Lane:
    """One sandbox's part of the workers: so many at once, so many waiting, first come, first served."""

    def __init__(self, workers: Workers, most_running: int, most_waiting: int) -> None:
        self._workers, self._most_running, self._most_waiting = workers, most_running, most_waiting
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = 0
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        self._is_closed = False

    def submit(self, job: Callable[[], None]) -> bool:
        """Run a job; False if too many wait already. What it raises is dropped: it has to report itself."""
        with self._lock:
            if self._is_closed or len(self._waiting) >= self._most_waiting:
                return False
            self._waiting.append(job)
            self._idle.clear()
            if self._running >= self._most_running:
                return True
            self._running += 1
        self._workers.submit(self._next)
        return True

    def close(self, seconds: float = 0.0) -> bool:
        """Take nothing more; wait for what is there, or forget it if there is no time."""
        with self._lock:
            self._is_closed = True
            if not seconds:
                self._waiting.clear()
        return self._idle.wait(seconds) if seconds else True

    def _next(self) -> None:
        """One job, then the thread is for others: no sandbox keeps one for itself."""
        with self._lock:
            job = self._waiting.popleft() if self._waiting else None
        try:
            if job is not None:
                job()
        finally:
            with self._lock:
                goes_on = bool(self._waiting)
                if not goes_on:
                    self._running -= 1
                    if not self._running:
                        self._idle.set()
            if goes_on:
                self._workers.submit(self._next)
