"""`corral session allow`, `revoke` and `network`: who may be reached from a named session, and who was."""

from __future__ import annotations

from corral.cli.session.exec import seconds
from corral.cli.session.here import name_or_default
from corral.cli.stats import approximate
from corral.model.network.endpoint import denial_covers, read_endpoint
from corral.model.network.traffic import FAILURES, SENTENCES, NetReason
from corral.model.rules.quantities import format_duration
from corral.sessions.named.client import call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from corral.cli.policy.show import Answer


def allow_host(host: str, name: str | None, length: str | None) -> Answer:
    """Permit a host from now on, for a time or until the session ends."""
    limit = None if length is None else seconds("--for", length)
    heard = _ask(name := name_or_default(name), "allow", host=host, seconds=limit)
    until = "until it ends" if limit is None else f"for {format_duration(limit)}"
    return 0, [f"{host} may be reached from {name}, {until}"], _facts(name, heard)


def revoke_host(host: str, name: str | None) -> Answer:
    """Forbid a host from now on, whoever permitted it."""
    heard = _ask(name := name_or_default(name), "revoke", host=host)
    return 0, [f"{host} may not be reached from {name} any more"], _facts(name, heard)


def show_network(name: str | None) -> Answer:
    """What is permitted, what was asked for, and what was refused."""
    heard = _ask(name := name_or_default(name), "network")
    facts = _facts(name, heard)
    return 0, list(_lines(facts)), facts


def _ask(name: str, operation: str, **fields: object) -> dict[str, Any]:
    with call(name) as connection:
        return connection.ask(operation, **fields)


def _facts(name: str, heard: dict[str, Any]) -> dict[str, Any]:
    allowed = [{"endpoint": endpoint, "seconds_left": left} for endpoint, left in heard["allowed"]]
    known = {key: heard[key] for key in ("permitted", "revoked", "traffic")}
    return {"session": name, "allowed": allowed, **known}


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    yield "permitted"
    by_policy = [each for each in facts["permitted"] if not _is_revoked(each, facts["revoked"])]
    yield from (f"  {endpoint}  by the policy" for endpoint in by_policy)
    for one in facts["allowed"]:
        left = one["seconds_left"]
        until = "until the session ends" if left is None else f"for {format_duration(float(int(left)))} more"
        yield f"  {one['endpoint']}  {until}"
    if not by_policy and not facts["allowed"]:
        yield "  nothing"
    if facts["revoked"]:
        yield "revoked"
        yield from (f"  {host}" for host in facts["revoked"])
    yield from _asked(facts["traffic"])
    refusals = facts["traffic"]["refusals"]
    yield from _listed("refused", (each for each in refusals if each["reason"] not in FAILURES))
    yield from _listed("failed", (each for each in refusals if each["reason"] in FAILURES))


def _is_revoked(endpoint: str, revoked: list[str]) -> bool:
    """Whether nothing is left of what an endpoint of the policy permits."""
    return any(denial_covers(pattern, read_endpoint(endpoint).host) for pattern in revoked)


def _asked(traffic: dict[str, Any]) -> Iterator[str]:
    yield "asked for"
    for host in traffic["hosts"]:
        place = f"{host['host']}:{host['port']}" if host["port"] else host["host"] or "others"
        passed = f"{approximate(host['sent'])} sent, {approximate(host['received'])} received"
        counts = [f"{host[kind]} {kind}" for kind in ("connections", "refused", "failed") if host[kind]]
        yield f"  {place}  {', '.join((*counts, passed))}"
    if not traffic["hosts"]:
        yield "  nothing"


def _listed(title: str, events: Iterable[dict[str, Any]]) -> Iterator[str]:
    found = list(events)
    if found:
        yield title
    for event in found:
        place = f"{event['host']}:{event['port']}" if event["port"] else event["host"]
        yield f"  {place}  {SENTENCES[NetReason(event['reason'])]}"
