"""A group that systemd makes: for users whose own place in the control groups is not theirs to change.

It is made when the launcher is there, which waits for its spec meanwhile, and holds the launcher as well. It
is gone as soon as it is empty; so the launcher stays until its counters have been read.
"""

from __future__ import annotations

import contextlib
import os

from corral.limits.cgroup2 import troubles_of, usage_of
from corral.limits.group import Group, GroupRecords
from corral.linux.spec import CpuTime
from corral.model.enforcer import SYSTEMD, Enforcer
from corral.model.feature import Feature
from corral.model.result import GroupUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.launch import GroupRequest

_FEATURES = {
    "memory": Feature.LIMIT_MEMORY,
    "cpu": Feature.LIMIT_CPU,
    "pids": Feature.LIMIT_PIDS,
}


#: One command that has managers of users given all controllers; theirs begin anew with the next login.
_DELEGATE = (
    "`sudo sh -c 'mkdir -p /etc/systemd/system/user@.service.d && "
    'printf "[Service]\\nDelegate=cpu memory pids\\n" > /etc/systemd/system/user@.service.d/delegate.conf '
    "&& systemctl daemon-reload'`, then log in again"
)


class Scope(Group):
    """One transient scope. `place` makes it; until then there is nothing."""

    needs_process = True

    def __init__(self, request: GroupRequest, run_id: str) -> None:
        from corral.limits.systemd import scope_name

        self._request = request
        self._name = scope_name(run_id)
        self._directory = ""
        self._last: tuple[tuple[int, int], GroupUsage] | None = None

    def place(self, pid: int) -> None:
        """Make the scope around a process. Raises OSError."""
        from corral.limits.systemd import ScopeRequest, start_scope

        request, own = self._request, self._request.launcher_pids
        pids = None if request.pids is None else request.pids + own
        self._directory = start_scope(ScopeRequest(self._name, pid, request.memory_bytes, request.cpus, pids))

    def records(self, grace_ms: int) -> GroupRecords:
        seconds = self._request.cpu_seconds
        if seconds is None:
            return GroupRecords()
        path = f"{self._directory}/cpu.stat"
        return GroupRecords(cpu_time=CpuTime(int(seconds * 1e6), grace_ms, 1, path))

    def collect(self) -> None:
        """Read the counters while they are there."""
        if self._directory and self._last is None:
            self._last = (self.troubles(), self.usage())

    def troubles(self) -> tuple[int, int]:
        if self._last is not None:
            return self._last[0]
        return troubles_of(self._directory) if self._directory else (0, 0)

    def usage(self) -> GroupUsage:
        if self._last is not None:
            return self._last[1]
        return usage_of(self._directory, self._request.launcher_pids) if self._directory else GroupUsage()

    def kill(self) -> None:
        """The launcher ends everyone; the scope is stopped if it did not."""
        self.remove()

    def remove(self) -> None:
        from corral.limits.systemd import stop_scope

        if self._directory:
            with contextlib.suppress(OSError):  # it went when the last process did
                stop_scope(self._name)


def systemd_enforcer(
    try_scope: Callable[[Scope], str], request: Callable[[frozenset[Feature]], GroupRequest]
) -> Enforcer:
    """What systemd's manager holds for this user, proved on a scope with every limit."""
    from corral.limits.systemd import controllers, is_reachable

    reachable, told = is_reachable()
    if not reachable:
        return Enforcer(SYSTEMD, frozenset(), f"systemd cannot be asked: {told}", _fix_unreachable())
    holds = frozenset(_FEATURES[name] for name in controllers())
    if not holds:
        reason = "systemd's manager for this user was given no controllers"
        return Enforcer(SYSTEMD, frozenset(), reason, _DELEGATE)
    holds |= {Feature.LIMIT_CPU_TIME}
    failure = try_scope(Scope(request(holds), f"trial{os.urandom(4).hex()}"))
    if failure:
        return Enforcer(SYSTEMD, frozenset(), f"a process could not enter a scope: {failure}")
    missing = ", ".join(sorted(name for name, feature in _FEATURES.items() if feature not in holds))
    if missing:
        return Enforcer(SYSTEMD, holds, f"its manager was not given {missing}", _DELEGATE)
    return Enforcer(SYSTEMD, holds)


def _fix_unreachable() -> str:
    """One command that gives a user a manager of his own, which corral then finds by itself."""
    uid = os.geteuid()
    return (
        f"`sudo loginctl enable-linger {uid}`, and corral uses the manager that you have then" if uid else ""
    )
