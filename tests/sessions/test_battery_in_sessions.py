"""Every attack of the self-test once more, as a later command of a session that others have used."""

from __future__ import annotations

import pytest

from corral.model.errors import UnenforceableError
from corral.selftest.battery import claims_of, run_probe
from corral.selftest.catalogue import PROBES
from corral.selftest.probe import ProbeOutcome
from support.kept_runs import KeptSandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.selftest.probe import EscapeProbe

#: Attacks on what a session does otherwise than a single run: they run on a second backend as well.
_ELSEWHERE = ("bubblewrap", ("proc.", "fs.protect", "descriptors", "terminal"))


def _attacks() -> list[object]:
    name, begins = _ELSEWHERE
    cases = [("native", probe) for probe in PROBES]
    cases += [(name, probe) for probe in PROBES if probe.feature.value.startswith(begins)]
    return [pytest.param(where, probe, id=f"{where}-{probe.name}") for where, probe in cases]


@pytest.mark.parametrize(("where", "probe"), _attacks())
def test_attack_from_a_session_has_no_effect_on_the_host(
    where: str,
    probe: EscapeProbe,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    control: Callable[[EscapeProbe], str],
) -> None:
    monkeypatch.setattr("corral.selftest.trial.Sandbox", KeptSandbox)
    try:
        enforces = claims_of(where)
    except UnenforceableError as problem:
        required = request.config.getoption("--require", default="").split(",")
        (pytest.fail if where in required else pytest.skip)(f"{where} is not available: {problem.why}")

    report = run_probe(probe, where, enforces, control)

    if report.outcome is ProbeOutcome.NOT_APPLICABLE:
        pytest.skip(report.reason)
    print(report.outcome.value, report.reason)
    assert report.outcome in {ProbeOutcome.HELD, ProbeOutcome.NOT_CLAIMED}, (
        f"{probe.title} [{report.outcome.value}] {report.reason}"
    )
