"""Every attack of the self-test once more, by a stored plan."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from corral.selftest import battery
from corral.selftest.battery import claims_of, run_probe
from corral.selftest.catalogue import PROBES
from corral.selftest.probe import ProbeOutcome
from corral.selftest.stage import staged_environment
from corral.selftest.trial import AttackTrace, command_of, last_words, with_terminal
from support.controls import control
from support.entry_home import check_available
from support.stored_runs import open_entry, run_second

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.feature import Feature
    from corral.selftest.probe import EscapeProbe
    from corral.selftest.stage import Stage

__all__ = ["control"]

#: The first attack on each of these is tried by `make test`, the rest by `make test-all`.
_SAMPLE = ("fs.write", "proc.contained", "descriptors")
_FIRST = {probe.feature: probe.name for probe in reversed(PROBES) if probe.feature.value in _SAMPLE}


def _attacks() -> list[object]:
    firsts = _FIRST.values()
    return [
        pytest.param(probe, id=probe.name, marks=[] if probe.name in firsts else pytest.mark.thorough)
        for probe in PROBES
    ]


def _run_by_entry(
    probe: EscapeProbe, stage: Stage, backend: str, enforces: frozenset[Feature]
) -> AttackTrace:
    """As `corral.selftest.trial: run_confined`, by the command line."""
    assert backend == "native" and enforces
    trace = AttackTrace("", "")
    words = ("--backend", backend, *(f"--cap={text}" for text in ("time:limit:20s", *probe.capabilities)))
    env = staged_environment(stage)
    with open_entry(Path(stage.at("home")), Path(stage.workspace)) as entry:
        for script in filter(None, (probe.earlier, probe.script)):
            argv = command_of(probe, stage, script)
            if probe.needs_terminal:
                return with_terminal(stage, partial(run_second, entry, words, argv, env))
            with open(stage.at(probe.stdin) if probe.stdin else "/dev/null", "rb") as stdin:
                done = run_second(
                    entry, words, argv, env, stdin=stdin, capture_output=True, pass_fds=stage.inherited
                )
            trace = AttackTrace(
                done.stdout.decode(errors="replace"), last_words(done.stderr.decode(errors="replace"))
            )
    return trace


@pytest.mark.parametrize("probe", _attacks())
@pytest.mark.parametrize("name", ["native-stored"])
def test_attack_by_a_stored_plan_has_no_effect_on_the_host(
    name: str, probe: EscapeProbe, monkeypatch: pytest.MonkeyPatch, control: Callable[[EscapeProbe], str]
) -> None:
    check_available()
    monkeypatch.setattr(battery, "run_confined", _run_by_entry)

    backend = name.removesuffix("-stored")
    report = run_probe(probe, backend, claims_of(backend), control)

    if report.outcome is ProbeOutcome.NOT_APPLICABLE:
        pytest.skip(report.reason)
    assert report.outcome in {ProbeOutcome.HELD, ProbeOutcome.NOT_CLAIMED}, (
        f"{probe.title} [{report.outcome.value}] {report.reason}"
    )
