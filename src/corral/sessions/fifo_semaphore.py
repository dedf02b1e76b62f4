"""FifoSemaphore: so many at a time, and the rest in the order in which they came."""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque


class Permit:
    """The place of one caller in the line. It is used once; `FifoSemaphore` knows what it means."""

    __slots__ = ("gate", "is_granted", "is_withdrawn")

    def __init__(self) -> None:
        self.gate = allocate_lock()
        self.is_granted = False
        self.is_withdrawn = False


class FifoSemaphore:
    """Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._waiting: deque[Permit] = deque()
        self._lock = allocate_lock()
        self._is_closed = False

    @property
    def taken(self) -> int:
        """How many have their turn now."""
        return self._taken

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._waiting)

    def take(self, turn: Permit, timeout: float | None = None) -> bool:
        """Wait for a turn; False if it took too long, was withdrawn, or there are no more."""
        with self._lock:
            if self._is_closed or turn.is_withdrawn:
                return False
            if self._taken < self._most and not self._waiting:
                self._taken += 1
                turn.is_granted = True
                return True
            turn.gate.acquire()
            self._waiting.append(turn)
        try:
            turn.gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout))
        except BaseException:  # an interrupt of the caller's
            if not self._leave(turn):
                self.give()
            raise
        return not self._leave(turn)

    def _leave(self, turn: Permit) -> bool:
        """Out of the line; False if the turn has been granted."""
        with self._lock:
            if turn.is_granted:
                return False
            if turn in self._waiting:
                self._waiting.remove(turn)
            return True

    def give(self) -> None:
        """Somebody's turn is over: the next one has it."""
        with self._lock:
            if self._waiting:
                turn = self._waiting.popleft()
                turn.is_granted = True
                turn.gate.release()
            else:
                self._taken -= 1

    def withdraw(self, turn: Permit) -> None:
        """Whoever waits for it waits no longer."""
        with self._lock:
            turn.is_withdrawn = True
            if turn in self._waiting:
                self._waiting.remove(turn)
                turn.gate.release()

    def close(self) -> None:
        """Nobody gets a turn any more."""
        with self._lock:
            self._is_closed = True
            while self._waiting:
                self._waiting.popleft().gate.release()
