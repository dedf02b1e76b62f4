"""What a backend claims at best is written down, no probe claims more, and a test proves each of it."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest
from sources import parse

from corral.backends.registry import BUILTIN, UNCONFINED, UNPROVED, get_backend
from corral.linux.landlock import NEWEST_ABI
from corral.model.feature import RUNNER_FEATURES, Feature
from support.fake_host import FakeHost
from support.golden_cases import BY_GROUPS

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"
HOSTS = [
    FakeHost(uid=uid, holds=holds, abi=abi)
    for uid in (0, 1000)
    for holds in (frozenset(), BY_GROUPS)
    for abi in range(NEWEST_ABI + 1)
]


def _module(name: str):
    return import_module(BUILTIN[name].partition(":")[0])


def _conditional(name: str) -> set[Feature]:
    return {feature for features, _ in getattr(_module(name), "CONDITIONS", ()) for feature in features}


@pytest.mark.parametrize("name", BUILTIN)
def test_no_probe_claims_more_than_the_backend_says_at_best(name: str) -> None:
    for host in HOSTS:
        assert get_backend(name).probe(host).enforces <= _module(name).CLAIMS


@pytest.mark.parametrize("name", BUILTIN)
def test_what_is_not_claimed_everywhere_has_a_condition(name: str) -> None:
    """Otherwise the table of the documents would promise it without a footnote."""
    for host in HOSTS:
        probe = get_backend(name).probe(host)
        if probe.available:
            assert _module(name).CLAIMS - probe.enforces <= _conditional(name)


@pytest.mark.parametrize("name", BUILTIN)
def test_a_condition_is_about_something_that_is_claimed(name: str) -> None:
    assert _conditional(name) <= _module(name).CLAIMS


def test_without_a_sandbox_only_the_runner_holds_anything() -> None:
    assert _module(UNCONFINED).CLAIMS == RUNNER_FEATURES


@pytest.mark.parametrize("name", [name for name in BUILTIN if name not in {UNCONFINED, *UNPROVED}])
def test_every_claim_is_proved_on_the_backend(name: str) -> None:
    """The conformance file of each feature takes the fixture `backend`, which runs it on every backend."""
    for feature in _module(name).CLAIMS:
        tree = parse(CONFORMANCE / f"test_{feature.name.lower()}.py")
        tests = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        names = {test.name for test in tests}

        assert "test_no_backend_claims_it" not in names, (name, feature)
        assert any("backend" in {arg.arg for arg in test.args.args} for test in tests), (name, feature)


def test_what_is_not_proved_says_why() -> None:
    assert all(UNPROVED.values())
    assert set(UNPROVED) <= {"seatbelt", "lima"}
