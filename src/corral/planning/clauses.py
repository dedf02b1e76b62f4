"""List the clauses of a policy: few enough rows to read, each with the features that it needs here."""

from __future__ import annotations

from corral.model.feature import PROMISES, Feature
from corral.model.fidelity import Clause
from corral.model.rules.capability import capabilities_of
from corral.planning.require import features_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.plan import Plan
    from corral.model.rules.capability import Capability

#: Verbs with many targets, which share a row: what to call them.
_SHARED_ROWS = {
    ("filesystem", "read"): "paths",
    ("filesystem", "write"): "paths",
    ("filesystem", "private"): "paths",
    ("filesystem", "protect"): "names",
    ("network", "http"): "hosts",
    ("network", "https"): "hosts",
    ("network", "tcp"): "hosts",
    ("network", "deny"): "hosts",
    ("env", "pass"): "names",
    ("env", "set"): "names",
    ("syscall", "deny"): "calls",
    ("module", "call"): "modules",
}
_OF_NETWORK = ("network", "traffic")
#: A denial outside of every grant needs nothing of its own: nothing leads there.
_DENIED_ANYWAY = (Feature.FS_READ, Feature.FS_WRITE)


def list_clauses(plan: Plan) -> tuple[Clause, ...]:
    """Every capability of the plan's policy, then what is required whatever the policy says."""
    rows: dict[tuple[str, ...], list[Capability]] = {}
    for capability in capabilities_of(plan.policy):
        if not _is_overruled(capability, plan):
            rows.setdefault(_row(capability), []).append(capability)
    clauses = [Clause(_text(group), _needed(group[0], plan)) for group in rows.values()]
    return (*clauses, *_always(plan, {feature for clause in clauses for feature in clause.features}))


def _row(capability: Capability) -> tuple[str, ...]:
    """Capabilities with the same one share a row."""
    pair = (capability.kind, capability.verb)
    if pair not in _SHARED_ROWS:
        return (*pair, capability.target)
    return (*pair, *(feature.value for feature in features_of(capability)))


def _text(group: list[Capability]) -> str:
    first = group[0]
    if len(group) == 1:
        return str(first)
    return f"{first.kind}:{first.verb} ({len(group)} {_SHARED_ROWS[first.kind, first.verb]})"


def _is_overruled(capability: Capability, plan: Plan) -> bool:
    """`network:none` is also what a list of endpoints begins with."""
    return (capability.kind, capability.verb) == ("network", "none") and (
        Feature.NET_NONE not in plan.requires
    )


def _needed(capability: Capability, plan: Plan) -> tuple[Feature, ...]:
    """What a capability needs on this host: nothing where it has nothing to act upon."""
    features = features_of(capability)
    if capability.verb == "default":
        return features  # each backend holds it or does not, and is no worse a choice for that
    if features == (Feature.FS_DENY,) and Feature.FS_DENY not in plan.requires:
        return _DENIED_ANYWAY
    if features == (Feature.FS_READ,) and Feature.FS_DENY in plan.requires and not plan.resolved.denied:
        return (Feature.FS_READ, Feature.FS_DENY)  # something readable lies inside something writable
    if capability.kind in _OF_NETWORK and Feature.NET_NONE in plan.requires:
        return (Feature.NET_NONE,)  # no network at all: nothing else is to be held
    narrows = capability.kind == "traffic" or (capability.kind, capability.verb) == ("network", "deny")
    if narrows and Feature.NET_EXCEPT in plan.requires:
        return (Feature.NET_EXCEPT,)
    return tuple(feature for feature in features if feature in plan.requires)


def _always(plan: Plan, named: set[Feature]) -> Iterator[Clause]:
    for feature in Feature:
        if feature in plan.requires and feature not in named:
            yield Clause(PROMISES[feature], (feature,), always=True)
