"""Every attack of the self-test, on every confining backend that works here; and the battery's own proof."""

from __future__ import annotations

import re
from functools import cache

import pytest

from corral.backends.registry import BUILTIN, MODULES, UNCONFINED, UNPROVED
from corral.model.errors import UnenforceableError
from corral.selftest.battery import claims_of, run_battery, run_probe
from corral.selftest.catalogue import PROBES
from corral.selftest.probe import ProbeOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.feature import Feature
    from corral.selftest.probe import EscapeProbe

#: Races that take seconds each; the guarantees that they attack are attacked by others as well.
LONG = {"replace-protected-link", "plant-in-a-flood", "read-exchange-race"}
EACH = [
    pytest.param(probe, id=probe.name, marks=pytest.mark.thorough if probe.name in LONG else [])
    for probe in PROBES
]
CONFINING = [name for name in BUILTIN if name not in {UNCONFINED, MODULES, *UNPROVED}]


@cache
def claims(name: str) -> frozenset[Feature] | str:
    try:
        return claims_of(name)
    except UnenforceableError as problem:
        return problem.why


def claims_or_skip(name: str, request: pytest.FixtureRequest) -> frozenset[Feature]:
    found = claims(name)
    if isinstance(found, str):
        required = request.config.getoption("--require", default="").split(",")
        (pytest.fail if name in required else pytest.skip)(f"{name} is not available: {found}")
    return found


@pytest.mark.parametrize("probe", EACH)
@pytest.mark.parametrize("name", CONFINING)
def test_attack_has_no_effect_on_the_host(
    name: str,
    probe: EscapeProbe,
    request: pytest.FixtureRequest,
    control: Callable[[EscapeProbe], str],
) -> None:
    report = run_probe(probe, name, claims_or_skip(name, request), control)

    if report.outcome is ProbeOutcome.NOT_APPLICABLE:
        pytest.skip(report.reason)
    print(report.outcome.value, report.reason)
    assert report.outcome in {ProbeOutcome.HELD, ProbeOutcome.NOT_CLAIMED}, (
        f"{probe.title} [{report.outcome.value}] {report.reason}"
    )


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_attack_succeeds_where_nothing_confines_it(
    probe: EscapeProbe, control: Callable[[EscapeProbe], str]
) -> None:
    """A probe that holds without a sandbox proves nothing, unless it says what else held it."""
    report = run_probe(probe, UNCONFINED, claims_of(UNCONFINED), control)

    if report.outcome is ProbeOutcome.NOT_APPLICABLE:
        pytest.skip(report.reason)
    if report.outcome is ProbeOutcome.HELD and probe.runner_holds:
        pytest.skip(f"held by the runner: {probe.runner_holds}")
    assert report.outcome is ProbeOutcome.ESCAPED, report.reason


def test_names_are_unique_and_in_kebab_case() -> None:
    names = [probe.name for probe in PROBES]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


def test_receipt_is_complete_and_its_digest_covers_it() -> None:
    receipt = run_battery(UNCONFINED, only=["write-absolute", "read-ssh-key"])
    changed = receipt.replace(backend="native")

    assert receipt.counts == {"held": 0, "ESCAPED": 2, "not-applicable": 0, "broken": 0, "not-claimed": 0}
    assert not receipt.ok
    assert receipt.to_json()["digest"] == receipt.digest != changed.digest
    assert receipt.host.launcher_sha256 == changed.host.launcher_sha256
