"""Meets and the order, by example: what two policies permit both, and what one permits beyond another."""

from __future__ import annotations

import pytest

from corral.model.policy import FsRule, NetMode, Policy
from corral.model.rules.capability import PolicyDraft, capabilities_of, parse_capability


def policy(*capabilities: str) -> Policy:
    draft = PolicyDraft(Policy())
    for text in capabilities:
        draft.add(parse_capability(text))
    return draft.build()


def said(of: Policy) -> set[str]:
    return {str(capability) for capability in capabilities_of(of)} - {"network:none", "process:none"}


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ({"filesystem:read:/docs"}, {"filesystem:read:/docs/a"}, {"filesystem:read:/docs/a"}),
        ({"filesystem:write:/data"}, {"filesystem:read:/data"}, {"filesystem:read:/data"}),
        ({"filesystem:read:/docs"}, {"filesystem:read:/docsevil"}, set()),
        ({"filesystem:read:~"}, {"filesystem:read:/home"}, set()),
        (
            {"filesystem:write:/w", "filesystem:read:/w/ro"},
            {"filesystem:write:/w"},
            {"filesystem:write:/w", "filesystem:read:/w/ro"},
        ),
        (
            {"filesystem:write:/w", "filesystem:read:/w/ro"},
            {"filesystem:write:/w/ro/a"},
            {"filesystem:read:/w/ro/a"},
        ),
        (
            {"filesystem:read:/d"},
            {"filesystem:read:/d/a", "filesystem:deny:/d/a/b"},
            {"filesystem:read:/d/a", "filesystem:deny:/d/a/b"},
        ),
        ({"filesystem:read:/d/a"}, {"filesystem:read:/d", "filesystem:deny:/d/a"}, {"filesystem:deny:/d/a"}),
        (
            {"filesystem:read:/d", "filesystem:private:/d/tmp"},
            {"filesystem:read:/d/tmp/a"},
            {"filesystem:private:/d/tmp"},
        ),
        ({"network:tcp:db.org:443"}, {"network:https:*"}, {"network:https:db.org"}),
        ({"network:https:*.a.org"}, {"network:https:a.org"}, set()),
        ({"network:full"}, {"network:http:localhost"}, {"network:http:localhost"}),
        (
            {"network:https:*.a.org"},
            {"network:full", "network:deny:b.a.org"},
            {"network:https:*.a.org", "network:deny:b.a.org"},
        ),
        ({"network:https:b.a.org"}, {"network:full", "network:deny:*.a.org"}, {"network:deny:*.a.org"}),
        (
            {"memory:limit:100MB", "cpu:limit:50%"},
            {"memory:limit:1GiB"},
            {"memory:limit:100MB", "cpu:limit:50%"},
        ),
        ({"env:pass:LC_*"}, {"env:pass:LC_ALL", "env:pass:LANG"}, {"env:pass:LC_ALL"}),
        ({"env:set:A=1", "env:set:B=2"}, {"env:set:A=0"}, {"env:set:A=0", "env:set:B=2"}),
        ({"module:call:parser", "module:call:report"}, {"module:call:parser"}, {"module:call:parser"}),
        ({"syscall:deny:chmod"}, {"syscall:deny:chown"}, {"syscall:deny:chmod", "syscall:deny:chown"}),
    ],
)
def test_the_meet_says(one: set[str], other: set[str], both: set[str]) -> None:
    met = policy(*one) & policy(*other)

    assert said(met) == both
    assert met <= policy(*one)
    assert met <= policy(*other)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ({"filesystem:read:/docs/a"}, {"filesystem:read:/docs"}),
        ({"filesystem:read:/docs"}, {"filesystem:write:/docs"}),
        ({"filesystem:read:/d", "filesystem:deny:/d/a"}, {"filesystem:read:/d"}),
        ({"filesystem:write:/w", "filesystem:private:/tmp"}, {"filesystem:write:/w"}),
        ({"network:https:a.org"}, {"network:tcp:*:443"}),
        ({"network:limited", "network:deny:*.a.org"}, {"network:full", "network:deny:b.a.org"}),
        ({"memory:limit:100MB"}, {"memory:limit:1GiB"}),
        ({"memory:limit:100MB"}, set()),
        (
            {"filesystem:write:/w", "filesystem:protect:.git"},
            {"filesystem:write:/w", "filesystem:protect:.git/hooks"},
        ),
        ({"filesystem:read:/w"}, {"filesystem:write:/w", "filesystem:protect:.git/hooks"}),
        ({"syscall:deny:chmod"}, set()),
    ],
)
def test_one_is_within_the_other_and_not_the_reverse(narrow: set[str], wide: set[str]) -> None:
    assert policy(*narrow) <= policy(*wide)
    assert policy(*wide) >= policy(*narrow)
    if {"filesystem:private:/tmp"} & narrow:
        assert policy(*wide) <= policy(*narrow), "an empty area is no authority"
    else:
        assert not policy(*wide) <= policy(*narrow)


def test_a_grant_that_one_side_names_from_above_remembers_from_where() -> None:
    met = policy("filesystem:read:/a") & policy("filesystem:read:/a/b") & policy("filesystem:write:/a/b/c")

    assert [(rule.path, rule.within) for rule in met.fs] == [("/a/b/c", ("/a", "/a/b"))]


def test_a_grant_is_optional_only_if_all_who_name_it_say_so() -> None:
    preset, person = (
        FsRule("/a", policy("filesystem:read:/a").fs[0].access, optional=True),
        policy("filesystem:read:/a"),
    )

    assert (Policy(fs=(preset,)) & Policy(fs=(preset,))).fs[0].optional
    assert not (Policy(fs=(preset,)) & person).fs[0].optional


def test_a_read_rule_that_is_no_grant_any_more_still_takes_writing_away() -> None:
    """/x/link may lead into /w, and then the first policy does not permit to write there."""
    met = policy("filesystem:write:/w", "filesystem:read:/x/link") & policy("filesystem:write:/w")

    assert said(met) == {"filesystem:write:/w"}
    assert met.read_only == {"/x/link"}


def test_what_was_only_readable_stays_so_when_more_is_granted_on_top() -> None:
    met = policy("filesystem:write:/w", "filesystem:read:/w/golden") & policy("filesystem:read:/x")

    assert met.fs == ()
    assert "/w/golden" in met.read_only


def test_limited_to_nothing_is_none() -> None:
    met = policy("network:https:a.org") & policy("network:https:b.org")

    assert met.net.mode is NetMode.NONE


def test_paths_that_a_program_wrote_carelessly_mean_what_they_say() -> None:
    access = policy("filesystem:read:/a").fs[0].access
    careless = Policy(fs=(FsRule("/a/../b/", access), FsRule("//c/./d", access)))

    assert said(careless & careless) == {"filesystem:read:/b", "filesystem:read:/c/d"}
    assert not careless <= policy("filesystem:read:/a", "filesystem:read:/c")


def test_what_lies_above_the_workspace_is_not_beneath_it() -> None:
    access = policy("filesystem:read:/a").fs[0].access
    above = Policy(fs=(FsRule("${workspace}/../other", access),))

    assert not above <= policy("filesystem:read:${workspace}")
    assert said(above & policy("filesystem:read:${workspace}")) == set()
    assert above & above <= above


def test_there_is_no_join_and_no_meet_with_anything_else() -> None:
    with pytest.raises(TypeError):
        _ = policy() | policy()  # type: ignore[operator]
    with pytest.raises(TypeError):
        _ = policy() & "strict"
    with pytest.raises(TypeError):
        _ = policy() <= "strict"
