"""Defaults: limits that hold where the host can hold them, and are on record where it cannot."""

from __future__ import annotations

from functools import lru_cache

from corral.model.feature import Feature
from corral.model.rules.quantities import format_share, format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.plan import Plan, ResolvedPolicy
    from corral.model.policy import Limits, Policy
    from corral.model.probe import Probe

_FEATURES = {
    "memory_bytes": Feature.LIMIT_MEMORY,
    "memory_share": Feature.LIMIT_MEMORY,  # of a machine that does not say how much it has: nobody holds that
    "cpus": Feature.LIMIT_CPU,
    "pids": Feature.LIMIT_PIDS,
}


def resolve_defaults(policy: Policy, host: Host) -> tuple[Limits, tuple[tuple[str, float], ...]]:
    """The limits of a policy, and the defaults for those that it does not set.

    A policy that was narrowed may have both, of two who said them: then the tighter one is the limit.
    """
    limits = policy.limits
    open_defaults: list[tuple[str, float]] = []
    for field, default in (
        *_memory(policy, host),
        ("cpus", policy.defaults.cpus),
        ("pids", policy.defaults.pids),
    ):
        limit = getattr(limits, field, None)
        if default is not None and limit is not None:
            limits = limits.replace(**{field: min(limit, default)})
        elif default is not None:
            open_defaults.append((field, default))
    return limits, tuple(open_defaults)


def _memory(policy: Policy, host: Host) -> tuple[tuple[str, float | None], ...]:
    size, share = policy.defaults.memory_bytes, policy.defaults.memory_share
    total = _total_memory(host) if share is not None else 0
    if share is None or not total:
        return ("memory_bytes", size), ("memory_share", share)
    of_machine = int(total * share)
    return (("memory_bytes", of_machine if size is None else min(size, of_machine)),)


def _total_memory(host: Host) -> int:
    """Of the machine, in bytes; 0 if it cannot be told."""
    for line in host.read_text("/proc/meminfo", 4096).splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if name == "MemTotal" and words and words[0].isdecimal():
            return int(words[0]) * 1024
    return 0


def hold_defaults(plan: Plan, probe: Probe) -> Plan:
    """The plan for one backend: the defaults that it can hold are limits, the others are on record."""
    if not plan.resolved.defaults:
        return plan
    # What was given up is on record already.
    wanted = [pair for pair in plan.resolved.defaults if _FEATURES[pair[0]] not in plan.waived]
    held = frozenset(
        field for field, _ in wanted if _FEATURES[field] in probe.enforces and field != "memory_share"
    )
    unheld = [(_FEATURES[field], _text(field, value)) for field, value in wanted if field not in held]
    resolved = _with_limits(plan.resolved, held) if held else plan.resolved
    return plan.replace(resolved=resolved, unheld=tuple(unheld))


def _text(field: str, value: float) -> str:
    if field == "memory_bytes":
        return format_size(int(value), rounded=True)
    return str(value) if field == "pids" else format_share(value)


@lru_cache(maxsize=64)
def _with_limits(resolved: ResolvedPolicy, fields: frozenset[str]) -> ResolvedPolicy:
    """The same one for the same policy: backends keep what they compiled from it."""
    values = {field: value for field, value in resolved.defaults if field in fields}
    return resolved.replace(
        limits=resolved.limits.replace(**values),
        held_defaults=fields,
        requires=resolved.requires | {_FEATURES[field] for field in fields},
    )
