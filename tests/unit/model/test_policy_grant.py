"""What a parent passes on: the child's policy, and each thing that was asked for and not given."""

from __future__ import annotations

import pytest

import corral
from corral.model.rules.capability import capabilities_of
from corral.policy.preset import load_preset

PARENT = corral.build_policy(
    "strict",
    [
        "filesystem:write:/data",
        "filesystem:read:/data/archive",
        "filesystem:read:/home/x",
        "filesystem:deny:/data/keys",
        "network:https:*.example.com",
        "network:deny:internal.example.com",
        "memory:limit:2GiB",
        "module:call:parser",
    ],
)


def cut(*request: str) -> tuple[tuple[str, ...], str]:
    """What was kept of the one capability that was cut, and why."""
    (only,) = PARENT.grant(request).cuts
    return tuple(str(kept) for kept in only.kept), only.why


@pytest.mark.parametrize(
    ("request_", "kept", "why"),
    [
        ("filesystem:write:/home/x", ("filesystem:read:/home/x",), "the parent may only read /home/x"),
        ("filesystem:read:/home", ("filesystem:read:/home/x",), "the parent is granted only parts of /home"),
        ("filesystem:read:/srv", (), "the parent is granted nothing at /srv"),
        ("filesystem:read:/data", ("filesystem:read:/data",), "/data/keys is denied to the parent"),
        (
            "filesystem:write:/data/archive/x",
            ("filesystem:read:/data/archive/x",),
            "the parent may only read",
        ),
        ("filesystem:tools:path", (), "the parent does not grant the tools on the PATH"),
        ("network:full", ("network:https:*.example.com",), "the parent may connect to only a part of these"),
        ("network:https:*.example.com", ("network:https:*.example.com",), "denied: internal.example.com"),
        ("network:http:localhost", (), "the parent may connect to none of these"),
        ("memory:limit:4GiB", ("memory:limit:2GiB",), "the parent's own limit is 2GiB"),
        ("time:limit:5m", ("time:limit:1m",), "the parent's own limit is 1m"),
        (
            "env:pass:L*",
            ("env:pass:LANG", "env:pass:LANGUAGE", "env:pass:LC_*", "env:pass:LINES", "env:pass:LOGNAME"),
            "part",
        ),
        ("env:pass:AWS_SECRET_ACCESS_KEY", (), "the parent passes none of these"),
        ("module:call:shell", (), "the parent may not call this module itself"),
    ],
)
def test_what_the_parent_does_not_have_is_cut(request_: str, kept: tuple[str, ...], why: str) -> None:
    found, reason = cut(request_)

    assert found == kept
    assert why in reason


@pytest.mark.parametrize(
    "request_",
    [
        *(
            "filesystem:write:/data/x",
            "filesystem:read:/home/x/y",
            "filesystem:deny:/etc",
            "filesystem:private:/x",
        ),
        *("filesystem:protect:.envrc", "network:none", "network:https:api.example.com", "network:deny:x.org"),
        *("memory:limit:1GiB", "pids:limit:64", "env:pass:LC_ALL", "env:set:MODE=test", "process:none"),
        *("process:spawn", "syscall:deny:chmod", "module:call:parser"),
    ],
)
def test_what_the_parent_has_and_what_only_narrows_is_granted_in_full(request_: str) -> None:
    given = PARENT.grant([request_])

    assert given.cuts == ()
    assert corral.parse_capability(request_) in capabilities_of(given.policy)


def test_one_request_in_the_words_of_the_policy_language() -> None:
    parent = corral.build_policy(
        "moderate", ["filesystem:read:/docs", "memory:limit:50MB", "module:call:parser"]
    )
    given = parent.grant(
        [
            "filesystem:read:/docs",
            "filesystem:write:/tmp",
            "network:http:localhost",
            "memory:limit:100MB",
            "cpu:limit:50%",
            "module:call:parser",
        ]
    )

    assert [str(each.capability) for each in given.cuts] == [
        "filesystem:write:/tmp",  # private to the parent itself: nothing of the host's
        "network:http:localhost",
        "memory:limit:100MB",
    ]
    held = {str(capability) for capability in capabilities_of(given.policy)}
    assert {"filesystem:read:/docs", "memory:limit:50MB", "cpu:limit:50%", "module:call:parser"} <= held
    assert given.policy <= parent


def test_a_limit_that_was_not_asked_for_comes_along_and_is_no_cut() -> None:
    given = PARENT.grant(["filesystem:read:/home/x"])

    assert given.policy.limits == PARENT.limits
    assert given.cuts == ()


def test_what_the_request_itself_denies_is_not_missed() -> None:
    given = PARENT.grant(["filesystem:read:/data", "filesystem:deny:/data/keys"])

    assert given.cuts == ()


def test_a_policy_can_be_requested_and_nothing_comes_back_down_the_line() -> None:
    child = load_preset("moderate").grant(load_preset("strict"))
    grandchild = child.policy.grant(load_preset("permissive"))

    assert child.cuts == ()
    assert "network:full" in {str(each.capability) for each in grandchild.cuts}
    assert grandchild.policy <= load_preset("strict")


def test_a_single_capability_is_not_read_letter_by_letter() -> None:
    assert PARENT.grant("module:call:parser").policy.modules == {"parser"}


def test_a_mistake_in_a_request_is_an_error() -> None:
    with pytest.raises(corral.CapabilitySyntaxError):
        PARENT.grant(["filesystem:raed:/docs"])
