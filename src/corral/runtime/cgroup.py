"""Control groups: made before a run, joined by the launcher itself, read and removed afterwards."""

from __future__ import annotations

import os
import time

from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.launch import CgroupRequest

_LABEL = "corral-"
_CPU_PERIOD_US = 100_000
_LONG_CPU_PERIOD_US = 1_000_000  # for small shares: no quota can be less than a millisecond
_REMOVE_SECONDS = 2.0


class Cgroup:
    """One group of this run: a directory in every controller's hierarchy (one in all with version 2)."""

    def __init__(self, request: CgroupRequest, run_id: str) -> None:
        self._directories: dict[str, str] = {}
        name = f"{_LABEL}{os.getpid()}-{run_id}"
        wanted = {
            "memory": request.memory_bytes is not None,
            "cpu": request.cpus is not None,
            "pids": request.pids is not None,
        }
        parents = _parents()
        try:
            for controller in (key for key, needed in wanted.items() if needed):
                parent = parents[controller]
                _remove_leftovers(parent)
                directory = os.path.join(parent, name)
                if directory not in self._directories.values():
                    os.mkdir(directory)
                self._directories[controller] = directory
            self._write_limits(request)
        except (OSError, KeyError) as problem:
            self.remove()
            raise SetupError(
                "cgroup",
                "the resource limits could not be set up",
                why=f"control group: {problem}",
                fix="run `corral doctor` to see which limits hold here, or ask for fewer",
            ) from problem

    def process_files(self) -> tuple[str, ...]:
        """Files to which the launcher writes itself."""
        return tuple(f"{path}/cgroup.procs" for path in dict.fromkeys(self._directories.values()))

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel ended a process of the group for its memory."""
        return any(
            self._counter("memory", file, "oom_kill") for file in ("memory.events", "memory.oom_control")
        )

    def ran_out_of_pids(self) -> bool:
        """Whether a fork was refused."""
        return self._counter("pids", "pids.events", "max") > 0

    def peak_memory_bytes(self) -> int:
        """The most memory that the whole group had at once; 0 if the kernel does not say."""
        directory = self._directories.get("memory")
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            text = _read(f"{directory}/{file}") if directory else ""
            if text.strip().isdigit():
                return int(text)
        return 0

    def remove(self) -> None:
        """Remove the group; its processes are gone, but the kernel may take a moment to notice."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        for directory in dict.fromkeys(self._directories.values()):
            while not _remove(directory) and time.monotonic() < deadline:
                time.sleep(0.001)

    def _counter(self, controller: str, file: str, name: str) -> int:
        directory = self._directories.get(controller)
        for line in (_read(f"{directory}/{file}") if directory else "").splitlines():
            key, _, value = line.partition(" ")
            if key == name and value.isdigit():
                return int(value)
        return 0

    def _write_limits(self, request: CgroupRequest) -> None:
        unified = any(os.path.exists(f"{path}/cgroup.type") for path in self._directories.values())
        if request.memory_bytes is not None:
            path = self._directories["memory"]
            if unified:
                _write(f"{path}/memory.max", request.memory_bytes)
                _write(f"{path}/memory.swap.max", 0, optional=True)
            else:
                _write(f"{path}/memory.limit_in_bytes", request.memory_bytes)
                _write(f"{path}/memory.memsw.limit_in_bytes", request.memory_bytes, optional=True)
        if request.cpus is not None:
            period = _CPU_PERIOD_US if request.cpus >= 0.01 else _LONG_CPU_PERIOD_US
            quota, path = int(request.cpus * period), self._directories["cpu"]
            if unified:
                _write(f"{path}/cpu.max", f"{quota} {period}")
            else:
                _write(f"{path}/cpu.cfs_period_us", period)
                _write(f"{path}/cpu.cfs_quota_us", quota)
        if request.pids is not None:
            _write(f"{self._directories['pids']}/pids.max", request.pids + request.launcher_pids)


def available_controllers() -> frozenset[str]:
    """Controllers among memory, cpu and pids in which this process may make groups."""
    return frozenset(_parents())


def _parents() -> dict[str, str]:
    """Controller -> directory in which groups can be made. Version 1 first, as it is per controller."""
    parents: dict[str, str] = {}
    for controllers, path in _own_groups():
        for controller in {"memory", "cpu", "pids"} & set(controllers.split(",")):
            directory = f"/sys/fs/cgroup/{controller}{path}".rstrip("/")
            if os.access(directory, os.W_OK) and os.path.exists(f"{directory}/cgroup.procs"):
                parents.setdefault(controller, directory)
        if controllers == "":
            for controller, directory in _unified_parents(path):
                parents.setdefault(controller, directory)
    return parents


def _unified_parents(path: str) -> Iterator[tuple[str, str]]:
    # A group with processes of its own cannot hand out controllers, except the root of the hierarchy.
    for directory in (f"/sys/fs/cgroup{path}".rstrip("/"), "/sys/fs/cgroup"):
        if not os.access(directory, os.W_OK) or not os.path.exists(f"{directory}/cgroup.controllers"):
            continue
        for controller in _read(f"{directory}/cgroup.subtree_control").split():
            if controller in {"memory", "cpu", "pids"}:
                yield controller, directory


def _own_groups() -> Iterator[tuple[str, str]]:
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        yield controllers, path


def _remove_leftovers(parent: str) -> None:
    """Groups of a corral process that died without removing them."""
    try:
        names = [name for name in os.listdir(parent) if name.startswith(_LABEL)]
    except OSError:
        return
    for name in names:
        owner = name.removeprefix(_LABEL).partition("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            _remove(os.path.join(parent, name))


def _remove(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, value: int | str, *, optional: bool = False) -> None:
    if optional and not os.path.exists(path):
        return
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))
