"""Control groups of version 1: one directory for each controller."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time

from corral.limits.files import read, read_counter, read_number, write
from corral.limits.group import Group, GroupRecords, GroupUsage, cpu_quota
from corral.linux.spec import Cgroup, CgroupKill, CgroupKillKind, CgroupKind, CpuTime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from corral.model.launch import GroupRequest

_FREEZE_SECONDS = 0.5
_NANOSECONDS = 1000  # cpuacct counts in these; for microseconds it is divided


class Group1(Group):
    """A group in every tree that is needed, all of the same name."""

    @staticmethod
    def controllers(request: GroupRequest, parents: Mapping[str, str]) -> tuple[str, ...]:
        wanted = {
            "memory": request.memory_bytes is not None,
            "cpu": request.cpus is not None,
            "pids": request.pids is not None,
            "cpuacct": request.cpu_seconds is not None,
        }
        missing = [name for name, needed in wanted.items() if needed and name not in parents]
        if missing:
            raise OSError(errno.ENODEV, f"no controller for {', '.join(missing)}")
        counting = {"memory", "pids", *(["freezer"] if request.ends_by_group else [])}
        if request.counts_time:
            counting.add("cpuacct")
        return tuple(name for name in parents if wanted.get(name) or name in counting)

    def records(self, grace_ms: int) -> GroupRecords:
        places = dict.fromkeys(self.directories.values())
        freezer, cpuacct = self.directories.get("freezer"), self.directories.get("cpuacct")
        seconds = self._request.cpu_seconds
        return GroupRecords(
            tuple(Cgroup(CgroupKind.TASKS, f"{path}/tasks") for path in places),
            CgroupKill(CgroupKillKind.FREEZER, freezer) if freezer else None,
            CpuTime(int(seconds * 1e6), grace_ms, _NANOSECONDS, f"{cpuacct}/cpuacct.usage")
            if seconds is not None
            else None,
        )

    def has_run_out_of_memory(self) -> bool:
        return bool(read_counter(f"{self.directories.get('memory')}/memory.oom_control", "oom_kill"))

    def has_refused_a_process(self) -> bool:
        return bool(read_counter(f"{self.directories.get('pids')}/pids.events", "max"))

    def usage(self) -> GroupUsage:
        memory, pids = self.directories.get("memory"), self.directories.get("pids")
        swapped = f"{memory}/memory.memsw.max_usage_in_bytes"
        peak = read_number(swapped)
        return GroupUsage(
            read_number(f"{memory}/memory.usage_in_bytes"),
            peak if peak is not None else read_number(f"{memory}/memory.max_usage_in_bytes"),
            _less(read_number(f"{pids}/pids.current"), self._request.launcher_pids),
            _less(read_number(f"{pids}/pids.peak"), self._request.launcher_pids),
            *self._times(),
        )

    def cpu_seconds(self) -> float | None:
        """The kernel's exact sum: the parts, of the program and of the kernel, are counted by ticks alone."""
        spent = read_number(f"{self.directories.get('cpuacct')}/cpuacct.usage")
        return None if spent is None else spent / 1e9

    def _times(self) -> tuple[float | None, float | None]:
        cpuacct = self.directories.get("cpuacct")
        if cpuacct is None:
            return None, None
        user = read_number(f"{cpuacct}/cpuacct.usage_user")
        system = read_number(f"{cpuacct}/cpuacct.usage_sys")
        return (None if user is None else user / 1e9), (None if system is None else system / 1e9)

    def kill(self) -> None:
        kill_listed(self.directories.values(), self.directories.get("freezer", ""))

    def _write_limits(self) -> None:
        request = self._request
        if request.memory_bytes is not None:
            self._write_memory(self.directories["memory"], request.memory_bytes)
        if request.cpus is not None:
            quota, period = cpu_quota(request.cpus)
            write(f"{self.directories['cpu']}/cpu.cfs_period_us", period)
            write(f"{self.directories['cpu']}/cpu.cfs_quota_us", quota)
        if request.pids is not None:
            write(f"{self.directories['pids']}/pids.max", request.pids + request.launcher_pids)

    @staticmethod
    def _write_memory(directory: str, size: int) -> None:
        write(f"{directory}/memory.limit_in_bytes", size)
        both = f"{directory}/memory.memsw.limit_in_bytes"
        if os.path.exists(both):
            write(both, size)
        else:  # a kernel that does not count swap: then nothing of this group goes there
            write(f"{directory}/memory.swappiness", 0)


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


def _less(value: int | None, own: int) -> int | None:
    return None if value is None else max(0, value - own)
