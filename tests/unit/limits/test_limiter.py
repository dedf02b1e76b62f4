"""ResourceLimiter: processes that are there already, on groups that are ordinary directories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from corral.limits import discover
from corral.limits import limiter as limiter_module
from corral.limits.limiter import Excess, ResourceLimiter
from corral.model.errors import SetupError, UnenforceableError
from corral.model.feature import Feature
from corral.model.policy import Limits
from corral.model.result import UsageSample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.control_groups import FakeGroups

LIMITS = Limits(memory_bytes=1 << 20, cpus=0.5, pids=10, cpu_seconds=5.0, wall_seconds=60.0)


@pytest.fixture
def groups(version_1: FakeGroups, monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """What is found here."""
    hierarchy = version_1.hierarchy()
    for module in (discover, limiter_module):
        monkeypatch.setattr(module, "find_hierarchy", lambda: hierarchy)
    real = limiter_module.write

    def move(path: str, value: int | str) -> None:
        """A process is in one group of a tree: it leaves the other."""
        real(path, value)
        tree = version_1.root / Path(path).relative_to(version_1.root).parts[0]
        for other in tree.rglob("cgroup.procs"):
            if other != Path(path) and other.read_text() == str(value):
                other.write_text("")

    monkeypatch.setattr(limiter_module, "write", move)
    return version_1


def place(groups: FakeGroups, controller: str) -> Path:
    (name,) = {path.partition("/")[2] for path in groups.groups()}
    return groups.tree(controller) / name


def test_a_process_is_put_into_every_tree_and_comes_back(
    groups: FakeGroups, member: subprocess.Popen[bytes]
) -> None:
    with ResourceLimiter(LIMITS) as limiter:
        limiter.apply(member.pid)
        for controller in ("memory", "cpu", "pids", "cpuacct", "freezer"):
            assert (place(groups, controller) / "cgroup.procs").read_text() == str(member.pid)
        assert (place(groups, "pids") / "pids.max").read_text() == "10"
        limiter.cleanup()

    for controller in ("memory", "cpu", "pids", "cpuacct", "freezer"):
        assert (groups.tree(controller) / "cgroup.procs").read_text() == str(member.pid)
    assert groups.groups() == []
    assert member.poll() is None


def test_nothing_is_known_and_nothing_is_wrong_before_the_first_process() -> None:
    limiter = ResourceLimiter(LIMITS)

    assert (limiter.usage(), limiter.exceeded()) == (UsageSample(0.0), None)
    limiter.kill()
    limiter.cleanup()


def test_each_limit_that_was_met_is_named(
    groups: FakeGroups, member: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this order, if there are several."""
    now = [100.0]
    monkeypatch.setattr(limiter_module.time, "monotonic", lambda: now[0])
    limiter = ResourceLimiter(LIMITS)
    limiter.apply(member.pid)
    assert limiter.exceeded() is None

    now[0] += 61
    assert limiter.exceeded() == Excess(Feature.LIMIT_WALL, "61.0 s have passed")
    (place(groups, "cpuacct") / "cpuacct.usage").write_text("5500000000\n")
    assert limiter.exceeded() == Excess(Feature.LIMIT_CPU_TIME, "5.5 s of processor time were used")
    (place(groups, "pids") / "pids.events").write_text("max 1\n")
    assert limiter.exceeded() == Excess(Feature.LIMIT_PIDS, "a new process was refused")
    (place(groups, "memory") / "memory.oom_control").write_text("oom_kill 1\n")
    assert limiter.exceeded() == Excess(Feature.LIMIT_MEMORY, "the kernel ended a process for its memory")
    assert limiter.usage() == UsageSample(61.0, 5.5, None, None)


def test_what_was_not_limited_is_not_exceeded(groups: FakeGroups, member: subprocess.Popen[bytes]) -> None:
    limiter = ResourceLimiter(Limits(cpus=1.0))
    limiter.apply(member.pid)
    (place(groups, "pids") / "pids.events").write_text("max 1\n")
    (place(groups, "memory") / "memory.oom_control").write_text("oom_kill 1\n")
    (place(groups, "cpuacct") / "cpuacct.usage").write_text("4000000000\n")

    assert limiter.exceeded() is None


def test_files_and_their_sizes_are_limited_for_the_process_itself(
    groups: FakeGroups, member: subprocess.Popen[bytes]
) -> None:
    import resource

    limiter = ResourceLimiter(Limits(file_size_bytes=4096, open_files=32))
    limiter.apply(member.pid)

    assert resource.prlimit(member.pid, resource.RLIMIT_FSIZE) == (4096, 4096)
    assert resource.prlimit(member.pid, resource.RLIMIT_NOFILE) == (32, 32)


def test_a_process_that_is_gone_cannot_be_limited(groups: FakeGroups) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    limiter = ResourceLimiter(Limits(open_files=32))

    with pytest.raises(SetupError) as failed:
        limiter.apply(process.pid)
    assert failed.value.code == "cgroup"
    limiter.cleanup()
    assert groups.groups() == []


def test_without_control_groups_no_process_can_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiter_module, "find_hierarchy", lambda: None)

    with pytest.raises(UnenforceableError):
        ResourceLimiter(LIMITS).apply(1)


def test_all_of_them_are_ended_at_once(groups: FakeGroups, member: subprocess.Popen[bytes]) -> None:
    with ResourceLimiter(LIMITS) as limiter:
        limiter.apply(member.pid)
        limiter.kill()

        assert member.wait(timeout=10) == -9
    assert groups.groups() == []
