"""The battery: every probe in three legs.

control   the attack works on this host without a sandbox; else the probe proves nothing here
alive     the confined attack printed its sentinel; else it never ran, and nothing is known
held      the host shows no effect
"""

from __future__ import annotations

import time

from corral.backends.registry import AUTO_NAME, UNCONFINED, check_runs_commands, get_backend
from corral.host.real import RealHost
from corral.model.errors import PolicyError, UnenforceableError
from corral.model.feature import Feature
from corral.sandbox import Sandbox
from corral.selftest.catalogue import PROBES
from corral.selftest.probe import NotHereError, ProbeOutcome, ProbeReport
from corral.selftest.receipt import Receipt, host_facts
from corral.selftest.stage import Stage, StagedHost
from corral.selftest.trial import missing_program, run_confined, run_unconfined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from corral.selftest.probe import EscapeProbe

    Finding = tuple[ProbeOutcome, str]


def run_battery(
    backend: str = AUTO_NAME,
    only: Iterable[str] = (),
    on_result: Callable[[ProbeReport], None] | None = None,
) -> Receipt:
    """Run every probe, or those of the given names, against one backend. Prints nothing.

    With the backend `none` nothing is held back: there, every attack that works at all must succeed,
    which is how the battery is tested itself. Raises PolicyError for a name that does not exist and
    UnenforceableError for a backend that does not work here.
    """
    chosen = choose_backend(backend)
    enforces = claims_of(chosen)
    reports = []
    for probe in select_probes(only):
        report = run_probe(probe, chosen, enforces)
        reports.append(report)
        if on_result is not None:
            on_result(report)
    return Receipt(host_facts(), chosen, tuple(reports))


def run_probe(
    probe: EscapeProbe,
    backend: str,
    enforces: frozenset[Feature],
    control: Callable[[EscapeProbe], str] | None = None,
) -> ProbeReport:
    """All three legs of one probe. `control` stands in for the first, where its answer is known."""
    began = time.monotonic()
    outcome, reason = _find(probe, backend, enforces, control or find_control)
    seconds = time.monotonic() - began
    return ProbeReport(probe.name, probe.title, probe.feature, probe.source, outcome, reason, seconds)


def choose_backend(backend: str) -> str:
    """The name of the backend that `auto` would take."""
    check_runs_commands(backend)
    if backend != AUTO_NAME:
        return backend
    with Stage() as stage:
        return Sandbox(workspace=stage.at("ws"), host=StagedHost(stage)).explain("true").probe.backend


def claims_of(backend: str) -> frozenset[Feature]:
    """What a backend promises on this host. `none` promises nothing and is attacked in everything."""
    if backend == UNCONFINED:
        return frozenset(Feature)
    probe = get_backend(backend).probe(RealHost())
    if not probe.available:
        raise UnenforceableError(
            "unenforceable",
            f"the backend {backend!r} does not work here",
            why=probe.reason,
            fix=probe.fix or "choose another one with --backend",
        )
    return probe.enforces


def select_probes(only: Iterable[str]) -> tuple[EscapeProbe, ...]:
    """The probes of these names, in the battery's order; all of them for no names."""
    names = set(only)
    unknown = names - {probe.name for probe in PROBES}
    if unknown:
        raise PolicyError(
            "unknown-probe",
            f"there is no probe {sorted(unknown)[0]!r}",
            why=f"the battery has {len(PROBES)} probes and none of that name",
            fix="run `corral selftest --json` to see their names",
        )
    return tuple(probe for probe in PROBES if not names or probe.name in names)


def _find(
    probe: EscapeProbe, backend: str, enforces: frozenset[Feature], control: Callable[[EscapeProbe], str]
) -> Finding:
    if probe.feature not in enforces:
        return ProbeOutcome.NOT_CLAIMED, f"{backend} does not claim {probe.feature.value}"
    lacking = missing_program(probe)
    if lacking:
        return ProbeOutcome.NOT_APPLICABLE, f"there is no {lacking} on this host"
    reason = control(probe)
    if reason:
        return ProbeOutcome.NOT_APPLICABLE, reason
    return _confined(probe, backend, enforces)


def find_control(probe: EscapeProbe) -> str:
    """Why the attack proves nothing on this host; empty if it works unconfined."""
    with Stage() as stage:
        try:
            if probe.setup is not None:
                probe.setup(stage)
        except (NotHereError, OSError) as problem:
            return str(problem)
        trace = run_unconfined(probe, stage)
        if stage.sentinel not in trace.output:
            return f"it cannot even be started unconfined: {trace.complaint}"
        effect = probe.judge(stage, trace.output)
        return "" if effect else f"it does not work unconfined either: {trace.complaint or 'no effect'}"


def _confined(probe: EscapeProbe, backend: str, enforces: frozenset[Feature]) -> Finding:
    with Stage() as stage:
        if probe.setup is not None:
            probe.setup(stage)
        trace = run_confined(probe, stage, backend, enforces)
        effect = probe.judge(stage, trace.output)
        # ORDER: the host is judged first: an effect counts, even of an attack that seems not to have run.
        limit = dict(probe.limits).get(backend)
        if effect and limit:
            return ProbeOutcome.NOT_CLAIMED, f"{effect}; {limit}"
        if effect:
            return ProbeOutcome.ESCAPED, effect
        if trace.refusal and trace.refusal == probe.refusal:
            return ProbeOutcome.HELD, trace.complaint
        if stage.sentinel not in trace.output:
            return ProbeOutcome.BROKEN, f"the confined attack did not run: {trace.complaint}"
        return ProbeOutcome.HELD, trace.complaint
