"""Enforcer: one way of this host to hold limits for a whole process tree."""

from __future__ import annotations

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.feature import Feature

CGROUP1, CGROUP2, SYSTEMD = "cgroup1", "cgroup2", "systemd"
RLIMIT, SUPERVISOR, ENGINE = "rlimit", "supervisor", "engine"

#: In the words of `corral explain` and `corral doctor`.
TITLES = {
    CGROUP1: "control group, version 1",
    CGROUP2: "control group, version 2",
    SYSTEMD: "systemd scope",
    RLIMIT: "resource limits of the kernel",
    SUPERVISOR: "supervised by the launcher",
    ENGINE: "control group of the container engine",
}


class Enforcer(Record):
    name: str
    holds: frozenset[Feature] = frozenset()
    reason: str = ""  # why it holds nothing here, or not everything
    fix: str = ""
