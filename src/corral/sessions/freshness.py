"""Freshness: whether a sandbox that was made earlier is still what would be made now."""

from __future__ import annotations

import os

from corral.model.plan import Command
from corral.planning.build import build_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.launch import Inside
    from corral.model.plan import Plan, ResolvedPolicy


class Freshness:
    """What one kept sandbox was made of, to be compared with what is there at the time of a command.

    Protected names are not looked at here: the sandbox's own guard does that when a command starts.
    """

    def __init__(self, plan: Plan, inside: Inside) -> None:
        self._plan = plan
        self._inside = dict(inside.env)
        self._then = dict(plan.env)
        targets = (*(grant.target for grant in plan.resolved.grants), *plan.resolved.denied)
        self._held = tuple((target.path, target.device, target.inode) for target in targets)

    def changed(self) -> tuple[str, ...]:
        """Granted and denied paths that are others by now, have come into being, or are gone."""
        found = []
        for path, device, inode in self._held:
            try:
                status = os.lstat(path)
            except OSError:
                if inode:
                    found.append(path)
            else:
                if (status.st_ino, status.st_dev) != (inode, device):
                    found.append(path)
        return tuple(found)

    def further_environment(self, surroundings: Surroundings) -> dict[str, str] | None:
        """What the host's variables make different for a command that starts now.

        None if that cannot be told to a command: a variable is gone, or the sandbox leads it elsewhere.
        """
        now = surroundings.environment(self._plan)
        if now == self._then:
            return {}
        different = {name: value for name, value in now.items() if self._then.get(name) != value}
        is_gone = not self._then.keys() <= now.keys()
        if is_gone or any(self._inside.get(name) != self._then.get(name) for name in different):
            return None
        return different


class Surroundings:
    """The variables of the host as they are now, as a policy lets them through."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._last: tuple[ResolvedPolicy, object, dict[str, str]] | None = None

    def environment(self, plan: Plan) -> dict[str, str]:
        """The complete environment of a command that starts now, in the workspace."""
        # The table inside of `os.environ`, where there is one: to compare it is much quicker than to read it.
        table = getattr(self._host.environment(), "_data", None)
        last = self._last
        if last is not None and last[0] is plan.resolved and last[1] == table:
            return last[2]
        before = table.copy() if isinstance(table, dict) else None
        command = Command((), plan.command.cwd, keeps=True)
        now = dict(build_environment(plan.policy, command, plan.resolved, self._host, plan.waived))
        # ORDER: copied before it was read. What another thread changes meanwhile is seen by the next.
        self._last = (plan.resolved, before, now) if before is not None else None
        return now
