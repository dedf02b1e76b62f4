"""Control groups of version 1: one directory for each controller."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time

from corral.limits.files import read, read_counter, read_number, write
from corral.limits.group import GroupRecords, OwnGroup, cpu_quota
from corral.linux.spec import Cgroup, CgroupKill, CgroupKillKind, CgroupKind, CpuTime
from corral.model.result import GroupUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import ClassVar

_FREEZE_SECONDS = 0.5
_COUNTING = frozenset({"memory", "pids", "cpuacct"})
_NANOSECONDS = 1000  # cpuacct counts in these; for microseconds it is divided


class Group1(OwnGroup):
    """A group in every tree that is needed, all of the same name."""

    needs: ClassVar[dict[str, str]] = {
        "memory_bytes": "memory",
        "cpus": "cpu",
        "pids": "pids",
        "cpu_seconds": "cpuacct",
    }

    def counting(self) -> frozenset[str]:
        return _COUNTING | {"freezer"} if self._request.ends_by_group else _COUNTING

    def records(self, grace_ms: int) -> GroupRecords:
        places = dict.fromkeys(self.directories.values())
        freezer, cpuacct = self.directories.get("freezer"), self.directories.get("cpuacct")
        seconds = self._request.cpu_seconds
        return GroupRecords(
            tuple(Cgroup(CgroupKind.TASKS, f"{path}/tasks") for path in places),
            CgroupKill(CgroupKillKind.FREEZER, freezer) if freezer else None,
            processor_time(cpuacct, seconds, grace_ms) if seconds is not None and cpuacct else None,
        )

    def troubles(self) -> tuple[int, int]:
        return troubles_in(self.directories)

    def usage(self) -> GroupUsage:
        return usage_in(self.directories, self._request.launcher_pids)

    def kill(self) -> None:
        kill_listed(self.directories.values(), self.directories.get("freezer", ""))

    def _write_limits(self) -> None:
        request = self._request
        if request.memory_bytes is not None:
            self._write_memory(self.directories["memory"], request.memory_bytes)
        if request.cpus is not None:
            self._write_share(self.directories["cpu"], request.cpus)
        if request.pids is not None:
            self._set(f"{self.directories['pids']}/pids.max", request.pids + request.launcher_pids)

    def _write_share(self, directory: str, cpus: float) -> None:
        quota, period = cpu_quota(cpus)
        self._set(f"{directory}/cpu.cfs_period_us", period)
        try:
            self._set(f"{directory}/cpu.cfs_quota_us", quota)
        except OSError as problem:
            # Version 1 refuses a share that is more than a group above has; that one holds then.
            if problem.errno != errno.EINVAL or not _is_less_above(directory, cpus):
                raise

    def _write_memory(self, directory: str, size: int) -> None:
        self._set(f"{directory}/memory.limit_in_bytes", size)
        buffers = f"{directory}/memory.kmem.tcp.limit_in_bytes"
        if os.path.exists(buffers):  # those of TCP are counted apart, and not at all without a limit
            self._set(buffers, size)
        both = f"{directory}/memory.memsw.limit_in_bytes"
        if os.path.exists(both):
            self._set(both, size)
        else:  # a kernel that does not count swap: then nothing of this group goes there
            self._set(f"{directory}/memory.swappiness", 0)


def troubles_in(directories: Mapping[str, str]) -> tuple[int, int]:
    """How often a member was ended for its memory, and a new one refused. Directories are by controller."""
    return (
        read_counter(file_in(directories, "memory", "memory.oom_control"), "oom_kill") or 0,
        read_counter(file_in(directories, "pids", "pids.events"), "max") or 0,
    )


def usage_in(directories: Mapping[str, str], launcher_pids: int) -> GroupUsage:
    """What the kernel has counted in the directories of a group."""
    peak = read_number(file_in(directories, "memory", "memory.memsw.max_usage_in_bytes"))
    if peak is None:
        peak = read_number(file_in(directories, "memory", "memory.max_usage_in_bytes"))
    return GroupUsage(
        read_number(file_in(directories, "memory", "memory.usage_in_bytes")),
        peak,
        _less(read_number(file_in(directories, "pids", "pids.current")), launcher_pids),
        _less(read_number(file_in(directories, "pids", "pids.peak")), launcher_pids),
        *_times(directories),
    )


def _times(directories: Mapping[str, str]) -> tuple[float | None, float | None]:
    """The whole is exact, its parts are sampled by the kernel's clock."""
    whole = read_number(file_in(directories, "cpuacct", "cpuacct.usage"))
    if whole is None:
        return None, None
    user = read_number(file_in(directories, "cpuacct", "cpuacct.usage_user")) or 0
    system = read_number(file_in(directories, "cpuacct", "cpuacct.usage_sys")) or 0
    share = user / (user + system) if user + system else 1.0
    return whole * share / 1e9, whole * (1 - share) / 1e9


def file_in(directories: Mapping[str, str], controller: str, name: str) -> str:
    """Empty without the controller. TRUST: never a relative path, which the command could have made."""
    directory = directories.get(controller)
    return f"{directory}/{name}" if directory else ""


def processor_time(directory: str, seconds: float, grace_ms: int) -> CpuTime:
    """What the launcher has to look at to hold a processor time, in the directory of `cpuacct`."""
    return CpuTime(int(seconds * 1e6), grace_ms, _NANOSECONDS, f"{directory}/cpuacct.usage")


def kill_listed(directories: Iterable[str], freezer: str) -> None:
    """End all members: frozen first, where there is a freezer, so that nobody forks meanwhile."""
    with contextlib.suppress(OSError):
        if freezer:
            _freeze(f"{freezer}/freezer.state")
    for directory in dict.fromkeys(directories):
        for pid in read(f"{directory}/cgroup.procs").split():
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
    with contextlib.suppress(OSError):
        if freezer:
            write(f"{freezer}/freezer.state", "THAWED")


def _freeze(state: str) -> None:
    write(state, "FROZEN")
    deadline = time.monotonic() + _FREEZE_SECONDS
    while read(state).strip() != "FROZEN" and time.monotonic() < deadline:
        time.sleep(0.0005)


def _is_less_above(directory: str, cpus: float) -> bool:
    """Whether a group above this one has a smaller share of the processors."""
    while os.path.exists(f"{(directory := os.path.dirname(directory))}/cpu.cfs_quota_us"):
        quota, period = (read_number(f"{directory}/cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota is not None and period and quota / period < cpus:
            return True
    return False


def _less(value: int | None, own: int) -> int | None:
    return None if value is None else max(0, value - own)
