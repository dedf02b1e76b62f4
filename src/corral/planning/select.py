"""Select a backend: the first that enforces everything, or why none does. Pure."""

from __future__ import annotations

from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.probe import LIMITS_FIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import TypeVar

    from corral.model.probe import Probe

    _T = TypeVar("_T")
    _Refusal = tuple[Probe, frozenset[Feature], UnenforceableError | None]

#: The one backend that makes layers.
_WITH_TRIALS = ("native", "bubblewrap")
#: What only a control group holds against a command that tries to get around it.
_BY_GROUPS = {"limit.memory", "limit.cpu", "limit.cpu-time", "limit.pids"}


def select(needed: frozenset[Feature], probes: Iterable[Probe]) -> Probe:
    """Return the first probe that enforces all that is needed. Takes no more probes than it must."""
    chosen, _ = select_launch(needed, probes, lambda _probe: None)
    return chosen


def select_launch(
    needed: frozenset[Feature],
    probes: Iterable[Probe],
    lower: Callable[[Probe], _T],
    by_name: Collection[str] = (),
) -> tuple[Probe, _T]:
    """The first that enforces all that is needed and can do so for this very plan, with its launch.

    `lower` raises UnenforceableError where a backend finds that it cannot hold here what its probe claims.
    `by_name`: features that the caller requires by name, and is not told to waive.
    """
    refusals: list[_Refusal] = []
    for probe in probes:
        lacking = needed - probe.enforces
        if not probe.available or lacking:
            refusals.append((probe, lacking, None))
            continue
        try:
            return probe, lower(probe)
        except UnenforceableError as problem:
            refusals.append((probe, problem.lacking, problem))
    raise _refused(refusals, by_name)


def _refused(refusals: list[_Refusal], by_name: Collection[str]) -> UnenforceableError:
    if len(refusals) == 1 and refusals[0][2] is not None:
        return refusals[0][2]  # it has said it best
    return UnenforceableError(
        "unenforceable",
        "no backend on this host can enforce the policy",
        reasons=tuple(_reason(*refusal) for refusal in refusals) or ("there is no backend to try",),
        fix=_fix(refusals, by_name),
    )


def inside_already(problem: UnenforceableError, environment: Mapping[str, str]) -> UnenforceableError:
    """A refusal, which inside another sandbox has one cause before all others."""
    if problem.code != "unenforceable" or not environment.get("CORRAL_SANDBOX"):
        return problem
    return UnenforceableError(
        "nested",
        "already inside corral, and no sandbox can be made inside this one",
        reasons=problem.reasons,
        fix="run the command directly: the sandbox around it already confines it",
    )


def _names(features: frozenset[Feature]) -> str:
    return ",".join(sorted(feature.value for feature in features))


def _reason(probe: Probe, lacking: frozenset[Feature], problem: UnenforceableError | None) -> str:
    if problem is not None:
        return f"{probe.backend}: {problem.what}: {problem.why}"
    if not probe.available:
        return f"{probe.backend}: {probe.reason}"
    nearly = [f"{feature.value} ({how})" for feature, how in probe.approximates if feature in lacking]
    words = f"; approximates {', '.join(nearly)}" if nearly else ""
    if probe.detail(LIMITS_FIX) and {feature.value for feature in lacking} <= _BY_GROUPS:
        words = "; these limits need a control group, and this host gives you none"
    return f"{probe.backend}: cannot enforce {_names(lacking)}{words}"


def _fix_trial(asked: list[Probe]) -> str:
    """INVARIANT: nobody is told to waive it: the command would write the workspace itself."""
    if not asked:
        return (
            f"only the backends {' and '.join(_WITH_TRIALS)} have trials: use one of them, or leave out --try"
        )
    fix = asked[0].fix or asked[0].reason or "see `corral doctor`"
    return f"trials need the backend {asked[0].backend}: {fix}"


def _fix(refusals: list[_Refusal], by_name: Collection[str]) -> str:
    """The nearest way out first: of those that work here, the one that lacks least."""
    usable = [refusal for refusal in refusals if refusal[0].available and refusal[1]]
    fixes = [probe.fix for probe, *_ in refusals if not probe.available and probe.fix]
    if any(Feature.FS_TRIAL in lacking for _, lacking, _ in usable):
        nearest = _fix_trial([probe for probe, *_ in refusals if probe.backend in _WITH_TRIALS])
    elif usable:
        probe, lacking, _ = min(usable, key=lambda refusal: len(refusal[1]))
        limits = any(feature.value.startswith("limit.") for feature in lacking)
        enable = probe.detail(LIMITS_FIX) if limits else ""
        named = frozenset(feature for feature in lacking if feature.value in by_name)
        less = f"do without requiring {_names(named)}" if named else "ask for less"
        waive = (
            f", or give this up, on record, with `--backend {probe.backend} --waive {_names(lacking)}`"
            if not named
            else ""
        )
        nearest = f"{enable}{'; or ' if enable else ''}{less}{waive}"
    else:
        nearest = fixes.pop(0) if fixes else ""
    others = "`corral doctor` says what each backend needs" if fixes or not nearest else ""
    return "; ".join(filter(None, (nearest, others)))
