"""Where control groups can be made, on trees of every kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.limits import hierarchy
from corral.limits.hierarchy import Hierarchy, explain_absence, hierarchy_of
from corral.model.enforcer import CGROUP1, CGROUP2

ALL = "cpu memory pids"


def group(path: Path, subtree: str | None = None) -> Path:
    """A directory like one of the kernel's; with version 2 it says what it hands out."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").touch()
    if subtree is not None:
        (path / "cgroup.subtree_control").write_text(subtree + "\n")
        (path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    return path


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Paths that this process may not write, even where it is root."""
    paths: set[Path] = set()
    monkeypatch.setattr(
        hierarchy.os, "access", lambda path, _mode: Path(path) not in paths and Path(path).exists()
    )
    return paths


def found(root: Path, *lines: str) -> Hierarchy | None:
    return hierarchy_of(str(root), "".join(f"{line}\n" for line in lines))


# ---- version 1


def test_version_1_has_a_tree_for_each_controller(tmp_path: Path) -> None:
    places = {
        "memory": "memory/a/b",
        "cpu": "cpu",
        "pids": "pids/c",
        "freezer": "freezer",
        "cpuacct": "cpuacct",
    }
    for place in places.values():
        group(tmp_path / place)

    assert found(
        tmp_path, "9:memory:/a/b", "8:cpu:/", "7:pids:/c", "6:freezer:/", "5:cpuacct:/", "4:devices:/"
    ) == Hierarchy(CGROUP1, {name: str(tmp_path / place) for name, place in places.items()})


def test_controllers_that_share_a_tree_have_the_same_real_directory(tmp_path: Path) -> None:
    shared = group(tmp_path / "cpu,cpuacct" / "own")
    for name in ("cpu", "cpuacct"):
        (tmp_path / name).symlink_to("cpu,cpuacct")

    assert found(tmp_path, "4:cpu,cpuacct:/own") == Hierarchy(
        CGROUP1, {"cpu": str(shared), "cpuacct": str(shared)}
    )


def test_with_both_versions_the_one_that_has_the_controllers_counts(tmp_path: Path) -> None:
    memory, _ = group(tmp_path / "memory"), group(tmp_path / "unified", "")
    group(tmp_path / "systemd" / "user.slice")

    both = found(tmp_path, "4:memory:/", "1:name=systemd:/user.slice", "0::/user.slice")

    assert both == Hierarchy(CGROUP1, {"memory": str(memory)})


def test_without_a_controller_that_limits_there_is_no_version_1(tmp_path: Path) -> None:
    """To freeze and to count is not to limit."""
    group(tmp_path / "freezer")
    group(tmp_path / "cpuacct")
    own = group(tmp_path / "user", ALL)

    assert found(tmp_path, "5:freezer:/", "4:cpuacct:/") is None
    both = found(tmp_path, "5:freezer:/", "0::/user")
    assert both == Hierarchy(CGROUP2, dict.fromkeys(ALL.split(), str(own)))


def test_a_tree_that_is_not_mounted_or_not_ours_is_passed_over(tmp_path: Path, closed: set[Path]) -> None:
    pids = group(tmp_path / "pids")
    closed.add(group(tmp_path / "cpu"))
    (tmp_path / "memory").mkdir()  # nothing is mounted on it

    lines = ("3:memory:/", "2:cpu:/", "1:pids:/")
    assert found(tmp_path, *lines) == Hierarchy(CGROUP1, {"pids": str(pids)})
    closed.add(pids)
    assert found(tmp_path, *lines) is None


# ---- version 2


def test_the_root_of_version_2_hands_out_what_it_says(tmp_path: Path) -> None:
    group(tmp_path, "cpuset cpu io memory pids")

    assert found(tmp_path, "0::/") == Hierarchy(CGROUP2, dict.fromkeys(ALL.split(), str(tmp_path)))


def test_a_group_with_processes_hands_out_nothing_and_the_one_above_does(tmp_path: Path) -> None:
    group(tmp_path, "memory")
    above = group(tmp_path / "outer", ALL)
    group(tmp_path / "outer" / "own", "")

    assert found(tmp_path, "0::/outer/own") == Hierarchy(CGROUP2, dict.fromkeys(ALL.split(), str(above)))


def test_a_user_finds_what_was_delegated_to_him_and_nothing_above_it(
    tmp_path: Path, closed: set[Path]
) -> None:
    service = "user.slice/user-1000.slice/user@1000.service"
    for path in (tmp_path, tmp_path / "user.slice", tmp_path / "user.slice/user-1000.slice"):
        closed.update({group(path, ALL), path / "cgroup.procs"})
    delegated = group(tmp_path / service, "memory pids")
    group(tmp_path / service / "app.slice", "")
    group(tmp_path / service / "app.slice/one.scope", "")

    line = f"0::/{service}/app.slice/one.scope"
    assert found(tmp_path, line) == Hierarchy(CGROUP2, dict.fromkeys(("memory", "pids"), str(delegated)))
    (delegated / "cgroup.subtree_control").write_text("")
    assert found(tmp_path, line) is None


def test_who_may_not_move_processes_there_may_make_no_group(tmp_path: Path, closed: set[Path]) -> None:
    own = group(tmp_path / "own", ALL)
    assert found(tmp_path, "0::/own") is not None
    closed.add(own / "cgroup.procs")

    assert found(tmp_path, "0::/own") is None


def test_controllers_that_limit_nothing_do_not_count(tmp_path: Path) -> None:
    group(tmp_path, "cpuset io hugetlb")

    assert found(tmp_path, "0::/") is None


def test_a_membership_outside_of_what_is_mounted_leads_to_its_root(tmp_path: Path) -> None:
    """As in a container that was entered from a group outside of its own: `0::/../..`."""
    group(tmp_path, "")
    assert found(tmp_path, "0::/../..") is None

    group(tmp_path, ALL)
    assert found(tmp_path, "0::/../..") == Hierarchy(CGROUP2, dict.fromkeys(ALL.split(), str(tmp_path)))


# ---- what is no such thing


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "memory",
        "0:",
        "::",
        ":::",
        "0::",
        "0::relative",
        "3:memory",
        "3:memory,,cpu:/",
        "x:y:z",
        "0::/no/such/group",
        "3:memory:/no/such/group",
        "3:../..:/",
        "\ufffd\ufffd:\ufffd:\ufffd",
        "0:::/a:b",
    ],
)
def test_garbage_is_no_hierarchy(tmp_path: Path, text: str) -> None:
    (tmp_path / "memory").mkdir()

    assert hierarchy_of(str(tmp_path), text) is None


def test_a_name_with_a_colon_is_a_name(tmp_path: Path) -> None:
    own = group(tmp_path / "a:b", ALL)

    assert found(tmp_path, "0::/a:b") == Hierarchy(CGROUP2, dict.fromkeys(ALL.split(), str(own)))


def test_a_key_is_the_same_for_the_same_hierarchy() -> None:
    one = Hierarchy(CGROUP1, {"cpu": "/a", "memory": "/b"})

    assert one.key() == Hierarchy(CGROUP1, {"memory": "/b", "cpu": "/a"}).key()
    others = (
        Hierarchy(CGROUP2, {"cpu": "/a", "memory": "/b"}),
        Hierarchy(CGROUP1, {"cpu": "/a"}),
        Hierarchy(CGROUP1, {"cpu": "/b", "memory": "/a"}),
    )
    assert len({one.key(), *(other.key() for other in others)}) == 4


# ---- why there is none


def test_a_host_without_any_is_told_to_mount_them(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "missing"):
        reason, fix = explain_absence(str(root))

        assert reason == "no control groups are mounted"
        assert "mount -t cgroup2" in fix


@pytest.mark.parametrize(
    ("uid", "subtree", "words"),
    [
        (0, "", "the root of the control groups hands out no controllers"),
        (0, ALL, "no control group above this process is writable"),
        (1000, "", "no control group above this process is writable"),
    ],
)
def test_who_has_version_2_and_no_group_learns_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, subtree: str, words: str
) -> None:
    group(tmp_path, subtree)
    monkeypatch.setattr(os, "geteuid", lambda: uid)

    reason, fix = explain_absence(str(tmp_path))

    assert words in reason
    assert fix


def test_a_user_of_version_1_is_told_that_root_can(tmp_path: Path) -> None:
    group(tmp_path / "memory")

    assert "not writable" in explain_absence(str(tmp_path))[0]
