"""The clauses of a policy: what each needs, and in how many rows they are told."""

from __future__ import annotations

import pytest

from corral.model.feature import PROMISES, Feature
from corral.model.plan import Command
from corral.model.rules.capability import _VERBS, capabilities_of, parse_capability
from corral.planning.build import build
from corral.planning.clauses import list_clauses
from corral.planning.require import _CLAUSES, features_of
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import compose
from corral.policy.preset import PRESETS
from support.fake_host import FakeHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.fidelity import Clause
    from corral.model.plan import Plan

WORK = "/home/ann/project"
EVERYTHING = (
    *(
        "filesystem:deny:${workspace}/a",
        "filesystem:deny:${workspace}/b",
        "filesystem:read:${workspace}/docs",
    ),
    *("network:https:example.org", "network:tcp:example.org:22", "network:deny:ads.example.org"),
    *("memory:limit:1g", "cpu:limit:50%", "cpu:time:9s", "pids:limit:9", "time:limit:9s", "disk:limit:1g"),
    *("output:limit:1k", "file:limit:1k", "files:limit:99", "traffic:limit:1g", "traffic:rate:1m"),
    *("env:set:A=b", "process:none", "syscall:deny:chmod", "module:call:json"),
)


def plan_of(*capabilities: str, preset: str = "moderate") -> Plan:
    host = FakeHost({f"{WORK}/docs/": ""})
    policy = compose(preset, capabilities)
    resolved = resolve_policy(policy, WORK, host)
    return build(policy, Command(("true",), WORK), resolved, host, run_id="0" * 16)


def rows_of(*capabilities: str, preset: str = "moderate") -> dict[str, Clause]:
    return {clause.text: clause for clause in list_clauses(plan_of(*capabilities, preset=preset))}


def test_it_is_known_of_every_capability_what_it_needs() -> None:
    assert _CLAUSES.keys() == {(kind, verb) for kind, verbs in _VERBS.items() for verb in verbs}


@pytest.mark.parametrize("text", EVERYTHING)
def test_what_a_clause_needs_by_itself_a_policy_with_it_requires(text: str) -> None:
    """The table and the derivation of what is required say the same."""
    base = ("network:limited",) if text.startswith(("network:deny", "traffic:")) else ()

    assert set(features_of(parse_capability(text))) <= plan_of(*base, text).requires


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("more", [(), EVERYTHING, ("network:limited",), ("network:full",)], ids=len)
def test_the_rows_name_all_that_is_required_and_nothing_else(preset: str, more: tuple[str, ...]) -> None:
    plan = plan_of(*more, preset=preset)

    named = {feature for clause in list_clauses(plan) for feature in clause.features}
    defaults = {Feature.LIMIT_PIDS} if plan.resolved.defaults else set()  # which nobody requires
    assert named == plan.requires | defaults


def test_every_capability_is_in_a_row() -> None:
    plan = plan_of(*EVERYTHING)
    rows = [clause.text for clause in list_clauses(plan) if not clause.always]

    counted = sum(int(text.split("(")[1].split()[0]) if "(" in text else 1 for text in rows)
    assert counted == len(capabilities_of(plan.policy)) - 1  # network:none only begins the list of endpoints


def test_many_paths_share_a_row_and_each_denial_and_limit_has_its_own() -> None:
    texts = list(rows_of(*EVERYTHING))

    assert sum(text.startswith("filesystem:read (") for text in texts) == 1
    assert {text for text in texts if text.startswith(("filesystem:deny", "memory", "cpu"))} == {
        "filesystem:deny:${workspace}/a",
        "filesystem:deny:${workspace}/b",
        "memory:limit:1GiB",
        "cpu:limit:50%",
        "cpu:time:9s",
    }


def test_what_no_capability_asks_for_is_told_by_its_promise() -> None:
    row = rows_of()[PROMISES[Feature.PROC_HIDDEN]]

    assert (row.features, row.always) == ((Feature.PROC_HIDDEN,), True)


def test_a_clause_that_only_gives_needs_nothing() -> None:
    assert rows_of()["process:spawn"].features == ()
    assert rows_of("network:full")["network:full"].features == ()


def test_a_denied_host_needs_no_more_where_there_is_no_network() -> None:
    assert rows_of("network:deny:example.org")["network:deny:example.org"].features == (Feature.NET_NONE,)


def test_a_denial_that_nothing_leads_to_is_held_with_the_grants() -> None:
    row = rows_of("filesystem:deny:/srv/secret")["filesystem:deny:/srv/secret"]

    assert row.features == (Feature.FS_READ, Feature.FS_WRITE)


def test_where_nothing_is_writable_there_is_nothing_to_protect() -> None:
    (row,) = [row for text, row in rows_of(preset="strict").items() if text.startswith("filesystem:protect")]

    assert row.features == ()


def test_a_read_grant_inside_a_writable_one_needs_to_stay_so() -> None:
    rows = rows_of("filesystem:read:${workspace}/docs")
    (row,) = [row for text, row in rows.items() if text.startswith("filesystem:read")]

    assert row.features == (Feature.FS_READ, Feature.FS_DENY)
