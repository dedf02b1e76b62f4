"""Groups of version 2, on directories that look like the kernel's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from corral.limits.cgroup2 import Group2
from corral.linux.spec import Cgroup, CgroupKill, CgroupKillKind, CgroupKind, CpuTime
from corral.model.enforcer import CGROUP2
from corral.model.launch import GroupRequest
from corral.model.result import GroupUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.control_groups import FakeGroups

FULL = GroupRequest(CGROUP2, 1 << 20, 0.5, 10, 30.0, launcher_pids=1)


def put(group: Group2, **values: str) -> None:
    """Names with a dot are written with two underscores."""
    for name, value in values.items():
        Path(group.directory, name.replace("__", ".")).write_text(value)


def text(group: Group2, name: str) -> str:
    return Path(group.directory, name).read_text()


def test_limits_are_written_as_this_version_wants_them(version_2: FakeGroups) -> None:
    group = Group2(version_2.hierarchy(), FULL, "run")

    assert text(group, "memory.max") == str(1 << 20)
    assert text(group, "memory.swap.max") == "0"
    assert text(group, "cpu.max") == "50000 100000"
    assert text(group, "pids.max") == "11"
    assert version_2.groups() == ["run"]


def test_a_kernel_without_swap_has_no_limit_for_it(version_2: FakeGroups) -> None:
    version_2.without = {"memory.swap.max"}

    group = Group2(version_2.hierarchy(), FULL, "run")

    assert text(group, "memory.max") == str(1 << 20)
    assert not Path(group.directory, "memory.swap.max").exists()


@pytest.mark.parametrize(
    ("cpus", "written"),
    [(1.5, "150000 100000"), (0.01, "1000 100000"), (0.005, "5000 1000000"), (0.0001, "1000 1000000")],
)
def test_a_tiny_share_has_a_longer_period(version_2: FakeGroups, cpus: float, written: str) -> None:
    group = Group2(version_2.hierarchy(), GroupRequest(CGROUP2, cpus=cpus), "run")

    assert text(group, "cpu.max") == written


def test_what_is_not_asked_for_is_not_written(version_2: FakeGroups) -> None:
    group = Group2(version_2.hierarchy(), GroupRequest(CGROUP2), "run")

    assert {text(group, name) for name in ("memory.max", "memory.swap.max", "cpu.max", "pids.max")} == {""}


@pytest.mark.parametrize(
    ("missing", "request_"),
    [
        ("memory", GroupRequest(CGROUP2, memory_bytes=1 << 20)),
        ("cpu", GroupRequest(CGROUP2, cpus=1.0)),
        ("pids", GroupRequest(CGROUP2, pids=5)),
    ],
)
def test_a_limit_without_its_controller_is_an_error_that_leaves_nothing(
    version_2: FakeGroups, missing: str, request_: GroupRequest
) -> None:
    hierarchy = version_2.hierarchy(*({"memory", "cpu", "pids"} - {missing}))

    with pytest.raises(OSError, match=f"no controller for {missing}"):
        Group2(hierarchy, request_, "run")
    assert version_2.groups() == []


def test_processor_time_needs_no_controller(version_2: FakeGroups) -> None:
    group = Group2(version_2.hierarchy("pids"), GroupRequest(CGROUP2, cpu_seconds=2.5), "run")

    assert group.records(100).cpu_time == CpuTime(2_500_000, 100, 1, f"{group.directory}/cpu.stat")


@pytest.mark.parametrize("file", ["memory.max", "cpu.max", "pids.max"])
def test_a_limit_that_is_refused_leaves_nothing(version_2: FakeGroups, file: str) -> None:
    version_2.without = {file}

    with pytest.raises(OSError, match=file):
        Group2(version_2.hierarchy(), FULL, "run")
    assert version_2.groups() == []


def test_the_child_is_born_in_the_group_and_ended_by_one_file(version_2: FakeGroups) -> None:
    group = Group2(version_2.hierarchy(), GroupRequest(CGROUP2), "run")
    records = group.records(0)

    assert records.groups == (Cgroup(CgroupKind.BIRTH, str(version_2.root / "run")),)
    assert records.kill == CgroupKill(CgroupKillKind.FILE, str(version_2.root / "run/cgroup.kill"))
    assert records.cpu_time is None


def test_a_kernel_without_that_file_is_not_told_of_it(version_2: FakeGroups) -> None:
    version_2.without = {"cgroup.kill"}

    assert Group2(version_2.hierarchy(), FULL, "run").records(0).kill is None


def test_counters_become_facts(version_2: FakeGroups) -> None:
    group = Group2(version_2.hierarchy(), FULL, "run")
    assert (group.has_run_out_of_memory(), group.has_refused_a_process()) == (False, False)

    put(group, memory__events="low 0\nhigh 3\nmax 9\noom 1\noom_kill 0\n", pids__events="max 0\n")
    assert (group.has_run_out_of_memory(), group.has_refused_a_process()) == (False, False)

    put(group, memory__events="max 9\noom 1\noom_kill 1\noom_group_kill 0\n", pids__events="max 2\n")
    assert (group.has_run_out_of_memory(), group.has_refused_a_process()) == (True, True)


def test_what_was_used_is_without_the_launcher(version_2: FakeGroups) -> None:
    group = Group2(version_2.hierarchy(), FULL, "run")
    put(group, memory__current="300\n", memory__peak="500\n", pids__current="0\n", pids__peak="5\n")
    put(group, cpu__stat="usage_usec 1750000\nuser_usec 1500000\nsystem_usec 250000\nnr_periods x\n")

    assert group.usage() == GroupUsage(300, 500, 0, 4, 1.5, 0.25)
    assert group.cpu_seconds() == 1.75


def test_an_older_kernel_counts_less_and_that_is_none(version_2: FakeGroups) -> None:
    """memory.peak came with Linux 5.19, pids.peak with 6.8."""
    version_2.without = {"memory.peak", "pids.peak"}
    group = Group2(version_2.hierarchy(), FULL, "run")
    put(group, memory__current="300\n", pids__current="3\n", cpu__stat="usage_usec 5\n")

    assert group.usage() == GroupUsage(300, None, 2, None, None, None)
    assert group.cpu_seconds() is None


def test_a_group_that_is_gone_says_nothing(version_2: FakeGroups) -> None:
    group = Group2(version_2.hierarchy(), FULL, "run")
    group.remove()

    assert group.usage() == GroupUsage()
    assert (group.has_run_out_of_memory(), group.has_refused_a_process()) == (False, False)
    group.remove()


def test_all_members_are_ended_at_once(version_2: FakeGroups) -> None:
    group = Group2(version_2.hierarchy(), FULL, "run")

    group.kill()

    assert text(group, "cgroup.kill") == "1"


def test_before_linux_5_14_they_are_ended_one_by_one(
    version_2: FakeGroups, member: subprocess.Popen[bytes]
) -> None:
    version_2.without = {"cgroup.kill"}
    group = Group2(version_2.hierarchy(), FULL, "run")
    put(group, cgroup__procs=f"{member.pid}\n")

    group.remove()

    assert member.wait(timeout=10) == -9
    assert version_2.groups() == []
