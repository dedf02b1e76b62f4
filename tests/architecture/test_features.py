"""Every feature has a promise in words and a proof in code."""

from __future__ import annotations

import ast
from pathlib import Path

from sources import parse

from corral.backends.registry import AUTO, BUILTIN, CONFINING, UNCONFINED, get_backend
from corral.model.feature import PROMISES, RUNNER_FEATURES, Feature

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"
#: The suite as another user: it proves nothing by itself.
NOT_A_FEATURE = {"test_as_ordinary_user.py"}


def _file(feature: Feature) -> str:
    return f"test_{feature.name.lower()}.py"


def test_every_feature_has_a_conformance_file_and_every_file_a_feature() -> None:
    files = {path.name for path in CONFORMANCE.glob("test_*.py")} - NOT_A_FEATURE

    assert files == {_file(feature) for feature in Feature}


def test_each_conformance_file_proves_its_own_feature() -> None:
    for feature in Feature:
        text = (CONFORMANCE / _file(feature)).read_text(encoding="utf-8")

        assert f"pytestmark = pytest.mark.proves(Feature.{feature.name})" in text


def test_each_conformance_file_has_at_least_two_tests() -> None:
    for feature in Feature:
        tests = [
            node
            for node in parse(CONFORMANCE / _file(feature)).body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
        ways = sum(_parameters(test) for test in tests)

        assert ways >= 2, feature


def _parameters(test: ast.FunctionDef) -> int:
    """How many ways a test is run in: the lengths of its parametrisations, multiplied."""
    ways = 1
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("parametrize"):
            ways *= len(decorator.args[1].elts) if isinstance(decorator.args[1], ast.List) else 2
    return ways


def test_a_proof_runs_on_every_backend_and_on_the_leaky_one() -> None:
    """It takes the fixture `backend`, unless nobody claims the feature and the file says so."""
    for feature in Feature:
        tree = parse(CONFORMANCE / _file(feature))
        tests = [
            node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
        if any(test.name == "test_no_backend_claims_it" for test in tests):
            continue

        assert all("backend" in {arg.arg for arg in test.args.args} for test in tests), feature


def test_every_promise_is_one_sentence_and_no_two_are_alike() -> None:
    assert set(PROMISES) == set(Feature)
    assert len(set(PROMISES.values())) == len(Feature)
    assert all(text and text[0].islower() and not text.endswith(".") for text in PROMISES.values())


def test_the_names_of_features_follow_from_their_members() -> None:
    for feature in Feature:
        assert feature.value.replace(".", "_").replace("-", "_") == feature.name.lower()


def test_what_the_runner_enforces_every_backend_may_claim() -> None:
    assert RUNNER_FEATURES <= set(Feature)


def test_auto_never_chooses_to_confine_nothing() -> None:
    for names in AUTO.values():
        assert UNCONFINED not in names
        assert set(names) <= set(CONFINING)
        assert len(set(names)) == len(names)


def test_every_backend_is_named_as_the_registry_names_it() -> None:
    for name in BUILTIN:
        assert get_backend(name).name == name


def test_every_backend_describes_itself_in_four_labelled_lines() -> None:
    for target in BUILTIN.values():
        module = __import__(target.partition(":")[0], fromlist=["_"])
        labels = [line.split(" ")[0] for line in module.__doc__.splitlines() if line[:1].isalpha()]

        assert [label for label in labels if label in {"Guarantees", "Mechanism", "Not", "Order"}] == [
            "Guarantees",
            "Mechanism",
            "Not",
            "Order",
        ]
