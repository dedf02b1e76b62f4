"""Homes: what they hide is hidden in every grant of one, whatever the policy says."""

from __future__ import annotations

import os
from unittest.mock import Mock

import pytest

from corral.model.errors import PolicyError, UnenforceableError
from corral.model.feature import Feature
from corral.model.plan import Command
from corral.model.policy import FsAccess, FsRule, Policy
from corral.model.rules.capability import parse_capability
from corral.pipeline.planner import Planner
from corral.planning.build import find_held
from corral.planning.homes import find_uncovered
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from corral.policy.preset import PRESETS, hidden_in_homes, preset_lines
from corral.sandbox import Sandbox
from support.fake_host import FakeHost

HOME = "/home/ann"
PASSWORDS = """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
ann:x:1000:1000:Ann,,,:/home/ann:/bin/bash
bob:x:1001:1001:Bob,,,:/srv/people/bob:/bin/bash
"""
FILES = {
    "/etc/passwd": PASSWORDS,
    "/home/ann/.bash_history": "secret",
    "/home/ann/.config/gh/hosts.yml": "secret",
    "/home/ann/.config/editor/settings": "",
    "/home/eve/.ssh/id_rsa": "of somebody whom no file knows",
    "/srv/people/bob/.ssh/id_rsa": "secret",
    "/srv/people/bob/.bashrc": "",
    "/var/www/.ssh/id_rsa": "secret",
    "/root/.ssh/id_rsa": "secret",
}


def resolved_in(workspace: str, *capabilities: str, preset: str = "strict", host: FakeHost | None = None):
    policy = build_policy(preset, capabilities)
    return resolve_policy(policy, workspace, host or FakeHost(FILES), hidden_in_homes())


def there(resolved) -> set[str]:
    return {target.path for target in resolved.denied if target.inode}


def test_every_line_is_a_denial_in_a_home_and_canonical() -> None:
    directory = os.path.join(os.path.dirname(preset_lines.__code__.co_filename), "presets")
    with open(os.path.join(directory, "_homes.caps"), encoding="utf-8") as file:
        lines = [line for line in file.read().splitlines() if line and not line.startswith("#")]

    assert [f"filesystem:deny:{path}" for path in hidden_in_homes()] == lines
    for line in lines:
        assert line.startswith("filesystem:deny:~/")
        assert str(parse_capability(line)) == line
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_hides_what_is_in_a_home_or_refuses_it_as_the_workspace(preset: str) -> None:
    try:
        resolved = resolved_in(HOME, preset=preset)
    except PolicyError as refused:
        assert refused.code == "grant-too-wide"
    else:
        assert {"/home/ann/.ssh", "/home/ann/.bash_history", "/home/ann/.config/gh"} <= there(resolved)
        assert Feature.FS_DENY in resolved.requires


@pytest.mark.parametrize(
    ("granted", "hidden"),
    [
        ("/home", {"/home/ann/.ssh", "/home/eve/.ssh"}),
        ("/srv", {"/srv/people/bob/.ssh"}),
        ("/srv/people/bob", {"/srv/people/bob/.ssh"}),
        ("/var/www", {"/var/www/.ssh"}),
        ("/root", {"/root/.ssh"}),
        ("~/.config", {"/home/ann/.config/gh"}),
        ("~", {"/home/ann/.ssh", "/home/ann/.bash_history", "/home/ann/.config/gh"}),
    ],
)
def test_a_grant_that_holds_a_home_or_a_part_of_one_hides_it_there(granted: str, hidden: set[str]) -> None:
    assert hidden <= there(resolved_in("/home/ann/project", f"filesystem:read:{granted}"))


def test_an_ordinary_project_has_nothing_to_hide() -> None:
    """Else no backend without fs.deny could run anything."""
    resolved = resolved_in("/home/ann/project")

    assert resolved.denied == ()
    assert Feature.FS_DENY not in resolved.requires


def test_what_is_granted_by_its_own_name_is_shown() -> None:
    resolved = resolved_in(HOME, "filesystem:read:~/.bash_history")

    assert "/home/ann/.bash_history" not in there(resolved)
    assert "/home/ann/.ssh" in there(resolved)


def test_a_grant_beneath_what_is_hidden_is_refused_and_says_how() -> None:
    with pytest.raises(PolicyError, match="by its own name") as refused:
        resolved_in(HOME, "filesystem:read:~/.ssh/id_ed25519")

    assert refused.value.code == "grant-beneath-deny"


def test_a_narrower_policy_cannot_name_what_the_wider_one_hides() -> None:
    """A project's file is such a one: who grants a home has not granted its keys."""
    wide = build_policy("strict", ["filesystem:read:~"])
    narrow = wide & Policy(fs=(FsRule("~/.ssh", FsAccess.READ), FsRule("~", FsAccess.READ)), spawn=True)
    alone = wide & Policy(fs=(FsRule("~/.ssh", FsAccess.READ),), spawn=True)

    for policy in (narrow, alone):
        with pytest.raises(PolicyError):
            resolve_policy(policy, "/home/ann/project", FakeHost(FILES), hidden_in_homes())


def test_a_link_hides_what_it_leads_to_as_far_as_that_is_granted() -> None:
    host = FakeHost(
        {
            "/home/ann/dotfiles/aws/credentials": "secret",
            "/home/ann/.aws": "-> dotfiles/aws",
            "/home/ann/.bash_history": "-> /dev/null",
            "/home/ann/.npmrc": "-> /etc/alternatives",
        }
    )
    hidden = there(resolved_in(HOME, host=host))

    assert "/home/ann/dotfiles/aws" in hidden
    assert not any(path.startswith(("/dev", "/etc")) for path in hidden)


def test_what_is_not_there_yet_is_looked_for_before_the_next_command() -> None:
    host = FakeHost(FILES)
    sandbox = Sandbox("strict", workspace=HOME, host=host)
    assert "/home/ann/.aws" not in there(sandbox.explain(("true",)).plan.resolved)

    host.add("/home/ann/.aws/credentials", "secret")

    assert "/home/ann/.aws" in there(sandbox.explain(("true",)).plan.resolved)


def test_in_a_writable_part_of_a_home_nothing_hidden_can_be_planted() -> None:
    """Without the names whose directories are missing: these a command may make, for itself."""
    part = "/srv/people/bob/.config"
    host = FakeHost({**FILES, f"{part}/gh/hosts.yml": "secret"})
    policy = build_policy("moderate")
    resolved = resolve_policy(policy, part, host, hidden_in_homes())
    watched = {f"{watch.directory}/{watch.name}" for watch in find_held(policy, resolved, host).watches}

    assert f"{part}/gh" in there(resolved)
    assert f"{part}/gcloud" in watched
    assert f"{part}/git/credentials" not in watched


@pytest.mark.parametrize("path", ["/home", "/home/ann"])
def test_homes_are_not_writable(path: str) -> None:
    with pytest.raises(PolicyError) as refused:
        resolved_in("/srv", f"filesystem:write:{path}", host=FakeHost(FILES, home="/root", uid=1000))

    assert refused.value.code == "grant-too-wide"


@pytest.mark.parametrize("workspace", ["/home/ann/.ssh", "/srv/people/bob/.ssh", "/home", "/home/eve/.aws/x"])
def test_where_homes_keep_their_secrets_is_no_workspace(workspace: str) -> None:
    host = FakeHost({**FILES, f"{workspace}/": ""})

    with pytest.raises(PolicyError, match="cannot be the workspace"):
        resolved_in(workspace, host=host)


def test_a_backend_without_denials_refuses_a_home() -> None:
    sandbox = Sandbox(
        "strict", workspace=HOME, backend="landlock", host=FakeHost(FILES), waive=("fs.metadata",)
    )

    with pytest.raises(UnenforceableError, match=r"fs\.deny"):
        sandbox.explain(("true",))


def test_the_answer_about_a_path_says_that_homes_hide_it() -> None:
    decision = Sandbox("strict", workspace=HOME, host=FakeHost(FILES)).decide_path(
        "/home/ann/.ssh/id_ed25519"
    )

    assert (decision.allowed, decision.reason.value) == (False, "hidden")


def test_a_home_that_is_not_there_is_said_to_be_the_reason() -> None:
    host = FakeHost({"/home/bob/": "", "/srv/work/": ""}, home="/home/bob/gone", cwd="/srv/work")
    host._directories.remove("/home/bob/gone")

    with pytest.raises(PolicyError, match="/home/bob/gone should be empty and private") as refused:
        resolved_in("/srv/work", "filesystem:read:/home", preset="moderate", host=host)

    assert refused.value.code == "path-missing"


def denied_now(planner: Planner) -> set[str]:
    plan = planner.plan(Command(("true",), "/home/ann/project"))
    return there(plan.resolved)


def kept_planner(host: FakeHost, *capabilities: str) -> Planner:
    return Sandbox(build_policy("strict", capabilities), host=host, workspace="/home/ann/project").planner


def test_keys_of_a_home_that_is_made_later_are_hidden() -> None:
    host = FakeHost(FILES)
    planner = kept_planner(host, "filesystem:read:/home", "filesystem:read:/srv")
    old = planner.plan(Command(("true",), "/home/ann/project")).resolved
    assert planner.newly_uncovered(old) == []

    host.add("/home/new/.ssh/id_rsa", "secret")
    assert planner.newly_uncovered(old) == ["/home/new/.ssh"]
    assert "/home/new/.ssh" in denied_now(planner)

    host.add("/srv/joe/.ssh/id_rsa", "secret")
    assert "/srv/joe/.ssh" not in denied_now(planner)
    host.add("/etc/passwd", f"{PASSWORDS}joe:x:1002:1002::/srv/joe:/bin/sh\n")
    assert "/srv/joe/.ssh" in denied_now(planner)


@pytest.mark.parametrize("denial", ["*.pem", "/srv/data/k.pem", "/srv/data/?.pem"])
def test_what_a_denied_link_leads_to_by_now_is_hidden(denial: str) -> None:
    host = FakeHost({**FILES, "/srv/data/k.pem": "-> s1", "/srv/data/s1": "1", "/srv/data/s2": "2"})
    planner = kept_planner(host, "filesystem:read:/srv/data", f"filesystem:deny:{denial}")
    assert "/srv/data/s1" in denied_now(planner)

    host.add("/srv/data/k.pem", "-> s2")
    assert "/srv/data/s2" in denied_now(planner)


def test_the_same_answers_are_not_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    host, worked = FakeHost(FILES), Mock(wraps=find_uncovered)
    planner = kept_planner(host, "filesystem:read:/home")
    resolved = planner.plan(Command(("true",), "/home/ann/project")).resolved
    monkeypatch.setattr("corral.pipeline.planner.find_uncovered", worked)

    for _ in range(3):
        planner.newly_uncovered(resolved)
    assert worked.call_count <= 1

    host.add("/home/new/.ssh/id_rsa", "secret")
    assert planner.newly_uncovered(resolved) == ["/home/new/.ssh"]


def test_what_is_granted_by_its_own_name_is_no_reason_to_plan_anew() -> None:
    planner = kept_planner(FakeHost(FILES), "filesystem:read:~", "filesystem:read:~/.bash_history")
    first = planner.plan(Command(("true",), "/home/ann/project")).resolved

    assert planner.newly_uncovered(first) == []
    assert planner.plan(Command(("true",), "/home/ann/project")).resolved is first


@pytest.mark.parametrize("home", ["/home/eve", "/srv/people/bob", "/srv/people"])
def test_no_home_of_another_is_written_as_a_whole(home: str) -> None:
    """A command could plant what its owner runs: `.xprofile`, `.config/autostart`."""
    for workspace, more in ((home, ()), ("/home/ann/project", (f"filesystem:write:{home}",))):
        with pytest.raises(PolicyError) as refused:
            resolved_in(workspace, *more, preset="moderate")
        assert refused.value.code == "grant-too-wide"

    resolved = resolved_in(
        f"{home}/project", preset="moderate", host=FakeHost({**FILES, f"{home}/project/": ""})
    )
    assert f"{home}/project" in {grant.target.path for grant in resolved.grants}


def test_where_a_service_lives_projects_are_deployed() -> None:
    """Its keys are hidden there as everywhere; its home may be a workspace all the same."""
    resolved = resolved_in("/var/www", preset="moderate")

    assert "/var/www/.ssh" in there(resolved)


def test_a_keyring_among_programs_of_what_is_a_home_by_now_is_noticed() -> None:
    """Programs are installed there; the host's list of users has not known it as a home."""
    place = "/srv/people/bob/.local/share"
    host = FakeHost({f"{place}/tool": "elf", "/etc/passwd": ""}, env={"PATH": f"{place}:/usr/bin"})
    policy = build_policy("moderate")
    resolved = resolve_policy(policy, f"{HOME}/project", host, hidden_in_homes())
    assert place in {grant.target.path for grant in resolved.grants}

    host.add(f"{place}/keyrings/login", "secret")
    assert find_uncovered(resolved, policy, hidden_in_homes(), host) == frozenset()
    host.add("/etc/passwd", PASSWORDS)

    assert find_uncovered(resolved, policy, hidden_in_homes(), host) == {f"{place}/keyrings"}
