"""Groups of corral processes that died are removed, with whoever is in them; all others stay."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.limits import discover
from corral.limits.discover import make_group, remove_leftovers
from corral.limits.group import LABEL, is_leftover, label, start_time
from corral.model.enforcer import CGROUP1, CGROUP2
from corral.model.launch import GroupRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.control_groups import FakeGroups

NAMESPACE = label().split("-")[1]


@pytest.fixture
def dead_pid() -> int:
    """The number of a process that has ended and was waited for."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def name_of(pid: int, started: str, namespace: str = NAMESPACE, run: str = "0123abcd") -> str:
    return f"{LABEL}{namespace}-{pid}-{started}-{run}"


def test_a_label_names_the_namespace_the_process_and_when_it_was_started() -> None:
    assert label() == name_of(os.getpid(), start_time(os.getpid()), run="")
    assert start_time(os.getpid()).isdigit()


def test_a_forked_process_has_a_label_of_its_own() -> None:
    before = label()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, label().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        inside = pipe.read()
    os.waitpid(pid, 0)

    assert inside != before
    assert f"-{pid}-" in inside


def test_a_group_of_the_living_is_no_leftover(member: subprocess.Popen[bytes]) -> None:
    assert not is_leftover(label() + "0123")
    assert not is_leftover(name_of(member.pid, start_time(member.pid)))


def test_a_group_of_the_dead_is_one(dead_pid: int) -> None:
    assert is_leftover(name_of(dead_pid, "123456"))


def test_a_number_that_somebody_else_has_now_does_not_keep_it(member: subprocess.Popen[bytes]) -> None:
    before = str(int(start_time(member.pid)) - 1)

    assert is_leftover(name_of(member.pid, before))


def test_who_lives_in_another_pid_namespace_cannot_be_judged(dead_pid: int) -> None:
    assert not is_leftover(name_of(dead_pid, "123456", namespace=NAMESPACE + "1"))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "user.slice",
        "corral",
        LABEL,
        f"{LABEL}{NAMESPACE}",
        f"{LABEL}{NAMESPACE}-1",
        f"{LABEL}{NAMESPACE}-99999999-1",
        f"{LABEL}{NAMESPACE}-x-1-run",
        f"{LABEL}{NAMESPACE}--1-run",
        f"{LABEL}{NAMESPACE}-²-1-run",
        f"{LABEL}{NAMESPACE}-99999999-1-run-more",
        f"other-{NAMESPACE}-99999999-1-run",
        f"my{LABEL}{NAMESPACE}-99999999-1-run",
    ],
)
def test_names_that_are_not_ours_are_left_alone(name: str) -> None:
    assert not is_leftover(name)


def test_only_leftovers_are_removed(version_2: FakeGroups, dead_pid: int) -> None:
    parent = version_2.tree()
    kept = {"user.slice", label() + "run", name_of(dead_pid, "1", namespace="1")}
    for name in (*kept, name_of(dead_pid, "1"), name_of(dead_pid, "1", run="second")):
        (parent / name).mkdir()

    remove_leftovers(str(parent))

    assert set(version_2.groups()) == kept


def test_groups_within_a_ceiling_go_with_it(version_2: FakeGroups, dead_pid: int) -> None:
    ceiling = version_2.tree() / name_of(dead_pid, "1")
    (ceiling / name_of(dead_pid, "1", run="first")).mkdir(parents=True)
    (ceiling / name_of(dead_pid, "1", run="second") / "deeper").mkdir(parents=True)

    remove_leftovers(str(version_2.tree()))

    assert version_2.groups() == []


@pytest.mark.parametrize("tree", ["memory", "freezer"])
def test_whoever_is_left_in_version_1_is_ended(
    version_1: FakeGroups, dead_pid: int, member: subprocess.Popen[bytes], tree: str
) -> None:
    left = version_1.tree(tree) / name_of(dead_pid, "1")
    left.mkdir()
    (left / "cgroup.procs").write_text(f"{member.pid}\n")

    remove_leftovers(str(version_1.tree(tree)))

    assert member.wait(timeout=10) == -9
    assert version_1.groups() == []


def test_whoever_is_left_in_version_2_is_ended(
    version_2: FakeGroups, dead_pid: int, member: subprocess.Popen[bytes]
) -> None:
    version_2.without = {"cgroup.kill"}
    left = version_2.tree() / name_of(dead_pid, "1")
    left.mkdir()
    (left / "cgroup.procs").write_text(f"{member.pid}\n")

    remove_leftovers(str(version_2.tree()))

    assert member.wait(timeout=10) == -9
    assert version_2.groups() == []


def test_they_are_looked_for_once_in_a_process(version_2: FakeGroups, dead_pid: int) -> None:
    parent = str(version_2.tree())
    remove_leftovers(parent)
    (version_2.tree() / name_of(dead_pid, "1")).mkdir()

    remove_leftovers(parent)
    assert version_2.groups() == [name_of(dead_pid, "1")]
    remove_leftovers(parent, again=True)
    assert version_2.groups() == []


def test_a_place_that_cannot_be_listed_is_no_error(tmp_path: Path) -> None:
    remove_leftovers(str(tmp_path / "missing"))


@pytest.mark.parametrize("version", [CGROUP1, CGROUP2])
def test_to_make_a_group_removes_what_was_left_in_every_tree(
    version: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, dead_pid: int
) -> None:
    groups: FakeGroups = request.getfixturevalue("version_1" if version == CGROUP1 else "version_2")
    hierarchy = groups.hierarchy()
    for parent in set(hierarchy.parents.values()):
        Path(parent, name_of(dead_pid, "1")).mkdir()
    monkeypatch.setattr(discover, "find_hierarchy", lambda: hierarchy)

    made = make_group(GroupRequest(version), "run")

    assert {Path(path).name for path in groups.groups()} == {label() + "run"}
    made.remove()
    assert groups.groups() == []
