"""Select a backend: the first that enforces everything, or why none does. Pure."""

from __future__ import annotations

from corral.model.errors import UnenforceableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.feature import Feature
    from corral.model.probe import Probe


def select(needed: frozenset[Feature], probes: Iterable[Probe]) -> Probe:
    """Return the first probe that enforces all that is needed. Takes no more probes than it must."""
    refusals: list[tuple[Probe, frozenset[Feature]]] = []
    for probe in probes:
        lacking = needed - probe.enforces
        if probe.available and not lacking:
            return probe
        refusals.append((probe, lacking))
    raise UnenforceableError(
        "unenforceable",
        "no backend on this host can enforce the policy",
        why="; ".join(_reason(probe, lacking) for probe, lacking in refusals) or "no backend was tried",
        fix=_fix(refusals),
    )


def _names(features: frozenset[Feature]) -> str:
    return ",".join(sorted(feature.value for feature in features))


def _reason(probe: Probe, lacking: frozenset[Feature]) -> str:
    if not probe.available:
        return f"{probe.backend}: {probe.reason}"
    nearly = [f"{feature.value} ({how})" for feature, how in probe.approximates if feature in lacking]
    words = f"; approximates {', '.join(nearly)}" if nearly else ""
    return f"{probe.backend}: cannot enforce {_names(lacking)}{words}"


def _fix(refusals: list[tuple[Probe, frozenset[Feature]]]) -> str:
    usable = [(probe, lacking) for probe, lacking in refusals if probe.available]
    if usable:
        probe, lacking = min(usable, key=lambda pair: len(pair[1]))
        return (
            "ask for less, or give this up, on record, with "
            f"`--backend {probe.backend} --waive {_names(lacking)}`"
        )
    fixes = [probe.fix for probe, _ in refusals if probe.fix]
    return fixes[0] if fixes else "run `corral doctor` to see what each backend needs"
