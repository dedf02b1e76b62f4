"""Derive the features that a policy requires: what must be enforced, or the command does not run."""

from __future__ import annotations

from corral.model.feature import Feature
from corral.model.policy import WEB, FsAccess, NetMode
from corral.planning.resolve import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from corral.model.plan import Grant
    from corral.model.policy import Limits, NetPolicy, Policy

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
_LIMITS = {
    "wall_seconds": Feature.LIMIT_WALL,
    "memory_bytes": Feature.LIMIT_MEMORY,
    "cpus": Feature.LIMIT_CPU,
    "cpu_seconds": Feature.LIMIT_CPU_TIME,
    "pids": Feature.LIMIT_PIDS,
    "output_bytes": Feature.LIMIT_OUTPUT,
    "file_size_bytes": Feature.LIMIT_FILE_SIZE,
    "open_files": Feature.LIMIT_OPEN_FILES,
    "disk_bytes": Feature.LIMIT_DISK,
}


def required_features(
    policy: Policy, grants: Collection[Grant], *, private: bool, denied: bool
) -> frozenset[Feature]:
    """Everything that a backend must enforce for this policy to hold."""
    features = set(_ALWAYS) | _network(policy.net) | _limits(policy.limits)
    if private:
        features.add(Feature.FS_PRIVATE)
    writable = [grant.target.path for grant in grants if grant.access is FsAccess.WRITE]
    readable = [grant.target.path for grant in grants if grant.access is FsAccess.READ]
    narrowed = any(is_beneath(path, root) for path in readable for root in writable)
    if denied or narrowed:
        features.add(Feature.FS_DENY)
    if policy.protect and writable:
        features.add(Feature.FS_PROTECT)
    if not policy.spawn:
        features.add(Feature.PROC_SINGLE)
    return frozenset(features)


def _network(net: NetPolicy) -> set[Feature]:
    match net.mode:
        case NetMode.NONE:
            return {Feature.NET_NONE}
        case NetMode.LIMITED:
            named = net.deny or not net.allow <= WEB
            return {Feature.NET_PORTS, *([Feature.NET_DOMAINS] if named else [])}
        case NetMode.FULL:  # everything but what is denied
            return {Feature.NET_DOMAINS} if net.deny else set()


def _limits(limits: Limits) -> set[Feature]:
    return {feature for field, feature in _LIMITS.items() if getattr(limits, field) is not None}
