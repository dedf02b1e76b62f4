"""Clients that would try again for a minute what was refused at once are told not to wait.

npm tries again whatever the name server answers (ENOTFOUND as well), and waits 10 and then 60 seconds in
between; pip and cargo wait some ten. Variables are the one thing that all of them listen to.
"""

from __future__ import annotations

from corral.model.feature import Feature
from corral.model.policy import NetMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.policy import Policy

#: Without a network nothing is different the next time.
_NEVER = {"npm_config_fetch_retries": "0", "PIP_RETRIES": "0", "CARGO_NET_RETRY": "0"}
#: What is permitted may fail by chance, so it is tried as often as ever, and sooner: after 1 and 5 seconds.
_SOONER = {"npm_config_fetch_retry_mintimeout": "1000", "npm_config_fetch_retry_maxtimeout": "5000"}

_WALLS = {Feature.NET_NONE, Feature.NET_PORTS, Feature.NET_DOMAINS}


def retry_variables(policy: Policy, waived: frozenset[Feature]) -> dict[str, str]:
    """What the command's environment says about it, but for what the user has a say in by name."""
    if policy.net.mode is NetMode.FULL or waived & _WALLS:
        return {}
    wanted = _NEVER if policy.net.mode is NetMode.NONE else _SOONER
    return {name: value for name, value in wanted.items() if not policy.env.passes(name)}
