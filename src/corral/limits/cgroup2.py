"""Control groups of version 2: one directory for everything."""

from __future__ import annotations

import contextlib
import os
import signal

from corral.limits.files import read, read_counter, read_number, write
from corral.limits.group import GroupRecords, OwnGroup, cpu_quota
from corral.linux.spec import Cgroup, CgroupKill, CgroupKillKind, CgroupKind, CpuTime
from corral.model.result import GroupUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

_KILL_ROUNDS = 50


class Group2(OwnGroup):
    """One directory, whose parent hands out the controllers."""

    #: Processor time is counted without a controller.
    needs: ClassVar[dict[str, str]] = {"memory_bytes": "memory", "cpus": "cpu", "pids": "pids"}

    def counting(self) -> frozenset[str]:
        return frozenset(self.needs.values())  # one directory has them all

    @property
    def directory(self) -> str:
        """The one directory."""
        return next(iter(self.directories.values()))

    def records(self, grace_ms: int) -> GroupRecords:
        kill, seconds = f"{self.directory}/cgroup.kill", self._request.cpu_seconds
        return GroupRecords(
            (Cgroup(CgroupKind.BIRTH, self.directory),),
            CgroupKill(CgroupKillKind.FILE, kill) if os.path.exists(kill) else None,
            CpuTime(int(seconds * 1e6), grace_ms, 1, f"{self.directory}/cpu.stat")
            if seconds is not None
            else None,
        )

    def troubles(self) -> tuple[int, int]:
        return troubles_of(self.directory)

    def usage(self) -> GroupUsage:
        directory = self.directory
        return usage_of(directory, self._request.launcher_pids)

    def kill(self) -> None:
        if self.directories:
            kill_directory(self.directory)

    def _write_limits(self) -> None:
        request = self._request
        if request.memory_bytes is not None:
            self._set(f"{self.directory}/memory.max", request.memory_bytes)
            if os.path.exists(f"{self.directory}/memory.swap.max"):
                self._set(f"{self.directory}/memory.swap.max", 0)
        if request.cpus is not None:
            quota, period = cpu_quota(request.cpus)
            self._set(f"{self.directory}/cpu.max", f"{quota} {period}")
        if request.pids is not None:
            self._set(f"{self.directory}/pids.max", request.pids + request.launcher_pids)


def kill_directory(directory: str) -> None:
    """End all members of a group at once."""
    try:
        write(f"{directory}/cgroup.kill", 1)
    except OSError:  # before Linux 5.14; a forker is beaten by repetition
        for _ in range(_KILL_ROUNDS):
            members = read(f"{directory}/cgroup.procs").split()
            for pid in members:
                with contextlib.suppress(OSError):
                    os.kill(int(pid), signal.SIGKILL)
            if not members:
                return


def troubles_of(directory: str) -> tuple[int, int]:
    """How often a member was ended for its memory, and a new one refused."""
    return (
        read_counter(f"{directory}/memory.events", "oom_kill") or 0,
        read_counter(f"{directory}/pids.events", "max") or 0,
    )


def usage_of(directory: str, launcher_pids: int) -> GroupUsage:
    """What the kernel has counted in a directory of version 2."""
    spent = {
        key: int(value)
        for key, _, value in (line.partition(" ") for line in read(f"{directory}/cpu.stat").splitlines())
        if value.isdigit()
    }
    pids, peak_pids = read_number(f"{directory}/pids.current"), read_number(f"{directory}/pids.peak")
    return GroupUsage(
        read_number(f"{directory}/memory.current"),
        read_number(f"{directory}/memory.peak"),
        None if pids is None else max(0, pids - launcher_pids),
        None if peak_pids is None else max(0, peak_pids - launcher_pids),
        spent["user_usec"] / 1e6 if "user_usec" in spent else None,
        spent["system_usec"] / 1e6 if "system_usec" in spent else None,
    )
