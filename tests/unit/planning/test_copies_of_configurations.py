"""Which git configurations a command may have a copy of."""

from __future__ import annotations

import pytest

from corral.model.plan import MOST_COPIED_BYTES, Command
from corral.planning.build import build, nested_repositories
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from support.fake_host import FakeHost
from support.golden_cases import LINKED, REPOSITORY, WORKSPACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG = f"{WORKSPACE}/.git/config"


class _Host(FakeHost):
    state = ""

    def copies_directory(self) -> str:
        return self.state and f"{self.state}/copies"


def copied(
    files: Mapping[str, str],
    *capabilities: str,
    preset: str = "moderate",
    state: str = "/home/ann/.local/state/corral",
) -> list[str]:
    host = _Host(files)
    host.state = state
    policy = build_policy(preset, capabilities)
    resolved = resolve_policy(policy, WORKSPACE, host)
    nested = nested_repositories(resolved, host)
    plan = build(policy, Command(("true",), WORKSPACE), resolved, host, run_id="0" * 16, nested=nested)
    assert [copy.number for copy in plan.copies] == list(range(len(plan.copies)))
    assert {copy.target for copy in plan.copies} <= {shield.target for shield in plan.shields}
    assert all(copy.target.path.startswith(f"{copy.root}/") for copy in plan.copies)
    assert bool(plan.copies_directory) is bool(plan.copies)
    return [copy.target.path for copy in plan.copies]


def test_the_configuration_of_the_workspace() -> None:
    assert copied(REPOSITORY) == [CONFIG]


def test_those_of_nested_repositories() -> None:
    nested = f"{WORKSPACE}/sub/.git/config"

    assert copied({**REPOSITORY, nested: "[core]\n"}) == [CONFIG, nested]


def test_that_of_the_repository_of_a_linked_worktree() -> None:
    assert copied(LINKED) == ["/home/ann/main/.git/config"]


@pytest.mark.parametrize(
    "capability", ["filesystem:read:${workspace}/.git", "filesystem:deny:${workspace}/.git/config"]
)
def test_none_where_the_policy_gives_less(capability: str) -> None:
    assert copied(REPOSITORY, capability) == []


@pytest.mark.parametrize(
    "capability",
    [
        "filesystem:read:${workspace}/.git/conf*",
        "filesystem:read:**/config",
        "filesystem:read:${workspace}/.git/*",
        "filesystem:read:${workspace}/settings*",  # a link that leads there
        "filesystem:protect:**/config",
        "filesystem:protect:.git/confi[g]",
        "filesystem:protect:settings",
    ],
)
def test_none_of_what_a_rule_of_its_own_holds_as_it_is(capability: str) -> None:
    files = {**REPOSITORY, f"{WORKSPACE}/settings": "-> .git/config"}

    assert copied(files) == [CONFIG]
    assert copied(files, capability) == []


def test_none_of_a_nested_one_that_is_protected_by_its_own_name() -> None:
    files = {**REPOSITORY, f"{WORKSPACE}/sub/.git/config": "[core]\n"}

    assert copied(files, "filesystem:protect:sub/.git/config") == [CONFIG]


def test_none_of_that_of_a_linked_worktree_that_a_pattern_makes_read_only() -> None:
    assert copied(LINKED, "filesystem:read:/home/ann/main/.git/c*") == []


def test_none_where_one_of_two_policies_makes_it_read_only_by_a_pattern() -> None:
    host = _Host(REPOSITORY)
    host.state = "/home/ann/.local/state/corral"
    policy = build_policy("moderate") & build_policy("moderate", ["filesystem:read:**/config"])
    resolved = resolve_policy(policy, WORKSPACE, host)

    assert not build(policy, Command(("true",), WORKSPACE), resolved, host, run_id="0" * 16).copies


def test_none_where_the_workspace_is_read_only() -> None:
    assert copied(REPOSITORY, preset="strict") == []


@pytest.mark.parametrize("text", ["", "x" * MOST_COPIED_BYTES], ids=["empty", "too-large"])
def test_none_that_cannot_be_read_whole(text: str) -> None:
    assert copied({**REPOSITORY, CONFIG: text}) == []


def test_none_of_a_bare_repository() -> None:
    bare = {f"{WORKSPACE}/{name}": "x" for name in ("HEAD", "config", "objects/x", "refs/x")}

    assert copied(bare) == []


def test_none_of_a_file_that_a_forged_pointer_leads_to() -> None:
    forged = {
        f"{WORKSPACE}/sub/.git": f"gitdir: {WORKSPACE}/private\n",
        f"{WORKSPACE}/private/commondir": f"{WORKSPACE}/settings\n",
        f"{WORKSPACE}/settings/config": "[section]\n",
    }

    assert copied(forged) == []


def test_none_where_the_guard_would_take_the_state_directory_away() -> None:
    state = f"{WORKSPACE}/state/corral"

    assert copied(REPOSITORY, state=state) == []
    assert copied({**REPOSITORY, f"{state}/": ""}, state=state) == [CONFIG]


def test_none_where_there_is_no_state_directory() -> None:
    assert copied(REPOSITORY, state="") == []
