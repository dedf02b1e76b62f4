"""Contradictions: hosts that were named for nothing, because all of the network is permitted, or none of it.

Each capability by itself has a meaning, and later ones win; but whoever names a host wants that host and no
others, and must not get every one of them without a word.
"""

from __future__ import annotations

from corral.model.errors import PolicyError
from corral.model.policy import NetMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.policy import NetPolicy
    from corral.model.rules.capability import Capability

PERMITS = {NetMode.NONE: "nothing", NetMode.LIMITED: "every public host", NetMode.FULL: "every host"}
_SCHEMES = frozenset({"http", "https", "tcp"})


def first_lost(net: NetPolicy, capabilities: Iterable[Capability]) -> Capability | None:
    """The first of the capabilities that names a host and has no effect in a policy that was made of them."""
    for capability in capabilities:
        named = capability.kind == "network" and capability.verb in _SCHEMES
        if named and f"{capability.verb}:{capability.target}" not in net.allow:
            return capability
    return None


def contradicts(mode: NetMode, said: str, host_said: str, fix: str) -> PolicyError:
    """`said` gives the mode of the network, `host_said` names a host, in the words of whoever said it."""
    return PolicyError(
        "contradiction",
        f"{said} and {host_said} contradict each other",
        why=f"{said} permits {PERMITS[mode]}, and {host_said} permits the hosts that it names and no others",
        fix=fix,
    )
