"""Crossing: the border of a launch whose connections corral makes itself."""

from __future__ import annotations

from corral.model.errors import SetupError
from corral.model.launch import Front

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.model.plan import Plan
    from corral.network.border import Border
    from corral.network.options import NetworkOptions
    from corral.planner import Explanation


class Crossing:
    """What is launched, and the border between it and the network; None where there is nothing to cross."""

    def __init__(self, plan: Plan, launch: Launch, border: Border | None = None) -> None:
        self.plan, self.launch, self.border = plan, launch, border


def open_crossing(
    explanation: Explanation, options: NetworkOptions | None, border: Border | None = None
) -> Crossing:
    """Open the border that a launch asks for, or use one that is there. Whoever runs the launch closes it."""
    plan, launch = explanation.plan, explanation.launch
    gateway = launch.gateway
    if gateway is None:
        return Crossing(plan, launch)
    from corral.network.opening import open_border  # most runs have no network
    from corral.network.options import NetworkOptions

    limits = plan.ground.limits
    is_new = border is None
    border = border or open_border(
        plan.ground.net,
        options or NetworkOptions(),
        addresses=gateway.addresses,
        most_bytes=limits.traffic_bytes,
        most_rate=limits.traffic_rate,
    )
    if gateway.front is not Front.PROXY:
        _publish(border, plan)
        return Crossing(plan, launch, border)
    from corral.backends.registry import get_backend

    try:
        told = plan.replace(proxy=border.open_proxy())
        return Crossing(told, get_backend(launch.backend).lower(told, explanation.probe), border)
    except BaseException as problem:
        if is_new:
            border.close()
        if isinstance(problem, OSError):
            raise _no_proxy(problem) from problem
        raise


def _publish(border: Border, plan: Plan) -> None:
    if not plan.ground.published:
        return
    try:
        border.publish(plan.ground.published)
    except OSError as problem:
        border.close()
        ports = ", ".join(str(outside) for outside, _ in plan.ground.published)
        raise SetupError(
            "publish",
            f"localhost:{ports} cannot be used to publish a server",
            why=problem.strerror or str(problem),
            fix="choose another port outside, as in --publish 8080:3000",
        ) from problem


def _no_proxy(problem: OSError) -> SetupError:
    return SetupError(
        "net",
        "the proxy of the run could not be opened",
        why=problem.strerror or str(problem),
        fix="close files that are no longer used, or raise the limit on open files",
    )
