"""What a backend says where the policy limits the network: which sockets are made, and who decides."""

from __future__ import annotations

from corral.linux.spec import MAX_PORTS, GatewayFlag, GatewaySockets
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.launch import Front, GatewayRequest
from corral.model.policy import NetMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.plan import Plan, ResolvedPolicy

#: Reserved for tests of networks (RFC 2544): no host of the Internet has one of these.
BENCHMARK_ADDRESSES = "198.18.0.0/15"
#: Where no route can be made: these are the sandbox's own without one.
LOOPBACK_ADDRESSES = "127.64.0.0/10"
#: Where no client connects: names are answered only where something is listened at (launcher/gateway.c).
_NOBODYS_PORT = 1
#: Always there: hosts may be permitted later, by whoever holds a session.
_WEB_PORTS = frozenset({80, 443})
_RULES = (Feature.NET_PORTS, Feature.NET_DOMAINS)
_CEILINGS = (Feature.LIMIT_TRAFFIC, Feature.LIMIT_TRAFFIC_RATE)
CLAIMS = frozenset((*_RULES, *_CEILINGS))
#: For images, whose own says nothing of it.
RESOLVER = b"nameserver 127.0.0.1\noptions timeout:5 attempts:2\n"
_MECHANISM = "net namespace whose connections corral's gateway makes"
#: For a probe.
TRIAL = GatewaySockets((80, 443), GatewayFlag.ROUTES)


def is_limited(resolved: ResolvedPolicy) -> bool:
    """Whether connections leave to some places and not to others."""
    return resolved.net.mode is NetMode.LIMITED


def has_sockets(resolved: ResolvedPolicy) -> bool:
    """Whether connections are made for the command, or to it."""
    return is_limited(resolved) or bool(resolved.published)


def sockets(
    resolved: ResolvedPolicy, flags: GatewayFlag = GatewayFlag.ROUTES, *, observes: bool = False
) -> GatewaySockets | None:
    """The sockets that the launcher makes; None where there is no use for any.

    `observes`: there is no network, and what was asked for is to be told.
    """
    publish = GatewayFlag.PUBLISH if resolved.published else GatewayFlag(0)
    if observes:
        return GatewaySockets((_NOBODYS_PORT,), flags)
    if not is_limited(resolved):
        return GatewaySockets((), publish) if publish else None
    from corral.model.network.connection import Rules  # most runs have no network

    ports = tuple(sorted(Rules(resolved.net).ports | _WEB_PORTS))
    if len(ports) > MAX_PORTS:
        raise UnenforceableError(
            "unenforceable",
            f"the policy permits {len(ports)} different ports",
            why=f"corral's gateway listens at {MAX_PORTS} ports at most",
            fix="name fewer ports, or grant `network:full`",
            lacking=CLAIMS,
        )
    return GatewaySockets(ports, flags | publish)


def request(
    resolved: ResolvedPolicy, addresses: str = BENCHMARK_ADDRESSES, *, observes: bool = False
) -> GatewayRequest | None:
    """What the runner is asked for; None where there are no sockets."""
    return GatewayRequest(Front.SOCKETS, addresses) if has_sockets(resolved) or observes else None


def refuse_published(resolved: ResolvedPolicy, backend: str) -> None:
    """For a backend in which servers listen on the host's own network, or nowhere."""
    if resolved.published:
        raise UnenforceableError(
            "unenforceable",
            f"{backend} cannot publish a port",
            why="its commands have no separate network",
            fix="use --backend native, or leave network:publish out",
            lacking=frozenset(),
        )


def mechanisms(plan: Plan, text: str = _MECHANISM) -> dict[Feature, str]:
    """Who holds what is said about the network, where it is limited."""
    if not is_limited(plan.resolved):
        return {}
    return {**dict.fromkeys(_RULES, text), **dict.fromkeys(_CEILINGS, "corral's gateway counts")}
