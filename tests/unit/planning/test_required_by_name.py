"""`feature:require`: a guarantee that is named is enforced, or nothing runs."""

from __future__ import annotations

import pytest

from corral.model.errors import PolicyError, UnenforceableError
from corral.model.feature import Feature
from corral.model.policy import Policy
from corral.model.probe import Probe
from corral.planning.resolved_policy import resolve_policy
from corral.planning.select import select
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.fake_host import FakeHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

WORK = "/home/ann/project"


def required(*capabilities: str) -> frozenset[Feature]:
    return resolve_policy(build_policy("moderate", capabilities), WORK, FakeHost({})).requires


def test_a_default_that_is_required_by_name_is_no_default_any_more() -> None:
    assert Feature.LIMIT_PIDS not in required()
    needed = required("feature:require:limit.pids")

    assert Feature.LIMIT_PIDS in needed
    with pytest.raises(UnenforceableError, match=r"limit\.pids"):
        select(needed, [Probe("weak", True, frozenset(Feature) - {Feature.LIMIT_PIDS})])


@pytest.mark.parametrize(
    "capability",
    ["limit.memory", "net.ports", "proc.single", "fs.trial", "proc.identity"],  # the host's user is not root
)
def test_what_has_nothing_to_hold_is_refused(capability: str) -> None:
    with pytest.raises(PolicyError, match="nothing for it to hold"):
        required(f"feature:require:{capability}")


def test_who_meets_two_policies_requires_what_either_does() -> None:
    both = Policy(requires=frozenset({"fs.read"})) & Policy(requires=frozenset({"fs.write"}))

    assert both.requires == {"fs.read", "fs.write"}
    assert both <= Policy(requires=frozenset({"fs.read"}))
    assert not Policy() <= both


def test_nobody_waives_what_he_requires() -> None:
    with pytest.raises(PolicyError, match="both required and waived"):
        Sandbox("moderate", require=["net.none"], waive=["net.none"])


def test_an_unknown_feature_is_refused_by_every_way_in() -> None:
    for make in (
        lambda: Sandbox(require=["fs.imaginary"]),
        lambda: Sandbox(Policy(requires=frozenset({"fs.imaginary"}))),
        lambda: build_policy("moderate", ["feature:require:fs.imaginary"]),
    ):
        with pytest.raises(PolicyError, match=r"fs\.imaginary"):
            make()


@pytest.mark.parametrize(
    ("way", "capabilities"),
    [
        ({"backend": "none"}, ()),
        ({"fallback": "unconfined"}, ("network:full", "network:deny:example.com")),  # nobody enforces that
    ],
    ids=["by-name", "as-fallback"],
)
def test_what_is_required_by_name_is_not_answered_by_running_unconfined(
    way: dict, capabilities: tuple[str, ...], tmp_path: Path
) -> None:
    """And without the requirement it is."""
    policy = build_policy("moderate", capabilities)
    assert Sandbox(policy, workspace=tmp_path, **way).explain(["true"]).launch.backend == "none"

    with pytest.raises(UnenforceableError) as refused:
        Sandbox(policy, workspace=tmp_path, require=["fs.write"], **way).explain(["true"])
    assert "--waive" not in str(refused.value)
