"""Open a sandbox's network: the gateway is entered, and left again if that fails."""

from __future__ import annotations

from corral.network.gateway import enter, leave
from corral.network.grants import Grants
from corral.network.names import Names
from corral.network.sandbox_network import GatewayNetwork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.policy import NetPolicy
    from corral.network.options import NetworkOptions

RANGE = "198.18.0.0/15"


def open_sandbox_network(
    net: NetPolicy,
    options: NetworkOptions,
    *,
    addresses: str = RANGE,
    most_bytes: int | None = None,
    most_rate: int | None = None,
    throttles: bool = False,
) -> GatewayNetwork:
    """A network without any socket yet. It has to be closed."""
    names = Names(addresses)
    options = options.replace(
        checks_names=options.checks_names and not net.fronting, throttles=throttles or options.throttles
    )
    grants = Grants(net)
    gateway = enter()
    try:
        return GatewayNetwork(gateway, grants, names, options, most_bytes=most_bytes, most_rate=most_rate)
    except BaseException:
        leave()
        raise
