"""The control group that a container engine has made for a container, looked at from outside.

The engine was told the limits. Whether its group has them is seen here, before the command runs: an engine
that lacks a controller prints a warning and goes on without the limit.
"""

from __future__ import annotations

import errno
import os

from corral.limits import cgroup1
from corral.limits.cgroup2 import troubles_of, usage_of
from corral.limits.files import read, read_number
from corral.limits.group import Group, GroupRecords
from corral.limits.hierarchy import ROOT
from corral.linux.spec import CpuTime
from corral.model.result import GroupUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import GroupRequest

_CONTROLLERS = frozenset({"memory", "cpu", "pids", "cpuacct"})
#: Numbers of the kernel's that stand for none; limits are rounded to pages, shares to microseconds.
_PAGE, _SHARE_TOLERANCE = 65_536, 0.02


class EngineGroup(Group):
    """The group of the process that `place` is told. It is the engine's: it is read, and nothing else."""

    needs_process = True

    def __init__(self, request: GroupRequest, root: str = ROOT) -> None:
        self._request = request
        self._root = root
        self._first: dict[str, str] = {}  # version 1: controller -> directory
        self._second = ""  # version 2: the one directory
        self._last: tuple[tuple[int, int], GroupUsage] | None = None

    def place(self, pid: int) -> None:
        """Find the group of a process, and see that it holds what was asked for. Raises OSError."""
        self._find(read(f"/proc/{pid}/cgroup"))
        lacking = [name for name, holds in self._held().items() if not holds]
        if lacking:
            raise OSError(errno.EPERM, f"the engine does not hold the limit on {', '.join(lacking)}")

    def _find(self, membership: str) -> None:
        for line in membership.splitlines():
            _, controllers, path = (*line.split(":", 2), "", "")[:3]
            for name in _CONTROLLERS & set(controllers.split(",")):
                directory = os.path.realpath(f"{self._root}/{name}{path}")
                if path != "/" and os.path.isdir(directory):
                    self._first[name] = directory
            directory = f"{self._root}{path}"
            if controllers == "" and path not in {"", "/"} and os.path.exists(f"{directory}/cgroup.events"):
                self._second = directory

    def _held(self) -> dict[str, bool]:
        request = self._request
        asked: dict[str, bool] = {}
        if request.memory_bytes is not None:
            files = ("memory.max", "memory.limit_in_bytes")
            asked["memory"] = self._is_at_most("memory", files, request.memory_bytes + _PAGE)
        if request.pids is not None:
            most = request.pids + request.launcher_pids
            asked["processes"] = self._is_at_most("pids", ("pids.max", "pids.max"), most)
        if request.cpus is not None:
            asked["processors"] = 0 < self._share() <= request.cpus * (1 + _SHARE_TOLERANCE)
        if request.cpu_seconds is not None:
            asked["processor time"] = bool(self._second or "cpuacct" in self._first)
        return asked

    def _is_at_most(self, controller: str, files: tuple[str, str], most: int) -> bool:
        file = f"{self._second}/{files[0]}" if self._second and controller not in self._first else ""
        value = read_number(file or cgroup1.file_in(self._first, controller, files[1]))
        return value is not None and value <= most

    def _share(self) -> float:
        """Processors that the group may use; 0 if nothing bounds it."""
        if "cpu" in self._first:
            quota, period = (
                read_number(cgroup1.file_in(self._first, "cpu", f"cpu.cfs_{name}_us"))
                for name in ("quota", "period")
            )
            return quota / period if quota and period and quota > 0 else 0.0
        quota_text, _, period_text = read(f"{self._second}/cpu.max").strip().partition(" ")
        return int(quota_text) / int(period_text) if quota_text.isdigit() and period_text.isdigit() else 0.0

    def records(self, grace_ms: int) -> GroupRecords:
        seconds = self._request.cpu_seconds
        if seconds is None:
            return GroupRecords()
        if "cpuacct" in self._first:
            time = cgroup1.processor_time(self._first["cpuacct"], seconds, grace_ms)
            return GroupRecords(cpu_time=time)
        path = f"{self._second}/cpu.stat"
        return GroupRecords(cpu_time=CpuTime(int(seconds * 1e6), grace_ms, 1, path))

    def collect(self) -> None:
        """Read the counters while they are there."""
        if self._last is None:
            self._last = (self._troubles(), self._count())

    def troubles(self) -> tuple[int, int]:
        return self._last[0] if self._last is not None else self._troubles()

    def usage(self) -> GroupUsage:
        return self._last[1] if self._last is not None else self._count()

    def _troubles(self) -> tuple[int, int]:
        if self._first:
            return cgroup1.troubles_in(self._first)
        return troubles_of(self._second) if self._second else (0, 0)

    def _count(self) -> GroupUsage:
        own = self._request.launcher_pids
        if self._first:
            return cgroup1.usage_in(self._first, own)
        return usage_of(self._second, own) if self._second else GroupUsage()

    def kill(self) -> None:
        """The launcher is the first process of the container, and ends everyone."""

    def remove(self) -> None:
        """It is the engine's to remove."""
