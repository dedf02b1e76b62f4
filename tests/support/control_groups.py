"""Directories that behave like the kernel's control groups: files come with a group and go with it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from corral.model.enforcer import CGROUP1, CGROUP2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from corral.limits.hierarchy import Hierarchy

VERSION_1 = {
    "memory": "limit_in_bytes usage_in_bytes max_usage_in_bytes memsw.limit_in_bytes"
    " memsw.max_usage_in_bytes oom_control swappiness",
    "cpu": "cfs_period_us cfs_quota_us",
    "cpuacct": "usage usage_user usage_sys",
    "pids": "max current peak events",
    "freezer": "state",
}
VERSION_2 = (
    "cgroup.subtree_control cgroup.kill memory.max memory.swap.max memory.current memory.peak memory.events"
    " cpu.max cpu.stat pids.max pids.current pids.peak pids.events"
)


class FakeGroups:
    """A tree of groups. A new one has the files of its controllers, all empty; `without` leaves some out.

    In version 1 the trees are directories called after their controllers, several with commas between them.
    A group with members that are alive, or with groups beneath it, cannot be removed.
    """

    def __init__(self, root: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.version = root, version
        self.without: set[str] = set()
        self._real_mkdir, self._real_rmdir = os.mkdir, os.rmdir
        monkeypatch.setattr(os, "mkdir", self._mkdir)
        monkeypatch.setattr(os, "rmdir", self._rmdir)

    def tree(self, controllers: str = "") -> Path:
        """The top of a tree."""
        top = self.root / controllers
        if not (top / "cgroup.procs").exists():
            top.mkdir(exist_ok=True)
            self._fill(top)
        return top

    def hierarchy(self, *trees: str) -> Hierarchy:
        """What would be found here."""
        from corral.limits.hierarchy import Hierarchy

        if self.version == CGROUP2:
            names = trees or ("cpu", "memory", "pids")
            return Hierarchy(CGROUP2, dict.fromkeys(names, str(self.tree())))
        parents = {name: str(self.tree(tree)) for tree in trees or VERSION_1 for name in tree.split(",")}
        return Hierarchy(CGROUP1, parents)

    def groups(self) -> list[str]:
        """Every group that was made, by its path below the root."""
        tops = {self.root, *(self.root.iterdir() if self.version == CGROUP1 else ())}
        found = [path for path in self.root.rglob("*") if path.is_dir() and path not in tops]
        return sorted(str(path.relative_to(self.root)) for path in found)

    def _files(self, group: Path) -> Iterable[str]:
        yield "cgroup.procs"
        if self.version == CGROUP2:
            yield from VERSION_2.split()
        else:
            yield "tasks"
            for name in group.relative_to(self.root).parts[0].split(","):
                yield from (f"{name}.{file}" for file in VERSION_1[name].split())

    def _fill(self, group: Path) -> None:
        for name in set(self._files(group)) - self.without:
            (group / name).touch()

    def _is_group(self, path: Path) -> bool:
        return (path.parent / "cgroup.procs").exists() and path.is_relative_to(self.root)

    def _mkdir(self, path: str, *arguments: int) -> None:
        self._real_mkdir(path, *arguments)
        if self._is_group(Path(path)):
            self._fill(Path(path))

    def _rmdir(self, path: str) -> None:
        group = Path(path)
        if group.exists() and self._is_group(group):
            entries = list(group.iterdir())
            members = (group / "cgroup.procs").read_text().split()
            if any(entry.is_dir() for entry in entries) or any(map(_is_alive, members)):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
            for entry in entries:
                entry.unlink()
        self._real_rmdir(path)


def _is_alive(pid: str) -> bool:
    """A process that has ended and was not waited for is no member."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in {"Z", "X"}
