"""A group that has counted what it is told."""

from __future__ import annotations

from corral.limits.group import Group, GroupRecords
from corral.model.result import GroupUsage


class CountedGroup(Group):
    def __init__(self, usage: GroupUsage | None = None, *, memory: bool = False, pids: bool = False) -> None:
        self._memory, self._pids, self._usage = memory, pids, usage or GroupUsage()

    def records(self, grace_ms: int) -> GroupRecords:
        return GroupRecords()

    def troubles(self) -> tuple[int, int]:
        return int(self._memory), int(self._pids)

    def usage(self) -> GroupUsage:
        return self._usage

    def kill(self) -> None:
        raise AssertionError("nobody is in it")

    def remove(self) -> None:
        raise AssertionError("it was not made")
