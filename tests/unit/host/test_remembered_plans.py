"""What planning found among many repositories is kept, and believed only while it is still so."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.host.real import RealHost
from corral.model.container import Container
from corral.model.feature import Feature
from corral.model.plan import Command
from corral.pipeline import planner as planner_module
from corral.pipeline.planner import Planner
from corral.policy.compose import compose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.plan import Plan
    from corral.model.policy import Policy

MANY = 64


class Workspace:
    """Repositories in a directory, planned in one new process after the other: each has its own planner."""

    def __init__(self, root: Path, state: Path) -> None:
        self.root, self.state, self.searches = root, state, 0
        for number in range(MANY):
            self.add(f"r{number}")

    def add(self, name: str) -> Path:
        git = self.root / name / ".git"
        for inner in ("hooks", "objects", "refs"):
            (git / inner).mkdir(parents=True)
        (git / "config").write_text("[core]\n\tbare = false\n")
        (git / "HEAD").write_text("ref: refs/heads/main\n")
        return git

    def plan(self, policy: Policy | None = None, *, waived: frozenset[Feature] = frozenset()) -> Plan:
        planner = Planner(
            policy or compose("moderate", ()),
            str(self.root),
            RealHost(),
            backend="",
            order=(),
            waived=waived,
            container=Container(),
            falls_back=False,
        )
        return planner.plan(Command(("true",), str(self.root)))

    def stored(self) -> list[Path]:
        return sorted((self.state / "corral" / "plans").glob("*"))


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    state, home = tmp_path / "state", tmp_path / "home"
    home.mkdir()
    (state / "corral" / "plans").mkdir(parents=True)  # a plan also says that these are not there yet
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("HOME", str(home))
    made = Workspace(tmp_path / "work", state)
    real = planner_module.find_held

    def count(*arguments: object, **named: object) -> object:
        made.searches += 1
        return real(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(planner_module, "find_held", count)
    return made


def held(plan: Plan) -> tuple[object, ...]:
    return (plan.shields, plan.pins, plan.watches, plan.copies, plan.readings, plan.worktrees)


def test_the_next_process_has_the_same_plan_without_a_search(workspace: Workspace) -> None:
    first, second = workspace.plan(), workspace.plan()

    assert workspace.searches == 1
    assert held(first) == held(second)
    assert len(first.shields) >= MANY


def test_a_setting_that_names_hooks_is_seen(workspace: Workspace) -> None:
    hooks = workspace.root / "r7" / "tools"
    hooks.mkdir()
    workspace.plan()
    (workspace.root / "r7/.git/config").write_text("[core]\n\thooksPath = tools\n")

    assert str(hooks) in {shield.target.path for shield in workspace.plan().shields}
    assert workspace.searches == 2


def test_a_setting_of_the_same_length_is_seen(workspace: Workspace) -> None:
    config = workspace.root / "r7/.git/config"
    config.write_text("[core]\n\thooksPath = aaa\n")
    before = workspace.plan()
    config.write_text("[core]\n\thooksPath = bbb\n")

    assert held(workspace.plan()) != held(before)


def test_a_hook_that_becomes_a_link_is_seen(workspace: Workspace) -> None:
    script = workspace.root / "r3" / "check.sh"
    script.write_text("#!/bin/sh\n")
    workspace.plan()
    (workspace.root / "r3/.git/hooks/pre-commit").symlink_to("../../check.sh")

    assert str(script) in {shield.target.path for shield in workspace.plan().shields}


def test_a_new_repository_is_protected(workspace: Workspace) -> None:
    workspace.plan()
    git = workspace.add("later")

    assert str(git / "hooks") in {shield.target.path for shield in workspace.plan().shields}


def test_a_repository_that_was_replaced_is_another_one(workspace: Workspace) -> None:
    workspace.plan()
    (workspace.root / "r5").rename(workspace.root / "gone")
    git = workspace.add("r5")

    inodes = {shield.target.inode for shield in workspace.plan().shields}
    assert (git / "config").stat().st_ino in inodes


def test_another_policy_has_a_plan_of_its_own(workspace: Workspace) -> None:
    (workspace.root / "Makefile").write_text("all:\n")
    workspace.plan()
    policy = compose("moderate", ())

    more = workspace.plan(policy.replace(protect=policy.protect | {"Makefile"}))
    assert str(workspace.root / "Makefile") in {shield.target.path for shield in more.shields}


def test_what_is_waived_has_a_plan_of_its_own(workspace: Workspace) -> None:
    workspace.plan()

    assert not workspace.plan(waived=frozenset({Feature.FS_PROTECT})).shields
    assert workspace.plan().shields


@pytest.mark.parametrize("data", [b"", b"\xff", b"(\x00\x00\x00\x00", b"N"])
def test_a_file_that_says_nothing_is_replaced(workspace: Workspace, data: bytes) -> None:
    first = workspace.plan()
    (stored,) = workspace.stored()
    stored.write_bytes(data)

    assert held(workspace.plan()) == held(first)
    assert workspace.searches == 2
    assert stored.read_bytes() != data


def test_few_repositories_leave_nothing_behind(workspace: Workspace) -> None:
    (workspace.root / "r0").rename(workspace.root.parent / "elsewhere")
    workspace.plan()

    assert workspace.stored() == []


def test_no_value_of_a_variable_is_written_down(workspace: Workspace) -> None:
    workspace.plan(compose("moderate", ["env:set:TOKEN=hunter2-secret"]))

    (stored,) = workspace.stored()
    assert b"hunter2" not in stored.read_bytes()
