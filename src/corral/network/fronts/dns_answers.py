"""Answer lookups: a synthetic address for what is permitted, "no such name" for everything else.

INVARIANT: no query leaves the machine for a name that is not permitted.
"""

from __future__ import annotations

from corral.model.launch import HOSTNAME
from corral.model.network.endpoint import is_address, is_localhost
from corral.model.network.traffic import NetAction, NetEvent, NetReason
from corral.network.wire.dns import answer, answer_failure, answer_malformed, answer_nxdomain, parse_query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.network.lookups import LookupOutcome
    from corral.network.sandbox_network import GatewayNetwork
    from corral.network.tally import Tally
    from corral.network.wire.dns import Query

    Reply = Callable[[bytes | None], None]

#: Shorter than addresses are kept: a program that goes by it asks before they are forgotten.
_TTL = 30
_A, _AAAA = 1, 28
_LOOPBACK = ("127.0.0.1", "::1")


def answer_packet(network: GatewayNetwork, packet: bytes, reply: Reply) -> None:
    """`reply` is called once, now or later."""
    query = parse_query(packet)
    if query is None:
        reply(answer_malformed(packet))
    elif (of_itself := _answer_of_itself(query)) is not None:
        reply(of_itself)
    else:
        _answer_name(network, query, reply)


def answer_refused(tally: Tally, packet: bytes) -> bytes | None:
    """What to say where no name is permitted; what was asked for is counted."""
    query = parse_query(packet)
    if query is None:
        return answer_malformed(packet)
    of_itself = _answer_of_itself(query)
    if of_itself is not None:
        return of_itself
    tally.record(NetEvent(NetAction.LOOKUP, False, NetReason.NOT_GRANTED, query.name), kind=query.kind)
    return answer_nxdomain(query)


def _answer_of_itself(query: Query) -> bytes | None:
    """The answer to what is asked about the sandbox itself, or about nothing that has a name."""
    name = query.name
    if is_localhost(name) or name == HOSTNAME:
        return answer(query, _LOOPBACK, ttl=_TTL)
    if not name or is_address(name) or name == "arpa" or name.endswith(".arpa"):
        return answer_nxdomain(query)  # what no command connects to is worth no event
    return None


def _answer_name(network: GatewayNetwork, query: Query, reply: Reply) -> None:
    name = query.name
    verdict = network.grants.decide_lookup(name)
    if verdict.allowed:
        if query.kind in {_A, _AAAA}:
            network.lookups.find(name, lambda outcome: _finish(network, query, outcome, reply))
        else:
            reply(answer(query, (), ttl=_TTL))
    elif verdict.reason is not NetReason.DENIED and network.questions is not None:
        # The first connection asks. Until then nobody knows whether the name exists.
        reply(answer(query, (network.names.give(name).address,), ttl=_TTL))
    else:
        _tell(network, query, verdict.reason, rule=verdict.rule)
        reply(answer_nxdomain(query))


def _finish(network: GatewayNetwork, query: Query, outcome: LookupOutcome, reply: Reply) -> None:
    if outcome.reason is NetReason.GRANTED:
        verdict = network.grants.decide_lookup(query.name)
        _tell(network, query, NetReason.GRANTED, is_allowed=True, rule=verdict.rule)
        entry = network.names.give(query.name)
        more = (network.names.in_ipv6(entry.address),) if entry.has_ipv6() else ()
        reply(answer(query, (entry.address, *more), ttl=_TTL))
        return
    _tell(network, query, outcome.reason, detail=outcome.detail, address=outcome.address)
    reply(answer_failure(query) if outcome.has_failed else answer_nxdomain(query))


def _tell(
    network: GatewayNetwork,
    query: Query,
    reason: NetReason,
    *,
    is_allowed: bool = False,
    rule: str = "",
    detail: str = "",
    address: str = "",
) -> None:
    event = NetEvent(
        NetAction.LOOKUP, is_allowed, reason, query.name, address=address, rule=rule, detail=detail
    )
    network.tally.record(event, kind=query.kind)
