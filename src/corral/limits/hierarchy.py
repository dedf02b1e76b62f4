"""Where on this host control groups can be made. Version 1 has a tree for each controller, version 2 one.

TRUST: /proc/self/cgroup and the modes of the directories say what may be tried. Whether it works is found out
by trying (see `prove` in discover.py), once per boot.
"""

from __future__ import annotations

import os
from functools import lru_cache

from corral.limits.files import read
from corral.model.enforcer import CGROUP1, CGROUP2
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = "/sys/fs/cgroup"
_LIMITING = frozenset({"memory", "cpu", "pids"})
_VERSION_1 = _LIMITING | {"cpuacct", "freezer"}


class Hierarchy(Record):
    """Directories in which this process may make groups."""

    enforcer: str  # CGROUP1 or CGROUP2
    parents: Mapping[str, str]  # controller -> directory; with version 2 the same for all

    def key(self) -> str:
        """The same text for the same hierarchy."""
        return f"{self.enforcer}:{','.join(f'{name}={path}' for name, path in sorted(self.parents.items()))}"


def find_hierarchy() -> Hierarchy | None:
    """The hierarchy with the controllers; None if this process may make no group. Cheap: nothing is tried."""
    return _kept(read("/proc/self/cgroup"))


@lru_cache(maxsize=4)
def _kept(membership: str) -> Hierarchy | None:
    # As long as the process stays where it is. Should it lose a right meanwhile, the group cannot be made.
    return hierarchy_of(ROOT, membership)


def hierarchy_of(root: str, membership: str) -> Hierarchy | None:
    """The same for a process with this /proc/PID/cgroup, and groups that are mounted elsewhere."""
    groups = [line.split(":", 2)[1:] for line in membership.splitlines() if line.count(":") >= 2]
    first = dict(_parents_of_version_1(root, groups))
    if _LIMITING & first.keys():
        return Hierarchy(CGROUP1, first)
    for controllers, path in groups:
        if controllers == "":
            parent, names = _parent_of_version_2(root, path)
            if names:
                return Hierarchy(CGROUP2, dict.fromkeys(sorted(names), parent))
    return None


def _parents_of_version_1(root: str, groups: list[list[str]]) -> Iterator[tuple[str, str]]:
    for controllers, path in groups:
        for name in _VERSION_1 & set(controllers.split(",")):
            # Controllers may share a tree (`cpu,cpuacct`), which then has a link for each of them.
            directory = os.path.realpath(f"{root}/{name}{path}")
            if os.access(directory, os.W_OK) and os.path.exists(f"{directory}/cgroup.procs"):
                yield name, directory


def _parent_of_version_2(root: str, path: str) -> tuple[str, frozenset[str]]:
    """The nearest directory upwards that is ours to write and hands out all controllers, or else some.

    A group that has processes hands out none (the root is the exception), so that it is seldom our own.
    To be moved there, `cgroup.procs` of what is above both must be writable: the directory itself is.
    """
    nearest: tuple[str, frozenset[str]] = ("", frozenset())
    directory = f"{root}{path}".rstrip("/")
    while directory.startswith(root):
        names = frozenset(read(f"{directory}/cgroup.subtree_control").split()) & _LIMITING
        if names and os.access(directory, os.W_OK) and os.access(f"{directory}/cgroup.procs", os.W_OK):
            if names == _LIMITING:
                return directory, names
            nearest = nearest if nearest[0] else (directory, names)
        directory = os.path.dirname(directory)
    return nearest


def explain_absence(root: str = ROOT) -> tuple[str, str]:
    """(reason, fix) for a host where no group can be made."""
    try:
        is_mounted = bool(os.listdir(root))
    except PermissionError:
        return f"the caller may not look into {root}", "run corral outside of the sandbox that forbids it"
    except OSError:
        is_mounted = False
    if not is_mounted:
        return "no control groups are mounted", f"mount them: `mount -t cgroup2 none {root}`"
    if os.path.exists(f"{root}/cgroup.controllers"):
        controllers = read(f"{root}/cgroup.subtree_control").split()
        if os.geteuid() == 0 and not controllers:
            return (
                "the root of the control groups hands out no controllers",
                f"`echo '+memory +cpu +pids' > {root}/cgroup.subtree_control`; in a container, move its "
                "processes to a group of their own first",
            )
        return (
            "no control group above this process is writable and hands out controllers",
            "run corral where systemd is: it is asked for a group by itself; or have one delegated, with "
            "`Delegate=yes` in the unit that corral runs in",
        )
    return f"the control groups in {root} are not writable for this user", "run corral as root"
