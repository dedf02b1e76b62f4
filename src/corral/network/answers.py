"""Answer lookups: a synthetic address for what is permitted, "no such name" for everything else.

INVARIANT: no query leaves the machine for a name that is not permitted.
"""

from __future__ import annotations

from corral.model.endpoint import is_address, is_localhost
from corral.model.launch import HOSTNAME
from corral.model.traffic import NetAction, NetEvent, NetReason
from corral.network.dns import answer, answer_failure, answer_malformed, answer_nxdomain, parse_query

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.network.border import Border
    from corral.network.dns import Query
    from corral.network.lookups import Outcome

    Reply = Callable[[bytes | None], None]

#: Shorter than addresses are kept: a program that goes by it asks before they are forgotten.
_TTL = 30
_A, _AAAA = 1, 28
_LOOPBACK = ("127.0.0.1", "::1")


def answer_packet(border: Border, packet: bytes, reply: Reply) -> None:
    """`reply` is called once, now or later."""
    query = parse_query(packet)
    if query is None:
        reply(answer_malformed(packet))
        return
    name = query.name
    if is_localhost(name) or name == HOSTNAME:  # the sandbox itself
        reply(answer(query, _LOOPBACK, ttl=_TTL))
    elif not name or is_address(name) or name == "arpa" or name.endswith(".arpa"):
        reply(answer_nxdomain(query))  # what no command connects to is worth no event
    else:
        _answer_name(border, query, reply)


def _answer_name(border: Border, query: Query, reply: Reply) -> None:
    name = query.name
    verdict = border.grants.decide_lookup(name)
    if verdict.allowed:
        if query.kind in {_A, _AAAA}:
            border.lookups.find(name, lambda outcome: _finish(border, query, outcome, reply))
        else:
            reply(answer(query, (), ttl=_TTL))
    elif verdict.reason is not NetReason.DENIED and border.questions is not None:
        # The first connection asks. Until then nobody knows whether the name exists.
        reply(answer(query, (border.names.give(name).address,), ttl=_TTL))
    else:
        _tell(border, query, verdict.reason, rule=verdict.rule)
        reply(answer_nxdomain(query))


def _finish(border: Border, query: Query, outcome: Outcome, reply: Reply) -> None:
    if outcome.reason is NetReason.GRANTED:
        verdict = border.grants.decide_lookup(query.name)
        _tell(border, query, NetReason.GRANTED, is_allowed=True, rule=verdict.rule)
        entry = border.names.give(query.name)
        more = (border.names.in_ipv6(entry.address),) if entry.has_ipv6() else ()
        reply(answer(query, (entry.address, *more), ttl=_TTL))
        return
    _tell(border, query, outcome.reason, detail=outcome.detail, address=outcome.address)
    reply(answer_failure(query) if outcome.has_failed else answer_nxdomain(query))


def _tell(
    border: Border,
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
    border.tally.record(event, kind=query.kind)
