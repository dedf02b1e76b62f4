"""Which limits control groups hold here: what is found is tried, and what fails is said."""

from __future__ import annotations

import pytest

from corral.limits import discover
from corral.limits.discover import cgroup_enforcer, make_group
from corral.limits.hierarchy import Hierarchy
from corral.model.enforcer import CGROUP1, CGROUP2, Enforcer
from corral.model.errors import SetupError
from corral.model.feature import Feature
from corral.model.launch import GroupRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.limits.group import Group
    from support.control_groups import FakeGroups

MEMORY, CPU, TIME, PIDS = (
    Feature.LIMIT_MEMORY,
    Feature.LIMIT_CPU,
    Feature.LIMIT_CPU_TIME,
    Feature.LIMIT_PIDS,
)


def good(_: Group) -> str:
    return ""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch):
    """Say which hierarchy is found."""

    def set_hierarchy(found: Hierarchy | None) -> None:
        monkeypatch.setattr(discover, "find_hierarchy", lambda: found)

    return set_hierarchy


def test_version_1_holds_what_it_has_trees_for(version_1: FakeGroups, here) -> None:
    here(version_1.hierarchy())
    assert cgroup_enforcer(good) == Enforcer(CGROUP1, frozenset({MEMORY, CPU, TIME, PIDS}))

    here(version_1.hierarchy("memory", "pids"))
    assert cgroup_enforcer(good) == Enforcer(
        CGROUP1, frozenset({MEMORY, PIDS}), "no controller for limit.cpu, limit.cpu-time"
    )
    assert version_1.groups() == []


def test_version_2_counts_time_without_a_controller(version_2: FakeGroups, here) -> None:
    here(version_2.hierarchy("memory", "pids"))

    assert cgroup_enforcer(good) == Enforcer(
        CGROUP2, frozenset({MEMORY, TIME, PIDS}), "no controller for limit.cpu"
    )
    assert version_2.groups() == []


def test_where_no_group_can_be_made_the_reason_is_said(here) -> None:
    here(None)
    found = cgroup_enforcer(good)

    assert (found.name, found.holds) == (CGROUP2, frozenset())
    assert found.reason and found.fix


def test_a_group_that_cannot_be_made_holds_nothing(version_2: FakeGroups, here) -> None:
    version_2.without = {"pids.max"}
    here(version_2.hierarchy())
    found = cgroup_enforcer(good)

    assert found.holds == frozenset()
    assert "pids.max" in found.reason
    assert version_2.groups() == []


def test_a_group_that_cannot_be_entered_holds_nothing(version_2: FakeGroups, here) -> None:
    here(version_2.hierarchy())
    found = cgroup_enforcer(lambda _: "cgroup (errno 13)")

    assert found.holds == frozenset()
    assert found.reason == "a process could not enter a group: cgroup (errno 13)"
    assert version_2.groups() == []


def test_a_trial_that_fails_in_another_way_leaves_no_group(version_2: FakeGroups, here) -> None:
    here(version_2.hierarchy())

    def bad(_: Group) -> str:
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError):
        cgroup_enforcer(bad)
    assert version_2.groups() == []


def test_two_threads_can_try_at_the_same_time(version_2: FakeGroups, here) -> None:
    here(version_2.hierarchy())
    inner: list[Enforcer] = []

    def try_again(_: Group) -> str:
        inner.append(cgroup_enforcer(good))
        return ""

    assert cgroup_enforcer(try_again) == inner[0]
    assert inner[0].holds


def test_a_host_that_changed_since_it_was_probed_is_a_setup_failure(version_2: FakeGroups, here) -> None:
    for found in (None, version_2.hierarchy()):
        here(found)
        with pytest.raises(SetupError) as failed:
            make_group(GroupRequest(CGROUP1, pids=3), "run")
        assert (failed.value.code, failed.value.ran) == ("cgroup", False)
        assert "not what they were" in failed.value.why


def test_a_kernel_that_refuses_is_a_setup_failure_that_leaves_nothing(version_2: FakeGroups, here) -> None:
    version_2.without = {"memory.max"}
    here(version_2.hierarchy())

    with pytest.raises(SetupError, match=r"memory\.max"):
        make_group(GroupRequest(CGROUP2, memory_bytes=1 << 20), "run")
    assert version_2.groups() == []
