"""Freshness: whether a sandbox that was made earlier is still what would be made now."""

from __future__ import annotations

import os

from corral.model.plan import Command
from corral.planning.build import build_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.launch import Inside
    from corral.model.plan import Plan


class Freshness:
    """What one kept sandbox was made of, to be compared with what is there at the time of a command.

    Protected names are not looked at here: the sandbox's own lookout does that when a command starts.
    """

    def __init__(self, plan: Plan, inside: Inside) -> None:
        self._plan = plan
        self._inside = dict(inside.env)
        self._then = dict(plan.env)
        targets = (*(grant.target for grant in plan.ground.grants), *plan.ground.denied)
        self._held = tuple(
            (target.path, (target.device, target.inode) if target.inode else None) for target in targets
        )

    def changed(self) -> tuple[str, ...]:
        """Granted and denied paths that are others by now, have come into being, or are gone."""
        return tuple(path for path, identity in self._held if _identity(path) != identity)

    def further_environment(self, host: Host) -> dict[str, str] | None:
        """What the host's variables make different for a command that starts now.

        None if that cannot be told to a command: a variable is gone, or the sandbox leads it elsewhere.
        """
        plan = self._plan
        command = Command((), plan.command.cwd, keeps=True)
        now = dict(build_environment(plan.policy, command, plan.ground, host, plan.waived))
        if now == self._then:
            return {}
        different = {name: value for name, value in now.items() if self._then.get(name) != value}
        is_gone = not self._then.keys() <= now.keys()
        if is_gone or any(self._inside.get(name) != self._then.get(name) for name in different):
            return None
        return different


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)
