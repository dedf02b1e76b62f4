"""Monitor: tells a caller, now and then, what the run that is under way has cost so far."""

from __future__ import annotations

import time

from corral.model.result import UsageSample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.limits.group import Group

LEAST_SECONDS, MOST_SECONDS = 0.01, 86_400.0


class Monitor:
    """Calls a function with a sample every so many seconds, from within the runner's own loop.

    What the function returns, if anything, is shown on the caller's terminal until the next time.
    """

    def __init__(self, tell: Callable[[UsageSample], str | None], every: float) -> None:
        self._tell = tell
        self._every = min(max(LEAST_SECONDS, every), MOST_SECONDS)
        self._group: Group | None = None
        self._pid = 0
        self._began = self._next = 0.0
        self._spent = 0.0  # seconds of processor time, as far as a look at the tree has found them

    def begin(self, group: Group | None, pid: int, began: float) -> None:
        """From now on, for the descendants of a process, or for a group that counts them."""
        self._group, self._pid, self._began = group, pid, began
        self._next = began + self._every

    @property
    def patience_ms(self) -> float:
        """How long until there is something to tell."""
        return max(0.0, (self._next - time.monotonic()) * 1000)

    def act(self) -> str:
        """Tell, if it is time; returns what is to be shown, or nothing."""
        now = time.monotonic()
        if now < self._next:
            return ""
        self._next = now + self._every
        return self._tell(self._sample(now)) or ""

    def _sample(self, now: float) -> UsageSample:
        if self._group is not None:
            counted, spent = self._group.usage(), self._group.cpu_seconds()
        else:
            from corral.limits.tree import look_at_tree

            counted = look_at_tree(self._pid)
            # A process that ends between two reads of /proc is missing from this look, not from the next.
            self._spent = max(self._spent, (counted.user_seconds or 0.0) + (counted.system_seconds or 0.0))
            spent = self._spent
        return UsageSample(now - self._began, spent, counted.memory_bytes, counted.pids)
