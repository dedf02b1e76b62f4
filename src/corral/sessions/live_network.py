"""Live: the network of a session while it is in use: who may be reached from now on, and what has passed."""

from __future__ import annotations

from corral.model.arguments import wrong_argument
from corral.model.errors import PolicyError
from corral.model.launch import Front
from corral.model.network.breadth import why_too_broad
from corral.model.network.connection import Rules
from corral.model.network.endpoint import Endpoint, has_port, host_in_url, parse_endpoint, parse_host
from corral.model.network.traffic import LiveGrants, NetReason, Traffic
from corral.model.policy import NetMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.model.network.sandbox_network import SandboxNetwork
    from corral.model.plan import Plan

_SCHEMES = ("http", "https", "tcp")


class LiveNetwork:
    """What the holder of a session may change about its network. It ends with the session, and by `reset`."""

    def __init__(self, plan: Plan, launch: Launch, network: SandboxNetwork | None) -> None:
        self._net = plan.resolved.net
        self._network = network
        gateway = launch.gateway
        # Sockets inside are there from the beginning, at these ports and no others.
        self._ports = (
            Rules(self._net).ports | {80, 443} if gateway and gateway.front is Front.SOCKETS else None
        )

    def allow(self, host: str, *, for_seconds: float | None = None) -> None:
        """Permit a host: `api.example.com` by http and https, `db.example.com:5432`, `https:api.example.com`.

        After `for_seconds` that is over, and so are the connections which rest on it. What the policy denies
        stays denied. Raises PolicyError if it cannot be.
        """
        network = self._opened()
        if not (for_seconds is None or (_is_number(for_seconds) and for_seconds > 0)):
            raise _mistake(f"{for_seconds!r} is not a positive duration", "give a number of seconds, or none")
        for endpoint in _read(host):
            verdict = Rules(self._net).decide(endpoint.host, endpoint.port)
            if verdict.reason is NetReason.DENIED:
                raise _mistake(f"the policy denies {verdict.rule}", "take the denial out of the policy")
            if self._ports is not None and endpoint.port not in self._ports:
                raise _mistake(
                    f"the sandbox was made without port {endpoint.port}",
                    f"name a host with that port in the policy: its ports are {_list(self._ports)}",
                )
            network.allow(endpoint, for_seconds)

    def revoke(self, host: str) -> None:
        """Forbid a host from now on, whoever has permitted it, and end the connections to it."""
        if not isinstance(host, str):
            raise wrong_argument("host", host, "a text", "session.network.revoke('api.example.com')")
        try:
            name = parse_host(host_in_url(host) or host)
        except ValueError as problem:
            raise _mistake(str(problem), "give the name of a host, without a port") from problem
        self._opened().revoke(name)

    def permitted(self) -> tuple[str, ...]:
        """What the policy itself permits: endpoints, such as `https:api.example.com`."""
        return tuple(sorted(self._net.allow))

    def changes(self) -> LiveGrants:
        """What `allow` and `revoke` have changed about that, as it holds now."""
        return self._opened("cannot show what this session may reach").live_grants()

    def traffic(self) -> Traffic:
        """What was asked of the network until now, and how much has passed."""
        return self._network.traffic() if self._network is not None else Traffic()

    def _opened(self, what: str = "cannot change the network of this session") -> SandboxNetwork:
        if self._network is None or self._net.mode is not NetMode.LIMITED:
            raise PolicyError(
                "network-closed",
                what,
                why=f"its network is `{self._net.mode.value}`: {_CLOSED[self._net.mode]}",
                fix="start a session whose policy names hosts (`--allow HOST`), or has `network:limited`",
            )
        return self._network


_CLOSED = {
    NetMode.NONE: "it reaches no host",
    NetMode.FULL: "connections do not pass through corral",
    NetMode.LIMITED: "its sandbox has none yet",
}


def _read(host: str) -> tuple[Endpoint, ...]:
    """What a host stands for, by the rules of `--allow`; whoever means more writes an endpoint."""
    if not isinstance(host, str):
        raise wrong_argument("host", host, "a text", "session.network.allow('api.example.com')")
    within = host_in_url(host)
    if within:
        raise _mistake(f"{host!r} is a URL, and what is permitted is a host", f"give its host: {within}")
    scheme, _, target = host.partition(":")
    try:
        if scheme in _SCHEMES and target and not target.isdigit():
            return (parse_endpoint(scheme, target),)
        schemes = ("tcp",) if has_port(host) else ("http", "https")
        found = tuple(parse_endpoint(each, host) for each in schemes)
    except ValueError as problem:
        raise _mistake(
            str(problem), "give a name, such as api.example.com or db.example.com:5432"
        ) from problem
    why = why_too_broad(found[0].host)
    if why:
        raise _mistake(why, f"name the hosts; if you mean it, write {schemes[-1]}:{host}")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list(ports: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(ports)))


def _mistake(why: str, fix: str) -> PolicyError:
    return PolicyError("network-closed", "cannot change the network of this session", why=why, fix=fix)
