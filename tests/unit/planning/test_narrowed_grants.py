"""Narrowed policies on a host with links: a child cannot point at what its parent never granted."""

from __future__ import annotations

import pytest

from corral.model.errors import PolicyError
from corral.model.plan import ResolvedPolicy
from corral.model.policy import FsAccess, Policy
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from support.fake_host import FakeHost

WORK = "/home/ann/project"
HOST = FakeHost(
    {
        "/a/data/": "",
        "/a/ro/file": "",
        "/a/scratch/file": "",
        "/secret/key": "",
        "/a/out": "-> /secret",
        "/a/inside": "-> data",
        "/a/to-ro": "-> ro",
        "/a/to-scratch": "-> scratch/file",
        "/link": "-> /a",
        "/x/alias": "-> /a/ro",
        f"{WORK}/docs/": "",
    }
)


def policy(*capabilities: str) -> Policy:
    """Nothing but these: the preset is removed."""
    return build_policy("strict", capabilities).replace(
        fs=tuple(rule for rule in build_policy("strict", capabilities).fs if not rule.optional),
        private=frozenset(text[19:] for text in capabilities if text.startswith("filesystem:private:")),
    )


def resolved(of: Policy) -> ResolvedPolicy:
    return resolve_policy(of, WORK, HOST)


def opened(of: Policy) -> dict[str, FsAccess]:
    return {grant.target.path: grant.access for grant in resolved(of).grants}


def refusal(of: Policy) -> PolicyError:
    with pytest.raises(PolicyError) as refused:
        resolved(of)
    assert refused.value.code == "grant-through-link"
    return refused.value


def test_a_link_out_of_what_the_parent_grants_is_refused() -> None:
    child = policy("filesystem:read:/a") & policy("filesystem:read:/a/out")

    assert "/secret" in refusal(child).why
    assert "/a" in refusal(child).why


def test_what_lies_behind_such_a_link_is_refused_too() -> None:
    refusal(policy("filesystem:read:/a") & policy("filesystem:read:/a/out/key"))


def test_a_grandchild_is_held_to_the_first_grant() -> None:
    refusal(
        policy("filesystem:read:/a") & policy("filesystem:read:/a/out") & policy("filesystem:read:/a/out")
    )


def test_an_optional_grant_that_leads_out_is_left_out() -> None:
    request = policy("filesystem:read:/a/out", "filesystem:read:/a/data")
    optional = request.replace(fs=tuple(rule.replace(optional=True) for rule in request.fs))

    assert opened(policy("filesystem:read:/a") & optional) == {"/a/data": FsAccess.READ}


def test_a_link_that_both_name_is_what_both_mean() -> None:
    both = policy("filesystem:read:/a/out") & policy("filesystem:read:/a/out")

    assert opened(both) == {"/secret": FsAccess.READ}


def test_a_link_that_stays_inside_is_granted() -> None:
    assert opened(policy("filesystem:read:/a") & policy("filesystem:read:/a/inside")) == {
        "/a/data": FsAccess.READ
    }


def test_a_wider_grant_may_be_a_link_itself() -> None:
    assert opened(policy("filesystem:read:/link") & policy("filesystem:read:/link/data")) == {
        "/a/data": FsAccess.READ
    }


def test_a_wider_grant_in_the_workspace_is_found_there() -> None:
    child = policy("filesystem:write:${workspace}") & policy("filesystem:write:${workspace}/docs")

    assert opened(child) == {f"{WORK}/docs": FsAccess.WRITE}


def test_a_missing_path_is_missing_whoever_granted_around_it() -> None:
    with pytest.raises(PolicyError) as refused:
        resolved(policy("filesystem:read:/nowhere") & policy("filesystem:read:/nowhere/a"))

    assert refused.value.code == "path-missing"


def test_a_link_to_a_read_only_part_is_not_a_way_to_write_it() -> None:
    parent = policy("filesystem:write:/a", "filesystem:read:/a/ro")

    refusal(parent & policy("filesystem:write:/a/to-ro"))


def test_a_link_into_a_private_area_does_not_uncover_what_it_hides() -> None:
    parent = policy("filesystem:read:/a", "filesystem:private:/a/scratch")

    refusal(parent & policy("filesystem:read:/a/to-scratch"))


def test_what_the_parent_calls_read_only_by_another_name_the_child_cannot_write() -> None:
    parent = policy("filesystem:write:/a", "filesystem:read:/x/alias")
    child = parent & policy("filesystem:write:/a")

    assert opened(parent) == opened(child) == {"/a": FsAccess.WRITE, "/a/ro": FsAccess.READ}


def test_the_same_holds_for_another_spelling_of_the_workspace() -> None:
    parent = policy("filesystem:write:${workspace}", f"filesystem:read:{WORK}/docs")
    child = parent & policy("filesystem:write:${workspace}")

    assert opened(child) == {WORK: FsAccess.WRITE, f"{WORK}/docs": FsAccess.READ}


def test_a_link_that_leads_to_nothing_granted_is_not_made_again_inside() -> None:
    child = policy("filesystem:write:/a/data", "filesystem:read:/x/alias") & policy(
        "filesystem:write:/a/data"
    )

    assert resolved(child).links == ()
