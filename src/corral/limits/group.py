"""Group: a control group for one run. Made before it, entered by the launcher's child, removed afterwards.

`OwnGroup` is made by corral, in one way for each version of control groups; `scope.Scope` by systemd.
"""

from __future__ import annotations

import errno
import os
import time
from abc import ABC, abstractmethod
from functools import lru_cache

from corral.limits.files import read, write
from corral.model.errors import SetupError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import ClassVar

    from corral.limits.hierarchy import Hierarchy
    from corral.linux.spec import Cgroup, CgroupKill, CpuTime
    from corral.model.launch import GroupRequest
    from corral.model.result import GroupUsage

LABEL = "corral-"
#: Begins the last part of a name: its members are not of a sandbox, and are never ended by a sweep.
KEPT = "kept"
CPU_PERIOD_US = 100_000
LONG_CPU_PERIOD_US = 1_000_000  # for small shares: no quota can be less than a millisecond
_REMOVE_SECONDS = 2.0


class GroupRecords(Record):
    """What the launcher is told about a group."""

    groups: tuple[Cgroup, ...] = ()
    kill: CgroupKill | None = None
    cpu_time: CpuTime | None = None


class Group(ABC):
    """What the runner asks of every kind of group."""

    #: It is made around a process, by `place`, and its counters must be read, by `collect`, before that ends.
    needs_process = False

    @abstractmethod
    def records(self, grace_ms: int) -> GroupRecords:
        """What the launcher must know to enter, watch and end the group."""

    def place(self, pid: int) -> None:  # noqa: B027  (most kinds are there before the process)
        """Only where it needs a process: make it around one, which waits meanwhile. Raises OSError."""

    def collect(self) -> None:  # noqa: B027
        """Only where it needs a process: read the counters, while it is there."""

    @abstractmethod
    def troubles(self) -> tuple[int, int]:
        """How often the kernel ended a process of the group for its memory, and refused a new one."""

    def has_run_out_of_memory(self) -> bool:
        """Whether the kernel ended a process of the group for its memory."""
        return self.troubles()[0] > 0

    def has_refused_a_process(self) -> bool:
        """Whether a new process was refused because of the limit."""
        return self.troubles()[1] > 0

    @abstractmethod
    def usage(self) -> GroupUsage:
        """What was used until now."""

    def cpu_seconds(self) -> float | None:
        """Processor time of all members, past ones included; None if this group does not count it."""
        counted = self.usage()
        if counted.user_seconds is None or counted.system_seconds is None:
            return None
        return counted.user_seconds + counted.system_seconds

    @abstractmethod
    def kill(self) -> None:
        """End all members at once."""

    @abstractmethod
    def remove(self) -> None:
        """Remove the group, and whoever is still in it."""


class Span:
    """Of what a group counts, the part since now: one command of several in the same group."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._before = group.troubles()

    def has_run_out_of_memory(self) -> bool:
        """Whether the kernel ended a process of the group for its memory since then."""
        return self._group.troubles()[0] > self._before[0]

    def has_refused_a_process(self) -> bool:
        """Whether a new process was refused since then."""
        return self._group.troubles()[1] > self._before[1]


class OwnGroup(Group):
    """A group that corral makes itself. Making one raises OSError; then nothing is left of it."""

    #: Field of a request -> the controller that it needs.
    needs: ClassVar[Mapping[str, str]]

    def __init__(self, hierarchy: Hierarchy, request: GroupRequest, name: str) -> None:
        self.directories: dict[str, str] = {}
        self.settings: list[tuple[str, str]] = []  # files and what was written there
        self._request = request
        wanted = {
            controller for field, controller in self.needs.items() if getattr(request, field) is not None
        }
        missing = sorted(wanted - hierarchy.parents.keys())
        if missing:
            raise OSError(errno.ENODEV, f"no controller for {', '.join(missing)}")
        try:
            for controller in hierarchy.parents:
                if controller in wanted | self.counting():
                    self._make(controller, os.path.join(hierarchy.parents[controller], name))
            self._write_limits()
        except OSError:
            self.remove()
            raise

    @abstractmethod
    def counting(self) -> frozenset[str]:
        """Controllers that a run has for its accounts and its end, whatever it asks for."""

    def remove(self) -> None:
        """Remove the group, and whoever is still in it; the kernel may take a moment to forget the dead."""
        remove_directories(self.directories.values(), self.kill)

    def _set(self, path: str, value: int | str) -> None:
        """Write a setting, and remember it: a compiled plan has the launcher do the same."""
        write(path, value)
        self.settings.append((path, str(value)))

    def _make(self, controller: str, directory: str) -> None:
        if directory not in self.directories.values():
            os.mkdir(directory, 0o755)
        self.directories[controller] = directory

    @abstractmethod
    def _write_limits(self) -> None:
        """Put what the request says into the files of the group."""


def group_failed(problem: OSError) -> SetupError:
    """The error of a run whose group could not be made."""
    return SetupError(
        "cgroup",
        "the resource limits could not be set up",
        why=f"control group: {problem}",
        fix="run `corral doctor` to see which limits hold here, or ask for fewer",
    )


def cpu_quota(cpus: float) -> tuple[int, int]:
    """(quota, period) in microseconds for a share of the processors."""
    period = CPU_PERIOD_US if cpus >= 0.01 else LONG_CPU_PERIOD_US
    return max(1000, int(cpus * period)), period


def label() -> str:
    """How the names of this process's groups begin: its PID namespace, PID and the time it was started at."""
    return _label_of(os.getpid())  # a process that was forked has another


@lru_cache(maxsize=1)
def _label_of(pid: int) -> str:
    return f"{LABEL}{_pid_namespace()}-{pid}-{start_time(pid)}-"


def is_leftover(name: str) -> bool:
    """Whether a group belongs to a corral process of this PID namespace that is gone."""
    parts = name.removeprefix(LABEL).split("-")
    if not name.startswith(LABEL) or len(parts) != 4 or not parts[1].isdecimal():
        return False
    return parts[0] == _pid_namespace() and start_time(int(parts[1])) != parts[2]


def start_time(pid: int) -> str:
    """When a process was started, in the kernel's ticks; empty if it is gone."""
    # The name may hold spaces and parentheses, but nothing after it does.
    fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _pid_namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "0"


def remove_directories(
    directories: Iterable[str], kill: Callable[[], None], patience: float | None = None
) -> None:
    """Remove groups that belong together. The members of one that has any are ended."""
    deadline = time.monotonic() + (_REMOVE_SECONDS if patience is None else patience)
    for directory in dict.fromkeys(directories):
        if _is_removed(directory):
            continue
        kill()
        while not _is_removed(directory) and time.monotonic() < deadline:
            time.sleep(0.0005)


def _is_removed(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
