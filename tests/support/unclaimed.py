"""Which backends claim a feature on this host, and whether a refusal says why."""

from __future__ import annotations

from corral.backends.registry import BUILTIN, get_backend
from corral.host.real import RealHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.feature import Feature


def claiming_backends(feature: Feature) -> list[str]:
    """Names of the backends whose probe lists the feature."""
    host = RealHost()
    return [name for name in BUILTIN if feature in get_backend(name).probe(host).enforces]


def explains(refusal: str, feature: Feature, backend_name: str) -> bool:
    """Whether it names the feature, or why the backend that was asked for cannot be used here at all."""
    if backend_name in BUILTIN:
        probe = get_backend(backend_name).probe(RealHost())
        if not probe.available:
            return probe.reason in refusal
    return feature.value in refusal
