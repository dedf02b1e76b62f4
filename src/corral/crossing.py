"""Crossing: the border of a launch whose connections corral makes itself."""

from __future__ import annotations

from corral.model.launch import Front

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.network.border import Border
    from corral.network.options import NetworkOptions
    from corral.sandbox import Explanation


def open_crossing(
    explanation: Explanation, options: NetworkOptions | None
) -> tuple[Explanation, Border | None]:
    """What will happen, and the border that stands between it and the network; None where there is none."""
    gateway = explanation.launch.gateway
    if gateway is None:
        return explanation, None
    from corral.network.border import open_border  # most runs have no network
    from corral.network.options import NetworkOptions

    net = explanation.plan.ground.net
    border = open_border(net, options or NetworkOptions(), addresses=gateway.addresses)
    if gateway.front is not Front.PROXY:
        return explanation, border
    from corral.backends.registry import get_backend

    plan = explanation.plan.replace(proxy=border.open_proxy())
    launch = get_backend(explanation.launch.backend).lower(plan, explanation.probe)
    return explanation.replace(plan=plan, launch=launch), border
