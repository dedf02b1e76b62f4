"""Which backends claim a feature on this host."""

from __future__ import annotations

from corral.backends.registry import BUILTIN, get_backend
from corral.host import RealHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.feature import Feature


def claiming_backends(feature: Feature) -> list[str]:
    """Names of the backends whose probe lists the feature."""
    host = RealHost()
    return [name for name in BUILTIN if feature in get_backend(name).probe(host).enforces]
