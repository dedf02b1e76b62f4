"""Decide about connections: where a policy lets a command go, by name, by port and by address. Pure."""

from __future__ import annotations

from corral.model.decision import Decision, Reason
from corral.model.network.endpoint import (
    Endpoint,
    denial_covers,
    grant_covers,
    is_address,
    is_localhost,
    read_endpoint,
)
from corral.model.network.traffic import NetReason
from corral.model.policy import NetMode
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.policy import NetPolicy


class NetVerdict(Record):
    """What the rules say about a name or an address, and a port."""

    allowed: bool
    reason: NetReason
    schemes: frozenset[str] = frozenset()  # of http, https, tcp: what may be spoken; tcp: anything
    rule: str = ""  # the endpoint or host pattern that decided


class Rules:
    """A policy's rules about the network, read once."""

    def __init__(self, net: NetPolicy) -> None:
        self.allow = tuple(sorted((read_endpoint(text) for text in net.allow), key=str))
        self.deny = tuple(sorted(net.deny))
        self._index: _Index | None = None

    def with_endpoints(self, more: Iterable[Endpoint]) -> Rules:
        """The same, and these permitted as well."""
        other = Rules.__new__(Rules)
        other.allow, other.deny, other._index = (*self.allow, *more), self.deny, None
        return other

    def with_denied(self, more: Iterable[str]) -> Rules:
        """The same, and these host patterns denied as well."""
        other = self.with_endpoints(())
        other.deny = (*self.deny, *more)
        return other

    def only(self, those: Iterable[Endpoint]) -> Rules:
        """These permitted, and nothing else; what is denied stays so."""
        other = Rules.__new__(Rules)
        other.allow, other.deny, other._index = tuple(those), self.deny, None
        return other

    @property
    def ports(self) -> frozenset[int]:
        """Every port that a rule permits."""
        return self._indexed().ports

    def decide(self, host: str, port: int) -> NetVerdict:
        """Whether a command may connect to a name, or straight to an address. Both are in canonical form."""
        denied = next((pattern for pattern in self.deny if denial_covers(pattern, host)), "")
        if denied:
            return NetVerdict(False, NetReason.DENIED, rule=denied)
        found = [
            rule
            for rule in self._indexed().candidates(host, port)
            if grant_covers(rule.host, host, has_denied=bool(self.deny))
        ]
        if not found:
            is_direct = is_address(host)
            return NetVerdict(False, NetReason.ADDRESS if is_direct else NetReason.NOT_GRANTED)
        schemes = frozenset(rule.scheme for rule in found)
        return NetVerdict(True, NetReason.GRANTED, schemes, str(found[0]))

    def decide_lookup(self, host: str) -> NetVerdict:
        """Whether a name may be looked up: on some port it may be connected to."""
        verdict = NetVerdict(False, NetReason.NOT_GRANTED)
        for port in sorted(self.ports):
            verdict = self.decide(host, port)
            if verdict.allowed or verdict.reason is NetReason.DENIED:
                return verdict
        return verdict

    def may_dial(self, host: str, port: int, address: str, *, is_public: bool) -> bool:
        """Whether what a permitted name leads to may be dialled.

        INVARIANT: whoever owns a name cannot lead a command into the networks of the host. What is not
        public is dialled only where the address itself is granted, or is loopback and `localhost` was asked.
        Nor does any name lead to an address that is denied, in whatever form.
        """
        from corral.model.network.addresses import address_forms  # few have come this far

        forms = address_forms(address)
        if not forms or any(denial_covers(pattern, form) for pattern in self.deny for form in forms):
            return False
        if is_public or (is_localhost(host) and is_loopback(forms[0])):
            return True
        return any(rule.host == forms[0] for rule in self._indexed().candidates(forms[0], port))

    def _indexed(self) -> _Index:
        if self._index is None:
            self._index = _Index(self.allow)
        return self._index


class _Index:
    """Rules by what they are about: there may be thousands, and every lookup asks about every port."""

    def __init__(self, rules: tuple[Endpoint, ...]) -> None:
        self.ports = frozenset(rule.port for rule in rules)
        self._patterns: dict[int, list[tuple[int, Endpoint]]] = {}
        self._hosts: dict[tuple[str, int], list[tuple[int, Endpoint]]] = {}
        for place, rule in enumerate(rules):
            if rule.host.startswith("*"):
                self._patterns.setdefault(rule.port, []).append((place, rule))
            else:
                self._hosts.setdefault((rule.host, rule.port), []).append((place, rule))

    def candidates(self, host: str, port: int) -> list[Endpoint]:
        """All rules that may be about a host, in their order."""
        found = [*self._hosts.get((host, port), ()), *self._patterns.get(port, ())]
        return [rule for _, rule in sorted(found, key=lambda one: one[0])]


def decide_connection(net: NetPolicy, wanted: Endpoint) -> Decision:
    """Whether a command may connect to an endpoint, as far as its name and port say."""
    subject = str(wanted)
    if net.mode is NetMode.NONE:
        return Decision(False, Reason.NOT_GRANTED, subject)
    if net.mode is NetMode.FULL:
        denied = next((pattern for pattern in sorted(net.deny) if denial_covers(pattern, wanted.host)), "")
        if denied:
            return Decision(False, Reason.DENIED, subject, denied)
        return Decision(True, Reason.GRANTED, subject, net.mode.value)
    verdict = Rules(net).decide(wanted.host, wanted.port)
    if verdict.allowed and verdict.schemes.isdisjoint({wanted.scheme, "tcp"}):
        return Decision(False, Reason.NOT_GRANTED, subject)
    if verdict.allowed:
        return Decision(True, Reason.GRANTED, subject, verdict.rule)
    reason = Reason.DENIED if verdict.reason is NetReason.DENIED else Reason.NOT_GRANTED
    return Decision(False, reason, subject, verdict.rule)


def capability_for(host: str, port: int) -> str:
    """The capability that would permit a connection."""
    scheme = {80: "http", 443: "https"}.get(port, "tcp")
    return f"network:{Endpoint(scheme, host, port)}"


def is_loopback(address: str) -> bool:
    """Whether an address in canonical form is one of the machine's own loopback."""
    return address == "::1" or address.startswith("127.")
