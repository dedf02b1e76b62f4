"""A ceiling: limits for many runs together, and groups of runs beneath it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from corral.limits import ceiling as ceiling_module
from corral.limits import discover
from corral.limits.ceiling import Ceiling
from corral.limits.discover import make_group
from corral.model.enforcer import CGROUP1, CGROUP2
from corral.model.errors import PolicyError, SetupError, UnenforceableError
from corral.model.launch import GroupRequest
from corral.model.policy import Limits
from corral.sandbox import Sandbox
from support.fake_host import FakeHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.control_groups import FakeGroups

LIMITS = Limits(memory_bytes=1 << 30, cpus=2.0, pids=100)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch):
    """Say which hierarchy is found."""

    def set_hierarchy(found: object) -> None:
        monkeypatch.setattr(discover, "find_hierarchy", lambda: found)
        monkeypatch.setattr(ceiling_module, "find_hierarchy", lambda: found)

    return set_hierarchy


@pytest.mark.parametrize(
    "limits",
    [Limits(wall_seconds=3.0), Limits(pids=3, cpu_seconds=3.0), Limits(output_bytes=3), Limits(disk_bytes=3)],
)
def test_only_what_all_runs_share_can_be_limited(limits: Limits) -> None:
    with pytest.raises(PolicyError) as refused:
        Ceiling(limits)

    assert refused.value.code == "ceiling-limit"
    assert "pids" not in refused.value.what


def test_without_control_groups_there_is_none(here) -> None:
    here(None)

    with pytest.raises(UnenforceableError) as refused, Ceiling(LIMITS):
        pass
    assert refused.value.lacking
    assert not refused.value.ran


def test_version_2_hands_its_controllers_on(version_2: FakeGroups, here) -> None:
    here(version_2.hierarchy())

    with Ceiling(LIMITS) as ceiling:
        (group,) = version_2.groups()
        assert ceiling.hierarchy is not None
        assert set(ceiling.hierarchy.parents.values()) == {str(version_2.root / group)}
        handed_on = (version_2.root / group / "cgroup.subtree_control").read_text()
        assert set(handed_on.split()) == {"+cpu", "+memory", "+pids"}
        assert (version_2.root / group / "pids.max").read_text() == "100"
    assert version_2.groups() == []


def test_trees_of_version_1_that_it_does_not_need_stay_where_they_are(version_1: FakeGroups, here) -> None:
    here(version_1.hierarchy())

    with Ceiling(LIMITS) as ceiling:
        assert ceiling.hierarchy is not None
        parents = ceiling.hierarchy.parents
        beneath = {name for name, path in parents.items() if path != str(version_1.tree(name))}
        assert beneath == {"memory", "cpu", "cpuacct", "pids"}  # what it limits or counts
        assert parents.keys() == version_1.hierarchy().parents.keys()
    assert version_1.groups() == []


@pytest.mark.parametrize("version", [CGROUP1, CGROUP2])
def test_the_group_of_a_run_is_made_beneath_it(version: str, request: pytest.FixtureRequest, here) -> None:
    groups: FakeGroups = request.getfixturevalue("version_1" if version == CGROUP1 else "version_2")
    here(groups.hierarchy())

    with Ceiling(LIMITS) as ceiling:
        run = make_group(GroupRequest(version, pids=3), "run", ceiling.hierarchy)
        above = Path(run.directories["pids"]).parent
        assert (above / "pids.max").read_text() == "100"
        assert Path(run.directories["pids"], "pids.max").read_text() == "3"
        run.remove()
    assert groups.groups() == []


@pytest.mark.parametrize("version", [CGROUP1, CGROUP2])
def test_to_close_it_ends_the_runs_beneath_it(
    version: str, request: pytest.FixtureRequest, here, member: subprocess.Popen[bytes]
) -> None:
    groups: FakeGroups = request.getfixturevalue("version_1" if version == CGROUP1 else "version_2")
    groups.without = {"cgroup.kill"}  # which is an ordinary file here, and ends nobody
    here(groups.hierarchy())

    with Ceiling(LIMITS) as ceiling:
        run = make_group(GroupRequest(version, pids=3), "run", ceiling.hierarchy)
        Path(run.directories["pids"], "cgroup.procs").write_text(f"{member.pid}\n")
        assert member.poll() is None

    assert member.wait(timeout=10) == -9
    assert groups.groups() == []


def test_a_ceiling_that_is_refused_leaves_no_group(version_2: FakeGroups, here) -> None:
    version_2.without = {"cgroup.subtree_control"}
    here(version_2.hierarchy())

    with pytest.raises(SetupError) as failed, Ceiling(LIMITS):
        pass
    assert failed.value.code == "cgroup"
    assert version_2.groups() == []


def test_what_all_runs_use_is_told_while_it_is_in_use(version_2: FakeGroups, here) -> None:
    here(version_2.hierarchy())
    ceiling = Ceiling(LIMITS)
    with pytest.raises(ValueError, match="not in use"):
        ceiling.usage()

    with ceiling:
        (group,) = version_2.groups()
        (version_2.root / group / "memory.current").write_text("4096\n")
        (version_2.root / group / "pids.current").write_text("7\n")
        assert (ceiling.usage().memory_bytes, ceiling.usage().pids) == (4096, 7)
    with pytest.raises(ValueError, match="not in use"):
        ceiling.usage()


def test_nothing_runs_within_a_ceiling_that_is_closed() -> None:
    """Though the same sandbox without one could be explained, and the ceiling is not needed for that."""
    sandbox = Sandbox("moderate", host=FakeHost(), workspace="/home/ann/project", within=Ceiling(LIMITS))

    with pytest.raises(PolicyError) as refused:
        sandbox.run("true")
    assert refused.value.code == "ceiling-closed"
    assert not refused.value.ran
