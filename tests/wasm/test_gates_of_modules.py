"""`corral selftest GATE`: what was asked for modules, tried on real ones."""

from __future__ import annotations

import pytest

from corral.selftest.module_gates import GATES, run_gate
from support.probed import require


@pytest.mark.parametrize("gate", ["capabilities", "violations"])
def test_everything_holds(gate: str, request: pytest.FixtureRequest) -> None:
    require(request, "wasm")

    reports = list(run_gate(gate))

    assert [report.title for report in reports if not report.held] == [] and len(reports) >= 5


@pytest.mark.thorough
@pytest.mark.parametrize("gate", ["isolation", "limits"])
def test_everything_holds_in_the_longer_ones(gate: str, request: pytest.FixtureRequest) -> None:
    require(request, "wasm")

    reports = list(run_gate(gate))

    assert [report.title for report in reports if not report.held] == [] and len(reports) >= 8


def test_there_are_the_four_that_were_asked_for() -> None:
    assert list(GATES) == ["isolation", "limits", "capabilities", "violations"]
