"""Decode the records of control groups."""

from __future__ import annotations

from corral.linux.reader import MalformedSpec, is_group_path, is_made_path, is_plain_path
from corral.linux.spec import CPU_TIME, U32, Cgroup, CgroupKill, CgroupKillKind, CgroupKind, CpuTime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.linux.decode import Draft
    from corral.linux.reader import Reader

MOST_GROUPS = 10  # to make: each has a digit
_MOST_MICROSECONDS = (2**63 - 1) // 2


def read_cgroup(draft: Draft, reader: Reader) -> None:
    (kind,), path = reader.fixed(U32), reader.string()
    if kind not in CgroupKind._value2member_map_ or not is_group_path(path):
        raise MalformedSpec("a cgroup is of an unknown kind, or its path is not plain")
    draft.cgroups.append(Cgroup(CgroupKind(kind), path))


def read_cgroup_kill(draft: Draft, reader: Reader) -> None:
    (kind,), path = reader.fixed(U32), reader.string()
    if kind not in CgroupKillKind._value2member_map_ or not (is_plain_path(path) or is_made_path(path)):
        raise MalformedSpec("the way to end a cgroup is unknown, or its path is not plain")
    draft.cgroup_kill = CgroupKill(CgroupKillKind(kind), path)


def read_group(draft: Draft, reader: Reader) -> None:
    draft.groups.append(reader.string())
    if len(draft.groups) > MOST_GROUPS or not is_plain_path(draft.groups[-1]):
        raise MalformedSpec("there are too many groups to make, or a path is not plain")


def read_group_setting(draft: Draft, reader: Reader) -> None:
    draft.group_settings.append((reader.string(), reader.string()))
    if not is_made_path(draft.group_settings[-1][0]) or "/" not in draft.group_settings[-1][0]:
        raise MalformedSpec("a setting is of no group that is made")


def read_cpu_time(draft: Draft, reader: Reader) -> None:
    limit, grace, divisor = reader.fixed(CPU_TIME)
    draft.cpu_time = CpuTime(limit, grace, divisor, reader.string())
    if not 0 < limit <= _MOST_MICROSECONDS or not divisor or not is_group_path(draft.cpu_time.path):
        raise MalformedSpec("the processor time is impossible")
