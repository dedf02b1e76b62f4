"""Ceiling: limits for many runs together, on top of each one's own."""

from __future__ import annotations

from corral.limits.discover import make_own_group, remove_tree
from corral.limits.files import write
from corral.limits.hierarchy import Hierarchy, explain_absence, find_hierarchy
from corral.model.enforcer import CGROUP2
from corral.model.errors import PolicyError, SetupError, UnenforceableError
from corral.model.feature import Feature
from corral.model.launch import GroupRequest
from corral.model.policy import Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from corral.limits.group import OwnGroup
    from corral.model.result import GroupUsage

_HELD = ("memory_bytes", "cpus", "pids")


class Ceiling:
    """Memory, processors and processes that all runs `within` it may have at the same time.

        with Ceiling(Limits(memory_bytes=2 << 30, pids=200)) as ceiling:
            Sandbox("moderate", within=ceiling).run(...)

    Each run counts one process more than its command has, the launcher's. To enter it raises
    UnenforceableError where no control group can be made, SetupError where one that could be was refused.
    """

    def __init__(self, limits: Limits) -> None:
        others = [name for name in limits._fields if getattr(limits, name) is not None and name not in _HELD]
        if others:
            raise PolicyError(
                "ceiling-limit",
                f"{', '.join(others)} cannot be limited for several runs together",
                why="a ceiling knows memory, processors and processes",
                fix="set the other limits in the policy of each run",
            )
        self._limits = limits
        self._group: OwnGroup | None = None
        self.hierarchy: Hierarchy | None = None

    def __enter__(self) -> Self:
        import os

        found = find_hierarchy()
        if found is None:
            reason, fix = explain_absence()
            lacking = frozenset({Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_PIDS})
            raise UnenforceableError(
                "unenforceable", "no ceiling can be set here", why=reason, fix=fix, lacking=lacking
            )
        limits = self._limits
        request = GroupRequest(found.enforcer, limits.memory_bytes, limits.cpus, limits.pids)
        self._group = make_own_group(request, os.urandom(8).hex())
        try:
            self.hierarchy = self._beneath(found, self._group)
        except OSError as problem:
            self.close()
            raise SetupError(
                "cgroup",
                "the ceiling could not be set up",
                why=f"control group: {problem}",
                fix="run `corral doctor` to see which limits hold here",
            ) from problem
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it, and end the runs that are still active."""
        group, self._group, self.hierarchy = self._group, None, None
        if group is None:
            return
        for directory in dict.fromkeys(group.directories.values()):
            remove_tree(directory)  # those of the runs are beneath it

    def opened(self) -> Hierarchy:
        """Where the groups of runs are made. Raises PolicyError if it is not in use."""
        if self.hierarchy is None:
            raise PolicyError(
                "ceiling-closed",
                "the ceiling of the sandbox is not in use",
                why="it has been closed, or was never entered",
                fix="run commands inside the `with` block of the ceiling",
            )
        return self.hierarchy

    def usage(self) -> GroupUsage:
        """What all runs together use now, and their peak."""
        if self._group is None:
            raise ValueError("the ceiling is not in use")
        return self._group.usage()

    @staticmethod
    def _beneath(found: Hierarchy, group: OwnGroup) -> Hierarchy:
        if found.enforcer == CGROUP2:
            for directory in dict.fromkeys(group.directories.values()):
                handed_on = " ".join(f"+{name}" for name in found.parents)
                write(f"{directory}/cgroup.subtree_control", handed_on)
        return Hierarchy(found.enforcer, {**found.parents, **group.directories})
