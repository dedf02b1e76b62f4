"""Traffic: what a run asked of the network, what corral decided about it, and how much passed."""

from __future__ import annotations

from enum import StrEnum

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NetReason(StrEnum):
    """Why a lookup or a connection was permitted, or was not."""

    GRANTED = "granted"  # by the policy
    ALLOWED_LATER = "allowed-later"  # by whoever holds the session, for a time
    ASKED = "asked"  # whoever was asked said yes
    NOT_GRANTED = "not-granted"  # no rule names it
    DENIED = "denied"  # a rule forbids the name
    REFUSED = "refused"  # the approver refused it
    UNANSWERED = "unanswered"  # the approval timed out
    ADDRESS = "address"  # a connection to an address that no lookup gave out, and no rule names
    NOT_PUBLIC = "not-public"  # the name leads to loopback, a private network, or the like
    OTHER_NAME = "other-name"  # TLS or HTTP ask for another host than the one that was looked up
    NO_NAME = "no-name"  # TLS or HTTP do not say which host they ask for
    NOT_TLS = "not-tls"  # only TLS is permitted on this port, and this is none
    NOT_HTTP = "not-http"
    UNRESOLVED = "unresolved"  # the name is permitted, and leads nowhere
    UNREACHABLE = "unreachable"  # nobody answers at the address
    TOO_MANY = "too-many"  # connections at the same time
    TOO_MUCH = "too-much"  # bytes
    TOO_LATE = "too-late"  # the client did not say in time what it wants
    MALFORMED = "malformed"  # a message that says nothing
    NO_TOKEN = "no-token"  # noqa: S105  somebody else than the command has found the proxy
    REVOKED = "revoked"  # what permitted it has ended


#: Nobody forbade it: there was no such name, no answer, or no room.
FAILURES = frozenset({NetReason.UNRESOLVED, NetReason.UNREACHABLE, NetReason.TOO_MANY})
#: In the words that a person or a model reads.
SENTENCES: dict[NetReason, str] = {
    NetReason.GRANTED: "the policy permits it",
    NetReason.ALLOWED_LATER: "it was permitted while the session ran",
    NetReason.ASKED: "the approver permits it",
    NetReason.NOT_GRANTED: "no rule permits this host",
    NetReason.DENIED: "the policy denies this host",
    NetReason.REFUSED: "the approver refused it",
    NetReason.UNANSWERED: "the approval timed out",
    NetReason.ADDRESS: "connections to raw IP addresses are not allowed, and no rule names this one",
    NetReason.NOT_PUBLIC: "the name resolves to an address that is not public",
    NetReason.OTHER_NAME: "it asked for another host than the one that was looked up",
    NetReason.NO_NAME: "it did not say which host it asks for",
    NetReason.NOT_TLS: "only TLS is permitted there, and this was none",
    NetReason.NOT_HTTP: "only HTTP is permitted there, and this was none that can be followed",
    NetReason.UNRESOLVED: "the name does not resolve",
    NetReason.UNREACHABLE: "nothing answered at its address",
    NetReason.TOO_MANY: "there were too many connections",
    NetReason.TOO_MUCH: "all the bytes that may pass had passed",
    NetReason.TOO_LATE: "it did not send its request in time",
    NetReason.MALFORMED: "what it said makes no sense",
    NetReason.NO_TOKEN: "it did not have the token of this run",
    NetReason.REVOKED: "what permitted it has ended",
}


class NetAction(StrEnum):
    LOOKUP = "lookup"
    CONNECT = "connect"
    CLOSE = "close"
    ALLOW = "allow"  # by whoever holds the session
    REVOKE = "revoke"


class NetEvent(Record):
    """One decision, or the end of what was decided."""

    action: NetAction
    allowed: bool
    reason: NetReason
    host: str  # the name; or the address, where there is none
    port: int = 0  # 0: of a lookup
    address: str = ""  # that was dialled
    rule: str = ""  # the endpoint or host pattern that decided
    sent: int = 0  # bytes from the sandbox, when it is over
    received: int = 0
    detail: str = ""
    time: float = 0.0  # seconds since the epoch

    def to_json(self) -> dict[str, Any]:
        """All fields, in JSON's own types."""
        return {
            **{name: getattr(self, name) for name in self._fields},
            "action": self.action.value,
            "reason": self.reason.value,
        }


class HostTraffic(Record):
    """Requests to one host and port, and the traffic."""

    host: str
    port: int
    connections: int = 0
    refused: int = 0  # lookups and connections
    failed: int = 0  # what was permitted, and led to nothing: FAILURES
    sent: int = 0
    received: int = 0

    def to_json(self) -> dict[str, Any]:
        """All fields, in JSON's own types."""
        return {name: getattr(self, name) for name in self._fields}


class Traffic(Record):
    """The traffic of a run, or of a session so far. Lists are bounded; counters are not."""

    hosts: tuple[HostTraffic, ...] = ()  # the busiest first
    refusals: tuple[NetEvent, ...] = ()  # the first of each kind, and of each kind of failure
    connections: int = 0
    refused: int = 0
    failed: int = 0
    sent: int = 0
    received: int = 0

    def to_json(self) -> dict[str, Any]:
        """All fields, in JSON's own types."""
        return {
            "connections": self.connections,
            "refused": self.refused,
            "failed": self.failed,
            "sent": self.sent,
            "received": self.received,
            "hosts": [host.to_json() for host in self.hosts],
            "refusals": [event.to_json() for event in self.refusals],
        }


class LiveGrants(Record):
    """What was permitted and forbidden while a session runs, as it holds now."""

    allowed: tuple[tuple[str, float | None], ...] = ()  # endpoints, and seconds left; None: all
    revoked: tuple[str, ...] = ()  # hosts: of these only that is permitted which was allowed afterwards
