"""SandboxStock: sandboxes that were made before anybody needs them, kept up in the background."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from time import monotonic

from corral.model.errors import SetupError
from corral.model.record import Record
from corral.sessions.freshness import Freshness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.sessions.session import Session

#: Threads that make and end sandboxes; one, as long as it keeps up.
_MOST_HELPERS = 4
#: Work that can wait does so until no command has begun or ended for so long: it would get into their way.
_QUIET_SECONDS = 0.01
#: After a sandbox could not be made; twice as long after each further time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0


class Ready(Record):
    """A sandbox that nothing has run in."""

    session: Session
    freshness: Freshness
    since: float

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Counts:
    """What has happened to the sandboxes of a stock, until now."""

    def __init__(self) -> None:
        self.made = self.dead = self.stale = self.expired = self.failed = 0


class SandboxStock:
    """Up to `size` sandboxes, none older than `idle_seconds`. Safe to use from several threads.

    Callers do as little as possible: what they are done with is ended by a helper thread, which also makes
    new ones. Only if `most_ending` wait for that already, the caller has to do it.
    """

    def __init__(
        self, make: Callable[[], Session], *, size: int, idle_seconds: float, most_ending: int
    ) -> None:
        self._make = make
        self._size = size
        self._idle_seconds = idle_seconds
        self._most_ending = most_ending
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)  # for helpers
        self._news = threading.Condition(self._lock)  # for whoever waits for the stock itself
        self._ready: deque[Ready] = deque()
        self._ending: deque[Session] = deque()
        self._being_made = self._being_ended = 0
        self._last_use = 0.0
        self._is_dozing = False  # a helper waits for quiet, and needs no call
        self._pause = 0.0
        self._retry_at = 0.0
        self._failure: tuple[float, Exception | None] = (0.0, None)  # the last try to refill: when, and why
        self._end_error: Exception | None = None
        self._is_closed = False
        self._helpers: list[threading.Thread] = []
        self.counts = Counts()
        with self._lock:
            self._add_helper()

    def take(self) -> Ready | None:
        """The oldest one that is alive and young enough, without waiting; None if there is none."""
        with self._lock:
            while self._ready:
                ready = self._ready.popleft()
                if self._is_too_old(ready):
                    self.counts.expired += 1
                elif not ready.session.is_open:
                    self.counts.dead += 1
                else:
                    self._call_helper()
                    return ready
                self._ending.append(ready.session)
            self._call_helper()
            return None

    def make(self) -> Ready:
        """A new one, made by the caller. Raises what making a session raises."""
        session = self._make()
        with self._lock:
            self.counts.made += 1
        if not stands(session):  # the first look is the dearest one: no command has to wait for it
            self._end(session)
            session = self._make()
        kept = session._kept
        return Ready(session, Freshness(kept.plan, kept.inside), monotonic())

    def end(self, session: Session) -> None:
        """Nobody needs it any more: it is ended soon, or now if too many are waiting for that."""
        with self._lock:
            if len(self._ending) < self._most_ending and not self._is_closed:
                self._ending.append(session)
                self._call_helper()
                return
        self._end(session)

    def distrust(self) -> None:
        """The host has changed: none of those that are ready fits any more."""
        with self._lock:
            self.counts.stale += 1 + len(self._ready)
            self._ending.extend(ready.session for ready in self._ready)
            self._ready.clear()
            self._work.notify()

    def wait_until_full(self, timeout: float | None) -> bool:
        """Wait until there are `size`; False if that takes too long. Raises why one could not be made."""
        asked = monotonic()
        with self._lock:
            self._retry_at = self._last_use = 0.0
            self._work.notify_all()
            while len(self._ready) < self._size and not self._is_closed:
                began, error = self._failure
                if error is not None and began >= asked:
                    raise error
                if error is not None:  # of an earlier try; things may have changed
                    self._failure = (0.0, None)
                    self._retry_at = 0.0
                    self._work.notify()
                left = None if timeout is None else max(0.0, asked + timeout - monotonic())
                if not self._news.wait(left):
                    return False
        return not self._is_closed

    def sizes(self) -> tuple[int, int]:
        """How many are ready, and how many are still to be ended."""
        with self._lock:
            return len(self._ready), len(self._ending) + self._being_ended

    def close(self) -> None:
        """End all of them. Raises what went wrong when one was ended, now or earlier."""
        with self._lock:
            self._is_closed = True
            self._ending.extend(ready.session for ready in self._ready)
            self._ready.clear()
            self._work.notify_all()
            self._news.notify_all()
        for helper in self._helpers:  # which may become more meanwhile
            helper.join()
        with self._lock:
            error, self._end_error = self._end_error, None
        if error is not None:
            raise error

    def _call_helper(self) -> None:
        self._last_use = monotonic()
        if not self._is_dozing or self._is_urgent():
            self._work.notify()

    def _is_urgent(self) -> bool:
        is_short = len(self._ready) * 2 < self._size and monotonic() >= self._retry_at
        return is_short or len(self._ending) * 2 > self._most_ending or self._is_closed

    def _is_too_old(self, ready: Ready) -> bool:
        return monotonic() - ready.since >= self._idle_seconds

    def _add_helper(self) -> None:
        helper = threading.Thread(target=self._help, name="corral-pool", daemon=True)
        helper.start()
        self._helpers.append(helper)

    def _help(self) -> None:
        """INVARIANT: ends only when the stock is closed and nothing is left to be ended."""
        while (work := self._next()) is not None:
            work()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            while True:
                self._drop_expired()
                if self._lacking() or self._ending:
                    quiet = 0.0 if self._is_urgent() else self._last_use + _QUIET_SECONDS - monotonic()
                    if quiet <= 0:
                        self._share_work()
                        return self._choose()
                    self._doze(quiet)
                elif self._is_closed:
                    return None
                else:
                    self._work.wait(self._patience())

    def _doze(self, seconds: float) -> None:
        self._is_dozing = True
        try:
            self._work.wait(seconds)
        finally:
            self._is_dozing = False

    def _choose(self) -> Callable[[], None]:
        """New ones first if there are few, else the old ones."""
        if self._lacking() and (not self._ending or len(self._ready) * 2 < self._size):
            self._being_made += 1
            return self._refill
        session = self._ending.popleft()
        self._being_ended += 1
        return lambda: self._end_one(session)

    def _share_work(self) -> None:
        """Helpers see to it that there are enough of them: a caller has no time for that."""
        count = len(self._helpers)
        if count < _MOST_HELPERS and len(self._ending) + self._lacking() > 2 * count:
            with contextlib.suppress(RuntimeError):  # no more threads: those that are there must do
                self._add_helper()

    def _drop_expired(self) -> None:
        while self._ready and self._is_too_old(self._ready[0]):
            self._ending.append(self._ready.popleft().session)
            self.counts.expired += 1

    def _lacking(self) -> int:
        if self._is_closed or monotonic() < self._retry_at:
            return 0
        return max(0, self._size - len(self._ready) - self._being_made)

    def _patience(self) -> float | None:
        """Seconds until there may be something to do though nobody says so."""
        times = [self._ready[0].since + self._idle_seconds] if self._ready else []
        if self._size > len(self._ready) + self._being_made:
            times.append(self._retry_at)
        return min(max(0.0, min(times) - monotonic()), threading.TIMEOUT_MAX) if times else None

    def _refill(self) -> None:
        ready, error, began = None, None, monotonic()
        try:
            ready = self.make()
        except Exception as problem:  # it is told to whoever waits for the stock, and to nobody else
            error = problem
        with self._lock:
            self._being_made -= 1
            self._failure = (began, error)
            if ready is None:
                self.counts.failed += 1
                self._pause = min(max(_FIRST_PAUSE, 2 * self._pause), _LONGEST_PAUSE)
                self._retry_at = monotonic() + self._pause
            else:
                self._pause = self._retry_at = 0.0
                (self._ending.append(ready.session) if self._is_closed else self._ready.append(ready))
            self._news.notify_all()

    def _end_one(self, session: Session) -> None:
        self._end(session)
        with self._lock:
            self._being_ended -= 1
            self._news.notify_all()

    def _end(self, session: Session) -> None:
        try:
            session.close()
        except Exception as problem:
            with self._lock:
                self._end_error = self._end_error or problem


def stands(session: Session) -> bool:
    """Whether a session protects what is there now."""
    guard = session._guard
    if guard is None:
        return True
    try:
        guard.end(guard.begin())
    except SetupError:
        return False
    return True
