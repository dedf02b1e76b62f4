"""Tally: what was decided for a sandbox and how much has passed; counted, bounded, told to who listens."""

from __future__ import annotations

import threading
import time
from collections import deque
from itertools import islice

from corral.model.network.endpoint import is_address
from corral.model.network.traffic import (
    FAILURES,
    SENTENCES,
    HostTraffic,
    NetAction,
    NetEvent,
    NetReason,
    Traffic,
)
from corral.network.hosts_file import names_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.violation import Violation
    from corral.network.grants import Grants
    from corral.network.workers import Lane

_MOST_HOSTS = 1024
_MOST_REFUSALS = 256
#: Of these, so many of the first are kept for ever; the others make room for those that come later.
_FIRST_REFUSALS = 128
#: Events that wait for a slow listener; more are only counted.
_MOST_WAITING = 8192
#: One name is asked for twice, for both kinds of addresses: that is one lookup.
_SAME_LOOKUP_SECONDS = 2.0
#: Where a limit, the client or the host was in the way, and not the policy.
_NO_VIOLATION = frozenset(
    {
        *FAILURES,
        NetReason.TOO_LATE,
        NetReason.MALFORMED,
        NetReason.NO_TOKEN,  # whoever that was
    }
)
#: What a capability for this host and port would permit.
_GRANTABLE = frozenset(
    {NetReason.NOT_GRANTED, NetReason.ADDRESS, NetReason.REFUSED, NetReason.UNANSWERED, NetReason.REVOKED}
)
#: What only `tcp` permits.
_OTHER_PROTOCOL = frozenset({NetReason.NOT_TLS, NetReason.NOT_HTTP, NetReason.NO_NAME})
_OTHERS = ("", 0)  # all hosts that are too many


class HostCount:
    """Counters of one host and port. Only the loop adds to them."""

    __slots__ = ("connections", "failed", "received", "refused", "sent")

    def __init__(self) -> None:
        self.connections = self.refused = self.failed = self.sent = self.received = 0


class Tally:
    """Written by the loop, read by anybody."""

    def __init__(
        self,
        on_event: Callable[[NetEvent], None] | None,
        lane: Lane | None,
        report: Callable[[NetEvent], None] = lambda _: None,
    ) -> None:
        """`report` is called in the loop with whatever is counted, and must not wait."""
        self._on_event, self._lane, self._report = on_event, lane, report
        self._lock = threading.Lock()
        self._hosts: dict[tuple[str, int], HostCount] = {}
        self._refusals: dict[tuple[NetAction, NetReason, str, int], NetEvent] = {}
        self._latest: dict[tuple[NetAction, NetReason, str, int], int] = {}  # its number when it came last
        self._lookups: dict[tuple[str, bool], tuple[float, int]] = {}
        self._events: deque[NetEvent] = deque()
        self.connections = self.refused = self.failed = self.sent = self.received = 0
        self.dropped_events = self.failed_callbacks = 0

    def record(self, event: NetEvent, *, kind: int = 0) -> None:
        """Count an event and tell it. `kind`: of the record that a lookup asked for."""
        event = event.replace(time=time.time())
        if event.action is NetAction.LOOKUP and self._is_same_lookup(event, kind):
            return
        with self._lock:
            self._count(event)
        self._report(event)
        if self._on_event is None:
            return
        if len(self._events) >= _MOST_WAITING:
            self.dropped_events += 1
            return
        self._events.append(event)
        if len(self._events) == 1:
            assert self._lane is not None
            self._lane.submit(self._tell)

    def host(self, host: str, port: int) -> HostCount:
        """The counters of a host, for bytes."""
        with self._lock:
            return self._host(host, port)

    def traffic(self) -> Traffic:
        """All until now."""
        with self._lock:
            hosts = [
                HostTraffic(host, port, one.connections, one.refused, one.failed, one.sent, one.received)
                for (host, port), one in self._hosts.items()
            ]
            refusals = tuple(self._refusals.values())
        hosts.sort(key=lambda one: (-(one.sent + one.received), -one.connections, one.host, one.port))
        counters = (self.connections, self.refused, self.failed, self.sent, self.received)
        return Traffic(tuple(hosts), refusals, *counters)

    def mark(self) -> int:
        """This moment, for `violations`."""
        return self.refused + self.failed

    def violations(
        self, grants: Grants, since: int = 0, is_synthetic: Callable[[str], bool] = lambda _: False
    ) -> tuple[Violation, ...]:
        """What the command tried and the policy forbids, each once; the first `since` are left out.

        `is_synthetic`: whether an address is one of those that stand for names, which no rule can permit.
        """
        with self._lock:
            refusals = [event for key, event in self._refusals.items() if self._latest[key] > since]
        found = (violation_of(event, grants, is_synthetic) for event in refusals)
        return tuple(dict.fromkeys(violation for violation in found if violation is not None))

    def _count(self, event: NetEvent) -> None:
        if event.action is NetAction.CONNECT and event.allowed:
            self.connections += 1
            self._host(event.host, event.port).connections += 1
        if event.allowed or event.action in {NetAction.ALLOW, NetAction.REVOKE}:
            return
        host = self._host(event.host, event.port)
        if event.reason in FAILURES:
            self.failed += 1
            host.failed += 1
        else:
            self.refused += 1
            host.refused += 1
        key = (event.action, event.reason, event.host, event.port)
        if key not in self._refusals and len(self._refusals) >= _MOST_REFUSALS:
            self._forget_one()
        self._refusals.setdefault(key, event)
        self._latest[key] = self.mark()

    def _forget_one(self) -> None:
        """A command may be refused as often as it likes: neither what it began with is lost so, nor what
        the next one of its session does.
        """
        key = next(islice(self._refusals, _FIRST_REFUSALS, None))
        del self._refusals[key], self._latest[key]

    def _host(self, host: str, port: int) -> HostCount:
        key = (host, port)
        found = self._hosts.get(key)
        if found is None:
            if len(self._hosts) >= _MOST_HOSTS:
                self._forget_refused()
            if len(self._hosts) >= _MOST_HOSTS:
                key = _OTHERS
            found = self._hosts.setdefault(key, HostCount())
        return found

    def _forget_refused(self) -> None:
        """Hosts that were only refused may be as many as a command can invent: they become one."""
        refused = [key for key, one in self._hosts.items() if not one.connections and key != _OTHERS]
        others = self._hosts.setdefault(_OTHERS, HostCount())
        for key in refused:
            one = self._hosts.pop(key)
            others.refused += one.refused
            others.failed += one.failed

    def _is_same_lookup(self, event: NetEvent, kind: int) -> bool:
        key, now = (event.host, event.allowed), time.monotonic()
        before = self._lookups.pop(key, None)
        if before is not None and before[1] != kind and now - before[0] < _SAME_LOOKUP_SECONDS:
            return True
        if len(self._lookups) >= _MOST_REFUSALS:
            del self._lookups[next(iter(self._lookups))]
        self._lookups[key] = (now, kind)
        return False

    def _tell(self) -> None:
        """In a worker, one after the other. Whatever a listener raises is its own matter, and counted."""
        assert self._on_event is not None
        while self._events:
            try:
                self._on_event(self._events[0])
            except Exception:
                self.failed_callbacks += 1
            self._events.popleft()


def violation_of(
    event: NetEvent, grants: Grants, is_synthetic: Callable[[str], bool] = lambda _: False
) -> Violation | None:
    """What an event is as a violation; None where the policy was not in the way."""
    if event.reason in _NO_VIOLATION or event.action in {NetAction.ALLOW, NetAction.REVOKE}:
        return None
    is_grantable = not (is_address(event.host) and is_synthetic(event.host))
    named = names_of(event.host) if event.reason is NetReason.ADDRESS and is_grantable else ()
    hint = _hint(event, grants, is_named=bool(named)) if is_grantable else ""
    return _violation(event, hint, grants, named)


def _violation(event: NetEvent, hint: str, grants: Grants, named: tuple[str, ...]) -> Violation:
    from corral.model.feature import Feature
    from corral.model.violation import Evidence, Violation

    subject = _join(event.host, event.port) if event.port else event.host
    is_known = event.port and event.reason is NetReason.NOT_GRANTED and grants.ports(event.host)
    feature = Feature.NET_PORTS if is_known else Feature.NET_DOMAINS
    if event.reason is NetReason.TOO_MUCH:
        feature = Feature.LIMIT_TRAFFIC
    detail = "no rule permits this port" if is_known else SENTENCES[event.reason]
    if event.detail:
        detail = f"{detail}: {event.detail}"
    if named:
        detail = f"{detail}: /etc/hosts has it for {named[0]}, which is therefore never looked up"
    return Violation(feature, subject, Evidence.OBSERVED, detail, hint, _risk(event, hint))


def _risk(event: NetEvent, hint: str) -> str:
    """Whoever follows a hint should know what he permits."""
    from corral.model.network.addresses import what_is_private  # few are refused

    address = event.address if event.reason is NetReason.NOT_PUBLIC else event.host
    private = what_is_private(address) if hint and is_address(address) else ""
    return f"{address} is {private}" if private else ""


def _hint(event: NetEvent, grants: Grants, *, is_named: bool) -> str:
    """The capability that would permit what was refused; nothing where none would.

    `is_named`: an address that a client knows by a name, and TLS and HTTP will ask for that name.
    """
    from corral.model.network.connection import capability_for
    from corral.model.network.endpoint import Endpoint

    ports = grants.ports(event.host) or grants.all_ports
    port = event.port or (443 if 443 in ports or not ports else min(ports))
    if is_named:
        return f"network:{Endpoint('tcp', event.host, port)}"
    if event.reason in _GRANTABLE:
        return capability_for(event.host, port)
    if event.reason is NetReason.NOT_PUBLIC and event.address:
        return capability_for(event.address, port)
    if event.reason in _OTHER_PROTOCOL and event.port:
        return f"network:{Endpoint('tcp', event.host, event.port)}"
    return ""


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
