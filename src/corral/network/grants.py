"""Grants: what is permitted just now: the policy, what was allowed later, and what was asked and answered."""

from __future__ import annotations

from itertools import count

from corral.model.network.connection import NetVerdict, Rules
from corral.model.network.endpoint import denial_covers
from corral.model.network.traffic import NetReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.model.network.endpoint import Endpoint
    from corral.model.policy import NetPolicy

#: Answers to questions that are remembered; the oldest are asked again.
_MOST_ANSWERS = 4096


class Grants:
    """Decides for one sandbox. Deny rules beat everything else.

    INVARIANT: of a host that was revoked only that is permitted which was allowed afterwards, for as long as
    that is; what permitted it before never comes back.
    """

    def __init__(self, net: NetPolicy) -> None:
        self._policy = Rules(net)
        self._numbers = count(1)
        self._later: dict[int, Endpoint] = {}  # by when it was allowed
        self._asked: dict[Endpoint, None] = {}
        self._revoked: dict[str, int] = {}  # host patterns, and when
        self._refused: dict[tuple[str, int], NetReason] = {}
        self._rules = self._policy
        self._dialled = self._policy  # an address that was revoked may have been allowed again

    def decide(self, host: str, port: int) -> NetVerdict:
        """Whether to connect; the reason says who permitted it."""
        pattern, since = self._revoked_by(host)
        if pattern:
            return _or_denied(self._allowed_since(since).decide(host, port), pattern)
        verdict = self._rules.decide(host, port)
        if not verdict.allowed or self._rules is self._policy:
            return verdict
        return verdict.replace(reason=self._origin(host, port))

    def decide_lookup(self, host: str) -> NetVerdict:
        """Whether the name may be connected to on some port."""
        pattern, since = self._revoked_by(host)
        if pattern:
            return _or_denied(self._allowed_since(since).decide_lookup(host), pattern)
        return self._rules.decide_lookup(host)

    def ports(self, host: str) -> tuple[int, ...]:
        """On which ports a name is permitted."""
        pattern, since = self._revoked_by(host)
        rules = self._allowed_since(since) if pattern else self._rules
        return tuple(port for port in sorted(rules.ports) if rules.decide(host, port).allowed)

    @property
    def all_ports(self) -> frozenset[int]:
        return self._rules.ports

    def later(self) -> dict[int, Endpoint]:
        """What was allowed since the beginning and still is, by the numbers of `allow`."""
        return dict(self._later)

    def revoked(self) -> tuple[str, ...]:
        """Hosts that were revoked, in that order."""
        return tuple(self._revoked)

    def may_dial(self, host: str, port: int, address: str) -> bool:
        """Whether an address that a permitted name leads to may be dialled for it."""
        from corral.model.network.addresses import address_forms, is_public_address
        from corral.network.dial import is_own_address

        for form in address_forms(address):
            if form in self._revoked and not self.decide(form, port).allowed:
                return False
        is_public = is_public_address(address) and not is_own_address(address)
        return self._dialled.may_dial(host, port, address, is_public=is_public)

    def allow(self, endpoint: Endpoint) -> int:
        """Permit; also what was revoked, or refused by whoever was asked. The number is for `expire`."""
        number = next(self._numbers)
        self._later[number] = endpoint
        self._refused = {
            key: reason for key, reason in self._refused.items() if key != (endpoint.host, endpoint.port)
        }
        self._read_anew()
        return number

    def expire(self, number: int) -> bool:
        """The time of something that was allowed is over. False if it was revoked before."""
        if self._later.pop(number, None) is None:
            return False
        self._read_anew()
        return True

    def revoke(self, host: str) -> None:
        """Forbid a host from now on, whoever permitted it."""
        self._later = {number: one for number, one in self._later.items() if one.host != host}
        self._asked = {endpoint: None for endpoint in self._asked if endpoint.host != host}
        self._revoked[host] = next(self._numbers)
        self._read_anew()

    def answer(self, endpoint: Endpoint, reason: NetReason) -> None:
        """Remember what somebody who was asked has said."""
        if reason is NetReason.ASKED:
            _remember(self._asked, endpoint, None)
            self._read_anew()
        else:
            _remember(self._refused, (endpoint.host, endpoint.port), reason)

    def refusal(self, host: str, port: int) -> NetReason | None:
        """What was answered, if it was no."""
        return self._refused.get((host, port))

    def _origin(self, host: str, port: int) -> NetReason:
        if self._policy.decide(host, port).allowed:
            return NetReason.GRANTED
        later = self._policy.with_endpoints(self._later.values()).decide(host, port).allowed
        return NetReason.ALLOWED_LATER if later else NetReason.ASKED

    def _read_anew(self) -> None:
        self._dialled = self._policy.with_endpoints((*self._later.values(), *self._asked))
        self._rules = self._dialled.with_denied(self._revoked)

    def _revoked_by(self, host: str) -> tuple[str, int]:
        """The pattern by which a host was revoked last, and when; nothing if it was not."""
        found = [(when, pattern) for pattern, when in self._revoked.items() if denial_covers(pattern, host)]
        when, pattern = max(found, default=(0, ""))
        return pattern, when

    def _allowed_since(self, when: int) -> Rules:
        return self._policy.only(one for number, one in self._later.items() if number > when)


def _or_denied(verdict: NetVerdict, pattern: str) -> NetVerdict:
    """Nobody is asked about what was revoked."""
    if verdict.allowed:
        return verdict.replace(reason=NetReason.ALLOWED_LATER)
    if verdict.reason is NetReason.DENIED:
        return verdict
    return NetVerdict(False, NetReason.DENIED, rule=pattern)


def _remember(kept: dict[Any, Any], key: object, value: object) -> None:
    if len(kept) >= _MOST_ANSWERS:
        del kept[next(iter(kept))]
    kept[key] = value
