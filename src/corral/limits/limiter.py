"""ResourceLimiter: limits for processes that are there already, outside of any sandbox.

For programs that start processes by other means and want to bound, watch and release them. A sandbox needs
none of this: its limits are in its policy.
"""

from __future__ import annotations

import contextlib
import os
import time

from corral.limits.discover import make_own_group
from corral.limits.files import read, write
from corral.limits.group import KEPT
from corral.limits.hierarchy import explain_absence, find_hierarchy
from corral.model.enforcer import CGROUP1
from corral.model.errors import PolicyError, SetupError, UnenforceableError
from corral.model.feature import Feature
from corral.model.launch import GroupRequest
from corral.model.record import Record
from corral.model.result import UsageSample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from corral.limits.group import OwnGroup
    from corral.limits.hierarchy import Hierarchy
    from corral.model.policy import Limits


_UNKNOWN = ("output_bytes", "disk_bytes", "disk_files")
_ROUNDS = 200


class Excess(Record):
    """A limit that was reached, and the details."""

    feature: Feature
    reason: str


class ResourceLimiter:
    """One group for any number of processes.

        with ResourceLimiter(Limits(memory_bytes=512 << 20, pids=10)) as limiter:
            limiter.apply(process.pid)
            print(limiter.usage().memory_bytes, limiter.exceeded())

    What it starts after `apply` is bound as well. Time and processor time are not held: `exceeded` tells, and
    the caller decides. `cleanup` lets everyone go, to the caller's own group; limits of open files and of the
    size of files stay with those who had them.
    """

    def __init__(self, limits: Limits) -> None:
        others = [name for name in _UNKNOWN if getattr(limits, name) is not None]
        if others:
            raise PolicyError(
                "limiter-limit",
                f"{', '.join(others)} cannot be limited for a process that is there already",
                why="its output and its private areas are made before a command starts",
                fix="leave them out, or run the command in a Sandbox",
            )
        self._limits = limits
        self._group: OwnGroup | None = None
        self._origin: dict[str, str] = {}
        self._began = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()

    def apply(self, pid: int) -> None:
        """Bind a process from now on. Raises UnenforceableError, SetupError or ValueError."""
        if pid <= 0:
            raise ValueError(f"{pid} is not the number of a process")
        group = self._make_group()
        try:
            self._set_rlimits(pid)
            for directory in dict.fromkeys(group.directories.values()):
                write(f"{directory}/cgroup.procs", pid)
        except OSError as problem:
            raise SetupError(
                "cgroup",
                f"process {pid} could not be limited",
                why=problem.strerror or str(problem),
                fix="name a process that is running and belongs to this user",
            ) from problem

    def usage(self) -> UsageSample:
        """What all of them together use now."""
        if self._group is None:
            return UsageSample(0.0)
        counted = self._group.usage()
        return UsageSample(
            time.monotonic() - self._began, self._group.cpu_seconds(), counted.memory_bytes, counted.pids
        )

    def exceeded(self) -> Excess | None:
        """The first limit that was met, from what the kernel has counted; None if there is none."""
        group, limits = self._group, self._limits
        if group is None:
            return None
        sample = self.usage()
        spent = sample.cpu_seconds or 0.0
        if limits.memory_bytes is not None and group.has_run_out_of_memory():
            return Excess(Feature.LIMIT_MEMORY, "the kernel ended a process for its memory")
        if limits.pids is not None and group.has_refused_a_process():
            return Excess(Feature.LIMIT_PIDS, "a new process was refused")
        if limits.cpu_seconds is not None and spent >= limits.cpu_seconds:
            return Excess(Feature.LIMIT_CPU_TIME, f"{spent:.1f} s of processor time were used")
        if limits.wall_seconds is not None and sample.wall_seconds >= limits.wall_seconds:
            return Excess(Feature.LIMIT_WALL, f"{sample.wall_seconds:.1f} s have passed")
        return None

    def kill(self) -> None:
        """End all of them at once."""
        if self._group is not None:
            self._group.kill()

    def cleanup(self) -> None:
        """Let everyone go and remove the group."""
        group, self._group = self._group, None
        if group is None:
            return
        for controller, directory in group.directories.items():
            _let_go(directory, self._origin[controller])
        group.remove()

    def _make_group(self) -> OwnGroup:
        if self._group is None:
            hierarchy = find_hierarchy()
            if hierarchy is None:
                reason, fix = explain_absence()
                raise UnenforceableError(
                    "unenforceable",
                    "no process that is running already can be limited here",
                    why=reason,
                    fix=fix,
                    lacking=frozenset({Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_PIDS}),
                )
            limits = self._limits
            request = GroupRequest(
                hierarchy.enforcer,
                limits.memory_bytes,
                limits.cpus,
                limits.pids,
                ends_by_group=True,
            )
            self._origin = _own_places(hierarchy)
            self._group = make_own_group(request, f"{KEPT}{os.urandom(8).hex()}")
            self._began = time.monotonic()
        return self._group

    def _set_rlimits(self, pid: int) -> None:
        import resource

        limits = self._limits
        pairs = ((resource.RLIMIT_FSIZE, limits.file_size_bytes), (resource.RLIMIT_NOFILE, limits.open_files))
        for kind, value in pairs:
            if value is not None:
                resource.prlimit(pid, kind, (value, value))


def _let_go(directory: str, origin: str) -> None:
    """Move everyone out, those who are forked meanwhile as well. Raises SetupError; nobody is ended."""
    for _ in range(_ROUNDS):
        members = read(f"{directory}/cgroup.procs").split()
        if not members:
            return
        for pid in members:
            with contextlib.suppress(OSError):  # it may have ended; whoever is still there is seen again
                write(f"{origin}/cgroup.procs", pid)
    raise SetupError(
        "cgroup",
        f"the processes in {directory} could not be released",
        why="they may not be moved, or start others faster than they can be",
        fix="end them with `kill`",
        ran=True,
    )


def _own_places(hierarchy: Hierarchy) -> dict[str, str]:
    """The group that this process is in, for each controller: where released processes go."""
    if hierarchy.enforcer == CGROUP1:
        return dict(hierarchy.parents)
    path = next((line[3:] for line in read("/proc/self/cgroup").splitlines() if line.startswith("0::")), "/")
    return dict.fromkeys(hierarchy.parents, f"/sys/fs/cgroup{path}".rstrip("/"))
