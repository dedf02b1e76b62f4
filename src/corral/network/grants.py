"""Grants: what is permitted just now: the policy, what was allowed later, and what was asked and answered."""

from __future__ import annotations

from corral.model.connection import Rules, Verdict
from corral.model.traffic import NetReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.model.endpoint import Endpoint
    from corral.model.policy import NetPolicy

#: Answers to questions that are remembered; the oldest are asked again.
_MOST_ANSWERS = 4096


class Grants:
    """Decides for one border. Deny rules, and what was revoked, beat everything else."""

    def __init__(self, net: NetPolicy) -> None:
        self._policy = Rules(net)
        self._later: list[Endpoint] = []
        self._asked: dict[Endpoint, None] = {}
        self._revoked: dict[str, None] = {}
        self._refused: dict[tuple[str, int], NetReason] = {}
        self._rules = self._policy

    def decide(self, host: str, port: int) -> Verdict:
        """Whether to connect; the reason says who permitted it."""
        verdict = self._rules.decide(host, port)
        if not verdict.allowed or self._rules is self._policy:
            return verdict
        return verdict.replace(reason=self._origin(host, port))

    def decide_lookup(self, host: str) -> Verdict:
        """Whether the name may be connected to on some port."""
        return self._rules.decide_lookup(host)

    def ports(self, host: str) -> tuple[int, ...]:
        """On which ports a name is permitted."""
        return tuple(port for port in sorted(self._rules.ports) if self._rules.decide(host, port).allowed)

    @property
    def all_ports(self) -> frozenset[int]:
        return self._rules.ports

    def may_dial(self, host: str, port: int, address: str) -> bool:
        """Whether an address that a permitted name leads to may be dialled for it."""
        from corral.model.addresses import is_public_address

        return self._rules.may_dial(host, port, address, is_public=is_public_address(address))

    def allow(self, endpoint: Endpoint) -> None:
        """Permit; also what was revoked, or refused by whoever was asked."""
        self._later.append(endpoint)
        self._revoked.pop(endpoint.host, None)
        self._refused = {
            key: reason for key, reason in self._refused.items() if key != (endpoint.host, endpoint.port)
        }
        self._read_anew()

    def expire(self, endpoint: Endpoint) -> bool:
        """The time of something that was allowed is over. False if it was revoked before."""
        if endpoint not in self._later:
            return False
        self._later.remove(endpoint)  # one of them: it may have been allowed twice
        self._read_anew()
        return True

    def revoke(self, host: str) -> None:
        """Forbid a host from now on, whoever permitted it."""
        self._later = [endpoint for endpoint in self._later if endpoint.host != host]
        self._asked = {endpoint: None for endpoint in self._asked if endpoint.host != host}
        self._revoked[host] = None
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
        later = self._policy.with_endpoints(self._later).decide(host, port).allowed
        return NetReason.ALLOWED_LATER if later else NetReason.ASKED

    def _read_anew(self) -> None:
        self._rules = self._policy.with_endpoints((*self._later, *self._asked))
        self._rules.deny = (*self._policy.deny, *self._revoked)


def _remember(kept: dict[Any, Any], key: object, value: object) -> None:
    if len(kept) >= _MOST_ANSWERS:
        del kept[next(iter(kept))]
    kept[key] = value
