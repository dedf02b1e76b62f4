"""Groups of version 1, on directories that look like the kernel's."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from corral.limits import cgroup1, group
from corral.limits.cgroup1 import Group1
from corral.linux.spec import Cgroup, CgroupKill, CgroupKillKind, CgroupKind, CpuTime
from corral.model.enforcer import CGROUP1
from corral.model.launch import GroupRequest
from corral.model.result import GroupUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.control_groups import FakeGroups

FULL = GroupRequest(CGROUP1, 1 << 20, 0.5, 10, 30.0, launcher_pids=2, ends_by_group=True)
SEPARATE = ("memory", "cpu", "cpuacct", "pids", "freezer")


def text(group: Group1, controller: str, name: str) -> str:
    return Path(group.directories[controller], name).read_text()


def put(group: Group1, controller: str, name: str, value: str) -> None:
    Path(group.directories[controller], name).write_text(value)


def test_limits_are_written_as_this_version_wants_them(version_1: FakeGroups) -> None:
    group = Group1(version_1.hierarchy(), FULL, "run")

    assert text(group, "memory", "memory.limit_in_bytes") == str(1 << 20)
    assert text(group, "memory", "memory.memsw.limit_in_bytes") == str(1 << 20)
    assert text(group, "memory", "memory.swappiness") == ""
    assert text(group, "cpu", "cpu.cfs_period_us") == "100000"
    assert text(group, "cpu", "cpu.cfs_quota_us") == "50000"
    assert text(group, "pids", "pids.max") == "12"
    assert version_1.groups() == sorted(f"{name}/run" for name in SEPARATE)


def test_where_swap_is_not_counted_nothing_goes_there(version_1: FakeGroups) -> None:
    version_1.without = {"memory.memsw.limit_in_bytes"}

    group = Group1(version_1.hierarchy(), FULL, "run")

    assert text(group, "memory", "memory.swappiness") == "0"


@pytest.mark.parametrize(
    ("cpus", "quota", "period"),
    [(2.0, 200_000, 100_000), (0.01, 1000, 100_000), (0.009, 9000, 1_000_000), (0.0001, 1000, 1_000_000)],
)
def test_a_tiny_share_has_a_longer_period(
    version_1: FakeGroups, cpus: float, quota: int, period: int
) -> None:
    group = Group1(version_1.hierarchy("cpu"), GroupRequest(CGROUP1, cpus=cpus), "run")

    assert text(group, "cpu", "cpu.cfs_quota_us") == str(quota)
    assert text(group, "cpu", "cpu.cfs_period_us") == str(period)


def test_a_share_above_that_of_a_group_above_is_held_by_that_one(
    version_1: FakeGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses it: tg_cfs_schedulable_down() in kernel/sched/core.c."""
    real, hierarchy = group.write, version_1.hierarchy("cpu")

    def refuse(path: str, value: int | str) -> None:
        if path.endswith("cfs_quota_us"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(path, value)

    monkeypatch.setattr(group, "write", refuse)
    request = GroupRequest(CGROUP1, cpus=2.0)
    above = version_1.tree("cpu")
    for quota, is_held in (("50000", True), ("-1", False), ("200000", False), ("400000", False)):
        (above / "cpu.cfs_quota_us").write_text(quota)
        (above / "cpu.cfs_period_us").write_text("100000")
        if is_held:
            Group1(hierarchy, request, "run").remove()
        else:
            with pytest.raises(OSError, match="Invalid argument"):
                Group1(hierarchy, request, "run")
    assert version_1.groups() == []


def test_controllers_that_share_a_tree_share_a_group(version_1: FakeGroups) -> None:
    hierarchy = version_1.hierarchy("memory", "cpu,cpuacct", "pids", "freezer")

    group = Group1(hierarchy, FULL, "run")

    assert group.directories["cpu"] == group.directories["cpuacct"]
    assert len(group.records(0).groups) == 4
    assert version_1.groups() == ["cpu,cpuacct/run", "freezer/run", "memory/run", "pids/run"]


@pytest.mark.parametrize(
    ("request_", "trees"),
    [
        (GroupRequest(CGROUP1), {"memory", "pids", "cpuacct"}),
        (GroupRequest(CGROUP1, ends_by_group=True), {"memory", "pids", "cpuacct", "freezer"}),
        (GroupRequest(CGROUP1, cpus=1.0), {"memory", "pids", "cpuacct", "cpu"}),
    ],
)
def test_only_what_is_needed_or_counts_for_free_is_made(
    version_1: FakeGroups, request_: GroupRequest, trees: set[str]
) -> None:
    Group1(version_1.hierarchy(), request_, "run")

    assert version_1.groups() == sorted(f"{name}/run" for name in trees)


@pytest.mark.parametrize(
    ("missing", "request_"),
    [
        ("memory", GroupRequest(CGROUP1, memory_bytes=1 << 20)),
        ("cpu", GroupRequest(CGROUP1, cpus=1.0)),
        ("pids", GroupRequest(CGROUP1, pids=5)),
        ("cpuacct", GroupRequest(CGROUP1, cpu_seconds=5.0)),
    ],
)
def test_a_limit_without_its_controller_is_an_error_that_leaves_nothing(
    version_1: FakeGroups, missing: str, request_: GroupRequest
) -> None:
    hierarchy = version_1.hierarchy(*(name for name in SEPARATE if name != missing))

    with pytest.raises(OSError, match=f"no controller for {missing}"):
        Group1(hierarchy, request_, "run")
    assert version_1.groups() == []


@pytest.mark.parametrize("file", ["memory.limit_in_bytes", "cpu.cfs_quota_us", "pids.max"])
def test_a_limit_that_is_refused_leaves_nothing(version_1: FakeGroups, file: str) -> None:
    version_1.without = {file}

    with pytest.raises(OSError, match=file):
        Group1(version_1.hierarchy(), FULL, "run")
    assert version_1.groups() == []


def test_a_group_of_that_name_is_an_error_and_stays(version_1: FakeGroups) -> None:
    hierarchy = version_1.hierarchy()
    (version_1.tree("pids") / "run").mkdir()

    with pytest.raises(FileExistsError):
        Group1(hierarchy, FULL, "run")
    assert version_1.groups() == ["pids/run"]


def test_the_launcher_enters_all_and_freezes_before_it_kills(version_1: FakeGroups) -> None:
    group = Group1(version_1.hierarchy(), FULL, "run")
    records = group.records(1500)

    assert set(records.groups) == {
        Cgroup(CgroupKind.TASKS, f"{version_1.root}/{name}/run/tasks") for name in SEPARATE
    }
    assert records.kill == CgroupKill(CgroupKillKind.FREEZER, f"{version_1.root}/freezer/run")
    assert records.cpu_time == CpuTime(30_000_000, 1500, 1000, f"{version_1.root}/cpuacct/run/cpuacct.usage")


def test_without_a_freezer_or_a_limit_of_time_the_launcher_hears_of_none(version_1: FakeGroups) -> None:
    records = Group1(version_1.hierarchy(), GroupRequest(CGROUP1, pids=3), "run").records(0)

    assert (records.kill, records.cpu_time) == (None, None)


def test_counters_become_facts(version_1: FakeGroups) -> None:
    group = Group1(version_1.hierarchy(), FULL, "run")
    assert (group.has_run_out_of_memory(), group.has_refused_a_process()) == (False, False)

    put(group, "memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 0\n")
    put(group, "pids", "pids.events", "max 0\n")
    assert (group.has_run_out_of_memory(), group.has_refused_a_process()) == (False, False)

    put(group, "memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    put(group, "pids", "pids.events", "max 7\n")
    assert (group.has_run_out_of_memory(), group.has_refused_a_process()) == (True, True)


def test_what_was_used_is_without_the_launcher_and_with_swap(version_1: FakeGroups) -> None:
    group = Group1(version_1.hierarchy(), FULL, "run")
    for name, value in {"usage": "300", "max_usage": "400", "memsw.max_usage": "500"}.items():
        put(group, "memory", f"memory.{name}_in_bytes", f"{value}\n")
    put(group, "pids", "pids.current", "1\n")
    put(group, "pids", "pids.peak", "6\n")
    put(group, "cpuacct", "cpuacct.usage", "1750000000\n")
    put(group, "cpuacct", "cpuacct.usage_user", "1300000000\n")  # in the ratio of three to one
    put(group, "cpuacct", "cpuacct.usage_sys", "433333333\n")

    assert group.usage().replace(user_seconds=None, system_seconds=None) == GroupUsage(300, 500, 0, 4)
    assert group.usage().user_seconds == pytest.approx(0.75 * 1.75)
    assert group.cpu_seconds() == pytest.approx(1.75)
    Path(group.directories["memory"], "memory.memsw.max_usage_in_bytes").unlink()
    assert group.usage().peak_memory_bytes == 400


def test_what_is_not_counted_is_none_and_not_nought(version_1: FakeGroups) -> None:
    group = Group1(version_1.hierarchy("cpu"), GroupRequest(CGROUP1, cpus=1.0), "run")

    assert group.usage() == GroupUsage()
    assert group.cpu_seconds() is None
    assert (group.has_run_out_of_memory(), group.has_refused_a_process()) == (False, False)


def test_a_counter_that_is_not_there_is_not_looked_for_in_the_working_directory(
    version_1: FakeGroups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which may be the workspace, where the command can write what it likes."""
    group = Group1(version_1.hierarchy("cpu"), GroupRequest(CGROUP1, cpus=1.0), "run")
    planted = tmp_path / "workspace" / "None"
    planted.mkdir(parents=True)
    (planted / "memory.oom_control").write_text("oom_kill 1\n")
    (planted / "pids.events").write_text("max 1\n")
    (planted / "memory.usage_in_bytes").write_text("1\n")
    (planted / "cpuacct.usage").write_text("1\n")
    monkeypatch.chdir(planted.parent)

    assert group.usage() == GroupUsage()
    assert group.cpu_seconds() is None
    assert (group.has_run_out_of_memory(), group.has_refused_a_process()) == (False, False)


def test_a_group_that_is_gone_says_nothing(version_1: FakeGroups) -> None:
    group = Group1(version_1.hierarchy(), FULL, "run")
    group.remove()

    assert group.usage() == GroupUsage()
    group.remove()
    assert version_1.groups() == []


def test_to_remove_it_is_to_end_its_members(version_1: FakeGroups, member: subprocess.Popen[bytes]) -> None:
    group = Group1(version_1.hierarchy(), FULL, "run")
    put(group, "pids", "cgroup.procs", f"{member.pid}\n")
    put(group, "freezer", "cgroup.procs", f"{member.pid}\n")

    group.remove()

    assert member.wait(timeout=10) == -9
    assert version_1.groups() == []


def test_whoever_was_frozen_to_be_ended_is_thawed(
    version_1: FakeGroups, member: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Group1(version_1.hierarchy(), FULL, "run")
    put(group, "memory", "cgroup.procs", f"{member.pid}\n")
    written: list[object] = []
    real = cgroup1.write
    monkeypatch.setattr(cgroup1, "write", lambda path, value: (written.append(value), real(path, value)))

    group.kill()

    assert written == ["FROZEN", "THAWED"]
    assert member.wait(timeout=10) == -9


def test_a_freezer_that_does_not_answer_holds_nobody_up(
    version_1: FakeGroups, member: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup1, "_FREEZE_SECONDS", 0.0)
    monkeypatch.setattr(cgroup1, "write", lambda *_: None)  # the state stays as it is
    group = Group1(version_1.hierarchy(), GroupRequest(CGROUP1, ends_by_group=True), "run")
    put(group, "memory", "cgroup.procs", f"{member.pid}\n")

    group.kill()

    assert member.wait(timeout=10) == -9
