"""Build a fidelity: what each backend would enforce of a plan, approximate, or leave open. Pure."""

from __future__ import annotations

from corral.backends.registry import UNCONFINED, get_backend
from corral.model.errors import UnenforceableError
from corral.model.feature import RUNNER_FEATURES, RUNNER_MECHANISM
from corral.model.fidelity import BackendFidelity, Fidelity, Finding, Hold
from corral.planning.clauses import list_clauses
from corral.planning.defaults import hold_defaults
from corral.planning.select import select_launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from corral.model.feature import Feature
    from corral.model.launch import Launch
    from corral.model.plan import Plan
    from corral.model.probe import Probe


def build_fidelity(
    plan: Plan, probes: Iterable[Probe], permitted: Sequence[str], *, falls_back: bool = False
) -> Fidelity:
    """Judge every probe, and select among the permitted ones as `Sandbox.run` does."""
    known = {probe.backend: probe for probe in probes}
    found = Fidelity(
        clauses=list_clauses(plan),
        backends=tuple(judge(plan, probe) for probe in known.values()),
        waived=plan.waived,
        chosen="",
    )
    try:
        missing = [name for name in permitted if name not in known]
        if missing:
            get_backend(missing[0])  # which says why there is none
        chosen, _ = select_launch(
            plan.requires - plan.waived,
            (known[name] for name in permitted),
            lambda probe: get_backend(probe.backend).lower(plan, probe),
            plan.policy.requires,
        )
    except UnenforceableError as problem:
        fallback = UNCONFINED if falls_back and problem.code == "unenforceable" else ""
        return found.replace(chosen=fallback, refusal=problem.why, fix=problem.fix, reasons=problem.reasons)
    return found.replace(chosen=chosen.backend)


def judge(plan: Plan, probe: Probe) -> BackendFidelity:
    """What one backend would make of a plan, whatever the caller has waived."""
    if not probe.available:
        return BackendFidelity(probe.backend, False, reason=probe.reason, fix=probe.fix)
    plan = hold_defaults(plan, probe)  # those that it cannot hold are no reason against it
    # What it lacks is waived, so that it can lower the rest and name its mechanisms.
    lacking = dict.fromkeys(plan.requires - probe.enforces, "")
    while True:
        try:
            launch = get_backend(probe.backend).lower(plan.replace(waived=frozenset(lacking)), probe)
        except UnenforceableError as problem:
            if problem.lacking <= lacking.keys():
                return BackendFidelity(probe.backend, False, reason=problem.why, fix=problem.fix)
            lacking |= dict.fromkeys(problem.lacking, problem.why)
        else:
            break
    features = sorted(plan.requires, key=lambda feature: feature.value)
    findings = tuple(_finding(feature, probe, launch, lacking) for feature in features)
    return BackendFidelity(probe.backend, True, findings, probe.version)


def _finding(feature: Feature, probe: Probe, launch: Launch, lacking: dict[Feature, str]) -> Finding:
    if feature not in lacking:
        how = launch.enforced.get(feature) or (RUNNER_MECHANISM if feature in RUNNER_FEATURES else "")
        # A claim without a mechanism would be stopped by the last gate: it is none.
        return Finding(feature, Hold.ENFORCED if how else Hold.NOT_ENFORCEABLE, how)
    approximation = dict(probe.approximates).get(feature)
    if approximation:
        return Finding(feature, Hold.APPROXIMATED, approximation)
    return Finding(feature, Hold.NOT_ENFORCEABLE, lacking[feature])
