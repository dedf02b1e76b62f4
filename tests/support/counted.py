"""A group that has counted what it is told."""

from __future__ import annotations

from corral.limits.group import Group, GroupRecords, GroupUsage


class CountedGroup(Group):
    def __init__(self, usage: GroupUsage | None = None, *, memory: bool = False, pids: bool = False) -> None:
        self._memory, self._pids, self._usage = memory, pids, usage or GroupUsage()

    def records(self, grace_ms: int) -> GroupRecords:
        return GroupRecords()

    def has_run_out_of_memory(self) -> bool:
        return self._memory

    def has_refused_a_process(self) -> bool:
        return self._pids

    def usage(self) -> GroupUsage:
        return self._usage

    def kill(self) -> None:
        raise AssertionError("nobody is in it")

    def remove(self) -> None:
        raise AssertionError("it was not made")
