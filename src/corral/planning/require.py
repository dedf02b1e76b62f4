"""Derive the features that a policy requires: what must be enforced, or the command does not run."""

from __future__ import annotations

from corral.model.errors import PolicyError
from corral.model.feature import PROMISES, Feature
from corral.model.policy import WEB, FsAccess, NetMode, Response
from corral.model.rules.capability import LIMIT_FIELDS
from corral.model.rules.pattern import is_pattern
from corral.planning.resolve import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from corral.model.plan import Grant
    from corral.model.policy import Limits, NetPolicy, Policy
    from corral.model.rules.capability import Capability

_ALWAYS = frozenset(
    {
        Feature.FS_READ,
        Feature.FS_WRITE,
        Feature.FS_METADATA,
        Feature.PROC_HIDDEN,
        Feature.PROC_SHIELDED,
        Feature.PROC_CONTAINED,
        Feature.IPC_PRIVATE,
        Feature.PRIVILEGES,
        Feature.SYSCALLS,
        Feature.ENVIRONMENT,
        Feature.DESCRIPTORS,
        Feature.TERMINAL,
    }
)
_OF_TRAFFIC = frozenset({Feature.LIMIT_TRAFFIC, Feature.LIMIT_TRAFFIC_RATE})
#: What each kind and verb needs. Nothing: the clause gives, and there is nothing to hold.
_CLAUSES: dict[tuple[str, str], tuple[Feature, ...]] = {
    ("filesystem", "read"): (Feature.FS_READ,),
    ("filesystem", "write"): (Feature.FS_WRITE,),
    ("filesystem", "deny"): (Feature.FS_DENY,),
    ("filesystem", "private"): (Feature.FS_PRIVATE,),
    ("filesystem", "protect"): (Feature.FS_PROTECT,),
    ("filesystem", "tools"): (Feature.FS_READ,),
    ("network", "none"): (Feature.NET_NONE,),
    ("network", "limited"): (Feature.NET_PORTS,),
    ("network", "full"): (),
    ("network", "http"): (Feature.NET_PORTS, Feature.NET_DOMAINS),
    ("network", "https"): (Feature.NET_PORTS, Feature.NET_DOMAINS),
    ("network", "tcp"): (Feature.NET_PORTS, Feature.NET_DOMAINS),
    ("network", "deny"): (Feature.NET_DOMAINS,),
    ("network", "fronting"): (),
    ("network", "publish"): (),
    ("memory", "limit"): (Feature.LIMIT_MEMORY,),
    ("cpu", "limit"): (Feature.LIMIT_CPU,),
    ("cpu", "time"): (Feature.LIMIT_CPU_TIME,),
    ("pids", "limit"): (Feature.LIMIT_PIDS,),
    ("memory", "default"): (Feature.LIMIT_MEMORY,),  # these three only where the backend holds them
    ("cpu", "default"): (Feature.LIMIT_CPU,),
    ("pids", "default"): (Feature.LIMIT_PIDS,),
    ("time", "limit"): (Feature.LIMIT_WALL,),
    ("output", "limit"): (Feature.LIMIT_OUTPUT,),
    ("file", "limit"): (Feature.LIMIT_FILE_SIZE,),
    ("files", "limit"): (Feature.LIMIT_OPEN_FILES,),
    ("disk", "limit"): (Feature.LIMIT_DISK,),
    ("disk", "files"): (Feature.LIMIT_DISK_FILES,),
    ("traffic", "limit"): (Feature.LIMIT_TRAFFIC,),
    ("traffic", "rate"): (Feature.LIMIT_TRAFFIC_RATE,),
    ("env", "pass"): (Feature.ENVIRONMENT,),
    ("env", "set"): (Feature.ENVIRONMENT,),
    ("process", "spawn"): (),
    ("process", "none"): (Feature.PROC_SINGLE,),
    ("process", "debug"): (),
    ("syscall", "deny"): (Feature.SYSCALLS,),
    ("module", "call"): (),  # a native command can call none
    ("feature", "require"): (),  # what it names
    **dict.fromkeys((("refusal", response.value) for response in Response), ()),  # the runner's own doing
}


def features_of(clause: Capability) -> tuple[Feature, ...]:
    """What one clause needs by itself, whatever else its policy says."""
    if clause.kind == "feature":
        return (Feature(clause.target),)
    if clause.kind == "network" and f"{clause.verb}:{clause.target}" in WEB:
        return (Feature.NET_PORTS,)  # every name: only the ports are bounded
    return _CLAUSES[clause.kind, clause.verb]


def required_features(
    policy: Policy, grants: Collection[Grant], *, private: bool, denied: bool
) -> frozenset[Feature]:
    """Everything that a backend must enforce for this policy to hold."""
    features = set(_ALWAYS) | _network(policy.net) | _limits(policy.limits)
    if policy.net.mode is NetMode.NONE:
        features -= _OF_TRAFFIC  # there is none
    elif policy.net.mode is NetMode.FULL and features & _OF_TRAFFIC:
        features = features - _OF_TRAFFIC | {Feature.NET_EXCEPT}
    if private:
        features.add(Feature.FS_PRIVATE)
    writable = [grant.target.path for grant in grants if grant.access is FsAccess.WRITE]
    readable = [grant.target.path for grant in grants if grant.access is FsAccess.READ]
    narrowed = any(is_beneath(path, root) for path in readable for root in writable)
    if denied or narrowed:
        features.add(Feature.FS_DENY)
    reads = any(rule.access is FsAccess.READ and is_pattern(rule.path) for rule in policy.fs)
    if writable and (policy.protect or reads or any(map(is_pattern, policy.read_only))):
        features.add(Feature.FS_PROTECT)
    if not policy.spawn:
        features.add(Feature.PROC_SINGLE)
    return frozenset(features)


#: Held only for who requires it by name. Nobody but root has commands that are root.
_OF_ROOT = frozenset({Feature.PROC_IDENTITY})


def with_named(
    policy: Policy, derived: frozenset[Feature], defaults: Iterable[str], *, is_root: bool
) -> frozenset[Feature]:
    """What follows from the policy, and the features that it requires by name.

    A default, of these fields, is a limit that a command can run without; required by name, it cannot.
    Raises PolicyError for a feature that would have nothing to hold: nobody could say that it is enforced.
    """
    limits = (_CLAUSES[clause] for clause, field in LIMIT_FIELDS.items() if field in defaults)
    held = derived.union(_OF_ROOT if is_root else (), *limits)
    for name in sorted(policy.requires):
        if name not in held:
            raise PolicyError(
                "contradiction",
                f"{name} is required, and the policy has nothing for it to hold",
                why=f"it promises that {PROMISES[Feature(name)]}; nothing else in the policy asks for that",
                fix="add what is to be held (a limit, a denied path, ...), or leave the requirement out",
            )
    return derived | {Feature(name) for name in policy.requires}


def _network(net: NetPolicy) -> set[Feature]:
    match net.mode:
        case NetMode.NONE:
            return {Feature.NET_NONE}
        case NetMode.LIMITED:
            named = net.deny or not net.allow <= WEB
            return {Feature.NET_PORTS, *([Feature.NET_DOMAINS] if named else [])}
        case NetMode.FULL:  # everything but what is denied
            return {Feature.NET_EXCEPT} if net.deny else set()


def _limits(limits: Limits) -> set[Feature]:
    return {
        feature
        for clause, field in LIMIT_FIELDS.items()
        if getattr(limits, field) is not None
        for feature in _CLAUSES[clause]
    }
