"""NetworkedLaunch: a launch, and the network of it whose connections corral makes itself."""

from __future__ import annotations

from corral.model.errors import SetupError
from corral.model.launch import Front
from corral.model.policy import Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.model.plan import Plan, ProxyPlace
    from corral.model.probe import Probe
    from corral.network.observer import RefusalObserver
    from corral.network.options import NetworkOptions
    from corral.network.sandbox_network import GatewayNetwork
    from corral.pipeline.planner import Explanation


class NetworkedLaunch:
    """What is launched, and its network; None where corral makes no connection for it.

    Without any, an `observer` may hear of what was asked for all the same.
    """

    def __init__(
        self,
        plan: Plan,
        launch: Launch,
        network: GatewayNetwork | None = None,
        observer: RefusalObserver | None = None,
    ) -> None:
        self.plan, self.launch, self.network, self.observer = plan, launch, network, observer


class Opening:
    """The network of one launch: opened while it is planned, where its proxy is part of the launch, or after.

    It may have been there before: a kept sandbox hands its network on to the next one of the same backend.
    """

    def __init__(
        self,
        options: NetworkOptions | None,
        inherited: GatewayNetwork | None = None,
        backend: str = "",
        *,
        observes: bool = False,
    ) -> None:
        self._options = options
        self.observes = observes  # of a run without a network: what it asked for
        self._inherited, self._of = inherited, backend
        self._opened: GatewayNetwork | None = None
        self._for = ""  # the backend it was opened for

    def proxy(self, plan: Plan, probe: Probe) -> ProxyPlace:
        """Where the programs of a sandbox find their proxy. For `Planner.explain`."""
        from corral.network.opening import RANGE

        network = self._open(plan, probe.backend, RANGE)
        try:
            return network.open_proxy()
        except OSError as problem:
            raise _no_proxy(problem) from problem

    def finish(self, explanation: Explanation) -> NetworkedLaunch:
        """What is launched. Whoever runs it closes its network."""
        plan, launch = explanation.plan, explanation.launch
        if launch.gateway is None:
            self.abandon()
            return NetworkedLaunch(plan, launch)
        if plan.observes:
            from corral.network.observer import RefusalObserver

            throttles = plan.policy.response is Response.THROTTLE
            return NetworkedLaunch(plan, launch, observer=RefusalObserver(throttles=throttles))
        network = self._open(plan, launch.backend, launch.gateway.addresses)
        if launch.gateway.front is not Front.PROXY and plan.resolved.published:
            _publish(network, plan)
        return NetworkedLaunch(plan, launch, network)

    def abandon(self) -> None:
        """There is no launch, or one without this network. One that was there before stays."""
        if self._opened is not None:
            self._opened.close()
        self._opened, self._for = None, ""

    def _open(self, plan: Plan, backend: str, addresses: str) -> GatewayNetwork:
        if self._inherited is not None and backend == self._of:
            return self._inherited
        if self._opened is not None and backend == self._for:
            return self._opened
        self.abandon()  # another backend could not hold this very plan after all
        from corral.network.opening import open_sandbox_network  # most runs have no network
        from corral.network.options import NetworkOptions

        limits = plan.resolved.limits
        self._opened, self._for = (
            open_sandbox_network(
                plan.resolved.net,
                self._options or NetworkOptions(),
                addresses=addresses,
                most_bytes=limits.traffic_bytes,
                most_rate=limits.traffic_rate,
                throttles=plan.policy.response is Response.THROTTLE,
            ),
            backend,
        )
        return self._opened


def _publish(network: GatewayNetwork, plan: Plan) -> None:
    try:
        network.publish(plan.resolved.published)
    except OSError as problem:
        ports = ", ".join(str(outside) for outside, _ in plan.resolved.published)
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
