"""What git would trust: read from its files, and believed only when both sides agree."""

from __future__ import annotations

import pytest

from corral.model.errors import PolicyError
from corral.model.policy import FsAccess
from corral.planning.git import hook_paths, identity, linked_repository, named_paths, relative_hook_paths
from corral.planning.resolve import Resolver
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from support.fake_host import FakeHost

WORK = "/home/ann/project"
MAIN = "/home/ann/main/.git"
LINKED = {
    f"{WORK}/.git": f"gitdir: {MAIN}/worktrees/project\n",
    f"{MAIN}/worktrees/project/gitdir": f"{WORK}/.git\n",
    f"{MAIN}/worktrees/project/commondir": "../..\n",
    f"{MAIN}/worktrees/project/HEAD": "ref: refs/heads/topic\n",
    f"{MAIN}/HEAD": "ref: refs/heads/main\n",
    f"{MAIN}/objects/pack/x": "",
    f"{MAIN}/refs/heads/main": "",
}


def _writable(host: FakeHost, preset: str = "moderate") -> set[str]:
    resolved = resolve_policy(build_policy(preset), WORK, host)
    return {grant.target.path for grant in resolved.grants if grant.access is FsAccess.WRITE}


def test_a_linked_worktree_finds_its_repository() -> None:
    host = FakeHost(LINKED)

    assert linked_repository(host, Resolver(host), WORK) == MAIN
    assert _writable(host) == {WORK, MAIN}


@pytest.mark.parametrize(
    "forged",
    [
        {f"{MAIN}/worktrees/project/gitdir": "/home/ann/other/.git\n"},
        {f"{MAIN}/worktrees/project/gitdir": ""},
        {f"{MAIN}/worktrees/project/commondir": ""},
        {f"{MAIN}/worktrees/project/commondir": "/home/ann\n"},
        {f"{MAIN}/worktrees/project/commondir": "../../..\n"},
        {f"{WORK}/.git": "gitdir: /home/ann/.ssh\n"},
        {f"{WORK}/.git": "gitdir:\n"},
        {f"{WORK}/.git": "anything"},
    ],
)
def test_a_pointer_that_is_not_answered_is_not_believed(forged: dict[str, str]) -> None:
    host = FakeHost({**LINKED, **forged})

    assert linked_repository(host, Resolver(host), WORK) == ""
    assert _writable(host) == {WORK}


def test_a_pointer_into_the_workspace_itself_gives_nothing_new() -> None:
    """The workspace can hold both sides of a forgery, but only about itself."""
    private = f"{WORK}/fake/worktrees/x"
    host = FakeHost(
        {
            f"{WORK}/.git": f"gitdir: {private}\n",
            f"{private}/gitdir": f"{WORK}/.git\n",
            f"{private}/commondir": "/home/ann\n",
        }
    )

    assert linked_repository(host, Resolver(host), WORK) == ""
    assert _writable(host) == {WORK}


def test_a_pointer_through_a_link_of_the_workspace_is_not_believed() -> None:
    """Whoever runs in the workspace now can turn the link round between the question and the grant."""
    host = FakeHost(
        {
            f"{WORK}/.git": f"gitdir: {WORK}/shared/worktrees/x\n",
            f"{WORK}/shared": f"-> {WORK}/fake",
            f"{WORK}/fake/worktrees/x/gitdir": f"{WORK}/.git\n",
            f"{WORK}/fake/worktrees/x/commondir": "../..\n",
        }
    )

    assert linked_repository(host, Resolver(host), WORK) == ""


def test_whoever_may_only_read_gets_no_repository_to_write() -> None:
    assert _writable(FakeHost(LINKED), "strict") == set()


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n hooksPath = my\\\nhooks\n",
        "\ufeff[core]\n hooksPath = myhooks\n",
        "[user]\n name = " + "x" * 70_000 + "\n[core]\n hooksPath = myhooks\n",
        '[core] bare = false\n[Core]\n\thooksPath = "myhooks" ; note\n',
    ],
    ids=["continued line", "byte order mark", "long", "comment"],
)
def test_a_hook_directory_is_found_however_it_is_written(text: str) -> None:
    host = FakeHost({f"{WORK}/.git/config": text})

    assert named_paths(host, WORK, f"{WORK}/.git").trees == (f"{WORK}/myhooks", f"{WORK}/.git/myhooks")


@pytest.mark.parametrize(
    "text",
    ["[core\n", "[core]\n hooksPath = ~bob/hooks\n", "[user]\n name = " + "x" * (1 << 20)],
    ids=["malformed", "home of another user", "too large"],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    host = FakeHost({f"{WORK}/.git/config": text})

    with pytest.raises(PolicyError) as raised:
        named_paths(host, WORK, f"{WORK}/.git")
    assert raised.value.code == "git-config"


@pytest.mark.parametrize(
    "text",
    [
        '[remote "origin"]\n url = https://x/y\n uploadpack = tools/pack\n',
        "[alias]\n x = !f() { tools/pack; }; f\n",
        "[core]\n fsmonitor = tools/pack -q\n",
        '[filter "x"]\n clean = sh -c \'"tools/pack"\'\n',
    ],
)
def test_programs_are_found_wherever_they_are_named(text: str) -> None:
    host = FakeHost({f"{WORK}/.git/config": text})

    assert f"{WORK}/tools/pack" in named_paths(host, WORK, f"{WORK}/.git").programs


def test_what_the_callers_configuration_includes_counts_too() -> None:
    host = FakeHost(
        {
            "/home/ann/.gitconfig": "[include]\n path = .gitmore\n",
            "/home/ann/.gitmore": "[core]\n hooksPath = .team\n",
        }
    )

    assert hook_paths(host, WORK, f"{WORK}/.git") == (f"{WORK}/.team", f"{WORK}/.git/.team")
    assert relative_hook_paths(host, ()) == (".team", ".git/.team")


def test_hooks_and_includes_that_are_named_elsewhere_are_found() -> None:
    host = FakeHost(
        {
            f"{WORK}/.git/config": "[core]\n hooksPath = tools/hooks\n[include]\n path = ../extra\n",
            "/home/ann/.gitconfig": "[core]\n hooksPath = ~/project/my-hooks\n",
        }
    )

    hooks = (f"{WORK}/tools/hooks", f"{WORK}/.git/tools/hooks")
    assert named_paths(host, WORK, f"{WORK}/.git").trees == (*hooks, f"{WORK}/extra")
    assert hook_paths(host, WORK, f"{WORK}/.git") == (f"{WORK}/my-hooks",)
    assert relative_hook_paths(host, (WORK,)) == ("tools/hooks", ".git/tools/hooks")


def test_of_the_callers_configuration_only_the_identity_is_taken() -> None:
    host = FakeHost(
        {"/home/ann/.gitconfig": '[user]\n name = "A \\"B\\""\n email = a@b\n[credential]\n helper = store\n'}
    )

    assert identity(host) == '[user]\n\temail = "a@b"\n[user]\n\tname = "A \\"B\\""\n'
