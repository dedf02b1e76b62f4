"""Frameworks themselves, with corral's adapters: their suites for providers whole, and scripted agents.

They are in `.frameworks`, made by `make frameworks`; what runs there is in `inside`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from support.framework_suites import SUITES, Suite
from support.frameworks import (
    FRAMEWORKS,
    INSIDE,
    find_python,
    is_reachable,
    reachable_python,
    run_inside,
    why_not,
)
from support.probed import probe_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1200)]
_ORDINARY = 61234  # in nobody's password file
_DOCUMENT = Path(__file__).parents[2] / "docs/integrations.md"


@pytest.fixture(params=["own", "ordinary"])
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Path, int | None]]:
    """Where the tests inside put their files, and who runs them; as root also an ordinary user."""
    directory = Path(tempfile.mkdtemp(prefix="corral-frameworks-"))
    user = None
    if request.param == "ordinary":
        if os.geteuid() != 0:
            pytest.skip("the tests run as an ordinary user already")
        user = _ORDINARY
        os.chown(directory, user, user)
    yield directory, user
    shutil.rmtree(directory, ignore_errors=True)


def _require(name: str, user: int | None) -> None:
    probe = probe_of("native")
    if not probe.available:
        pytest.skip(f"native is not available: {probe.reason}")
    python = find_python(name)
    if python is None:
        pytest.skip(
            why_not(name) or f"{name} is not installed with this corral: make frameworks NAMES={name}"
        )
    if user is not None and (not is_reachable(python) or reachable_python(python) is None):
        pytest.skip("an ordinary user can reach neither the environment nor a Python of its version")


def _named(outcomes: dict[str, str], provider: str) -> dict[str, str]:
    """The results of one provider, by the name of the test alone."""
    found = {}
    for name, result in outcomes.items():
        group, _, test = name.partition("::")
        bare, _, case = test.partition("[")
        if group.endswith(f"Test{provider.title()}") or provider in case:
            found[bare] = result
    return found


@pytest.mark.parametrize("suite", SUITES, ids=[suite.framework for suite in SUITES])
def test_the_suite_of_a_framework_passes_but_for_what_is_named(
    suite: Suite, place: tuple[Path, int | None]
) -> None:
    directory, user = place
    _require(suite.framework, user)

    outcomes = run_inside(
        suite.framework,
        f"{FRAMEWORKS[suite.framework].module}_suite.py",
        directory / "report.xml",
        as_user=user,
    )

    results = {name: outcome.result for name, outcome in outcomes.items()}
    corral, local = _named(results, "corral"), _named(results, "local")
    is_root = os.geteuid() == 0 and user is None
    expected = {**suite.unmet, **(suite.unmet_as_root if is_root else {})}
    assert len(corral) == suite.tests
    assert {name for name, result in corral.items() if result != "passed"} == set(expected)
    assert {name: local[name] for name in expected if local[name] == "passed"} == {}
    assert suite.row() in _DOCUMENT.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_agent_of_a_framework_works_in_a_sandbox(name: str, place: tuple[Path, int | None]) -> None:
    directory, user = place
    _require(name, user)

    outcomes = run_inside(name, f"{FRAMEWORKS[name].module}_agent.py", directory / "report.xml", as_user=user)

    assert outcomes
    assert {test: outcome for test, outcome in outcomes.items() if outcome.result == "failed"} == {}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_each_framework_has_its_tests(name: str) -> None:
    assert (INSIDE / f"{FRAMEWORKS[name].module}_agent.py").exists()
