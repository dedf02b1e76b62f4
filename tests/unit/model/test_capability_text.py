"""Capability strings: what is understood, and how a mistake is shown."""

from __future__ import annotations

import pytest

from corral.model.errors import CapabilitySyntaxError
from corral.model.policy import FsAccess, FsRule, NetMode, NetPolicy, Policy
from corral.model.rules.capability import Capability, PolicyDraft, parse_capability


def policy_of(*texts: str, base: Policy | None = None) -> Policy:
    draft = PolicyDraft(base or Policy())
    for text in texts:
        draft.add(parse_capability(text))
    return draft.build()


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("filesystem:read:/docs/", "filesystem:read:/docs"),
        ("filesystem:read:/", "filesystem:read:/"),
        ("filesystem:read:${workspace}/a/../b/", "filesystem:read:${workspace}/b"),
        ("filesystem:read:${workspace}/../beside", "filesystem:read:${workspace}/../beside"),
        ("filesystem:read:~/a/../../ann", "filesystem:read:~/../ann"),
        ("memory:limit:1024k", "memory:limit:1MiB"),
        ("memory:limit:100MB", "memory:limit:100MB"),
        ("cpu:limit:0.5", "cpu:limit:50%"),
        ("time:limit:90", "time:limit:1m30s"),
        ("time:limit:1500ms", "time:limit:1s500ms"),
        ("network:https:API.Example.com.", "network:https:api.example.com"),
        ("env:set:A=b:c=d", "env:set:A=b:c=d"),
        ("network:none", "network:none"),
        ("filesystem:read://a//b/../c", "filesystem:read:/a/c"),
        ("filesystem:read:${workspace}/../out/./x", "filesystem:read:${workspace}/../out/x"),
        ("filesystem:read:~/a/../..", "filesystem:read:~/.."),
        ("filesystem:read:~//", "filesystem:read:~"),
        ("disk:limit:9007199254740993", "disk:limit:9007199254740993B"),
        ("disk:limit:9223372036854775807", "disk:limit:9223372036854775807B"),
        ("disk:limit:0000000000000000000000000.5k", "disk:limit:512B"),
        ("pids:limit:0000000000000000000000000007", "pids:limit:7"),
        ("network:tcp:db.example:0000000080", "network:tcp:db.example:80"),
        ("network:https:*.Bücher.example", "network:https:*.xn--bcher-kva.example"),
        ("network:deny:１２７。0。0。1", "network:deny:127.0.0.1"),
    ],
)
def test_a_capability_has_one_spelling(text: str, canonical: str) -> None:
    assert str(parse_capability(text)) == canonical


@pytest.mark.parametrize(
    ("text", "column", "fix"),
    [
        ("filesytem:read:/docs", 1, "did you mean 'filesystem'?"),
        ("filesystem:reed:/docs", 12, "did you mean 'read'?"),
        ("filesystem:read", 17, ""),
        ("filesystem:read:docs", 17, ""),
        ("filesystem:protect:../up", 20, ""),
        ("network:none:now", 14, ""),
        ("memory:limit:lots", 14, ""),
        ("env:pass:A=b", 10, ""),
        ("pids:limit:0", 12, ""),
        ("", 1, ""),
    ],
)
def test_a_mistake_is_shown_at_its_column(text: str, column: int, fix: str) -> None:
    with pytest.raises(CapabilitySyntaxError) as refused:
        parse_capability(text)

    assert (refused.value.text, refused.value.column) == (text, column)
    assert fix in refused.value.fix
    assert refused.value.exit_status == 2


@pytest.mark.parametrize(
    "text", ["filesystem:read:/a\0b", "env:set:A=\0", "filesystem:protect:a\0", "env:pass:A\0"]
)
def test_a_nul_byte_is_refused_wherever_it_stands(text: str) -> None:
    with pytest.raises(CapabilitySyntaxError):
        parse_capability(text)


@pytest.mark.parametrize(
    "text", ["network:https:", "network:https::443", "network:tcp:a b", "network:https:u@h"]
)
def test_a_host_has_to_be_a_name(text: str) -> None:
    with pytest.raises(CapabilitySyntaxError):
        parse_capability(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("network:https:*.", "not the name of a host"),
        ("network:https:*.10.0.0.1", "nothing below an address"),
        ("network:https:[fe80::1%eth0]", "zone"),
        ("network:deny:straße.example", "programs disagree about 'ß'"),
        ("network:https:" + "é" * 100_000, "not the name of a host"),
        ("network:https:a.\u0661\u200d", "programs disagree"),
        ("network:tcp:a:00000199999", "not a port"),
        ("network:tcp:a:\u0663", "not a port"),
    ],
)
def test_a_host_that_could_be_mistaken_for_another_is_refused(text: str, why: str) -> None:
    with pytest.raises(CapabilitySyntaxError) as refused:
        parse_capability(text)

    assert why in refused.value.why


@pytest.mark.parametrize(
    "text",
    ["pids:limit:00000000000000000001999999999999", "pids:limit:²", "pids:limit:٣", "files:limit:2147483648"],
)
def test_a_count_is_a_number_that_the_kernel_knows(text: str) -> None:
    with pytest.raises(CapabilitySyntaxError):
        parse_capability(text)


@pytest.mark.parametrize("text", ["filesystem:read:/\ud800", "env:set:A=\ud800", "env:pass:\udfff"])
def test_half_a_character_is_refused(text: str) -> None:
    """No such name can be told to the kernel. A byte that is not UTF-8 can: Python writes it otherwise."""
    with pytest.raises(CapabilitySyntaxError):
        parse_capability(text)

    assert parse_capability("filesystem:read:/\udcff").target == "/\udcff"


@pytest.mark.parametrize("name", ["é", "²", "٣", "___", "a b", "a-b"])
def test_a_system_call_is_named_in_plain_letters(name: str) -> None:
    with pytest.raises(CapabilitySyntaxError):
        parse_capability(f"syscall:deny:{name}")


@pytest.mark.parametrize(
    "text", ["filesystem:read:${workspace}x", "filesystem:write:${workspace}-old", "filesystem:read:~x"]
)
def test_workspace_and_home_are_whole_components(text: str) -> None:
    """`${workspace}-old` would be a directory beside the workspace."""
    with pytest.raises(CapabilitySyntaxError):
        parse_capability(text)


def test_a_capability_becomes_a_rule() -> None:
    assert policy_of("filesystem:write:/data").fs == (FsRule("/data", FsAccess.WRITE),)


def test_the_last_limit_counts() -> None:
    assert policy_of("memory:limit:1g", "memory:limit:2g").limits.memory_bytes == 2 * 1024**3


def test_a_host_makes_the_network_limited() -> None:
    assert policy_of("network:none", "network:https:example.org").net == NetPolicy(
        NetMode.LIMITED, frozenset({"https:example.org"})
    )


def test_closing_the_network_forgets_the_hosts() -> None:
    assert policy_of("network:https:example.org", "network:none").net == NetPolicy(NetMode.NONE)


def test_a_draft_leaves_its_base_alone() -> None:
    base = policy_of("filesystem:read:/docs")
    policy_of("filesystem:read:/more", base=base)

    assert base == policy_of("filesystem:read:/docs")


def test_a_capability_is_a_value() -> None:
    assert parse_capability("network:none") == Capability("network", "none")
