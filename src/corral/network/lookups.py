"""Lookups of permitted names and questions about others: each once at a time, however many wait for it."""

from __future__ import annotations

from functools import partial

from corral.model.network.endpoint import is_localhost
from corral.model.network.traffic import NetReason
from corral.model.record import Record
from corral.network.resolve import Resolution, look_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.network.gateway import Gateway, Timer
    from corral.network.grants import Grants
    from corral.network.names import NameEntry, Names
    from corral.network.options import Ask
    from corral.network.resolve import Resolve
    from corral.network.workers import Lane

    Found = Callable[["LookupOutcome"], None]
    Answered = Callable[[NetReason], None]

_LOOKUP_SECONDS = 10.0
_MOST_LOOKUPS, _MOST_WAITERS = 128, 64
#: A name that leads nowhere is not asked for again so soon: programs ask for both kinds of addresses.
_FORGET_SECONDS, _MOST_FORGOTTEN = 2.0, 256
_MOST_QUESTIONS = 64
_LOOPBACK = Resolution({0: (("127.0.0.1", 0), ("::1", 0))})


class LookupOutcome(Record):
    """How a lookup ended. The name's entry has the addresses, if there are any that may be dialled."""

    reason: NetReason
    detail: str = ""
    address: str = ""  # of those that may not be dialled, the first
    has_failed: bool = False  # nothing is known: the client may ask again


_OK = LookupOutcome(NetReason.GRANTED)
_TOO_MANY = LookupOutcome(NetReason.TOO_MANY, "too many lookups wait", has_failed=True)
_TOO_LATE = LookupOutcome(NetReason.UNRESOLVED, "the resolver did not answer in time", has_failed=True)


class _Lookup:
    """One that is under way."""

    def __init__(self, owner: Lookups, entry: NameEntry, waiter: Found) -> None:
        self._owner, self.entry, self.waiters = owner, entry, [waiter]
        self.timer: Timer | None = None
        self.is_over = False

    def time_out(self) -> None:
        self._owner.finish(self, None)

    def fail(self, problem: Exception) -> None:
        self._owner.finish(self, None)


class Lookups:
    """Of one sandbox. Everything but the resolver itself happens in the loop."""

    def __init__(
        self, gateway: Gateway, names: Names, grants: Grants, resolve: Resolve | None, lane: Lane
    ) -> None:
        self._gateway, self._names, self._grants = gateway, names, grants
        self._resolve, self._lane = resolve, lane
        self._pending: dict[str, _Lookup] = {}
        self._failed: dict[str, tuple[float, LookupOutcome]] = {}

    def find(self, name: str, done: Found) -> None:
        """Make sure that the name's entry has checked addresses that are not old."""
        entry = self._names.give(name)
        now = self._gateway.now
        if entry.is_fresh(now) and self._covers_ports(entry):
            done(self._check(entry))
            return
        failed = self._failed.get(name)
        if failed is not None and now < failed[0]:
            done(failed[1])
            return
        lookup = self._pending.get(name)
        if lookup is None:
            self._start(entry, done)
        elif len(lookup.waiters) >= _MOST_WAITERS:
            done(_TOO_MANY)
        else:
            lookup.waiters.append(done)

    def close(self) -> None:
        """Nobody waits any longer."""
        for lookup in self._pending.values():
            lookup.is_over = True
            if lookup.timer is not None:
                lookup.timer.cancel()
        self._pending.clear()

    def finish(self, lookup: _Lookup, resolution: Resolution | None) -> None:
        """The resolver has answered, or not in time."""
        entry = lookup.entry
        if self._pending.get(entry.name) is not lookup:
            return
        del self._pending[entry.name]
        lookup.is_over = True
        if lookup.timer is not None:
            lookup.timer.cancel()
        outcome = _TOO_LATE if resolution is None else self._keep(entry, resolution)
        if outcome.reason is not NetReason.GRANTED:
            if len(self._failed) >= _MOST_FORGOTTEN:
                del self._failed[next(iter(self._failed))]
            self._failed[entry.name] = (self._gateway.now + _FORGET_SECONDS, outcome)
        for waiter in lookup.waiters:
            self._gateway.do(None, partial(waiter, outcome))

    def _start(self, entry: NameEntry, done: Found) -> None:
        if is_localhost(entry.name) and self._resolve is None:
            done(self._keep(entry, _LOOPBACK))
            return
        lookup = _Lookup(self, entry, done)
        name, ports = entry.name, self._grants.ports(entry.name)
        self._failed.pop(name, None)

        def ask() -> None:
            if lookup.is_over:
                return  # it has waited too long for its turn
            resolution = look_up(self._resolve, name, ports)
            if is_localhost(name) and not any(resolution.answers.values()):
                resolution = _LOOPBACK  # whatever a resolver knows: this machine is there
            self._gateway.call(lambda: self.finish(lookup, resolution), lookup)

        if len(self._pending) >= _MOST_LOOKUPS or not self._lane.submit(ask):
            done(_TOO_MANY)
            return
        self._pending[name] = lookup
        lookup.timer = self._gateway.later(_LOOKUP_SECONDS, lookup, lookup.time_out)

    def _keep(self, entry: NameEntry, resolution: Resolution) -> LookupOutcome:
        if resolution.has_failed:
            return LookupOutcome(NetReason.UNRESOLVED, resolution.detail, has_failed=True)
        entry.answers = resolution.answers
        entry.resolved_at = self._gateway.now
        outcome = self._check(entry)
        if outcome.reason is NetReason.UNRESOLVED:
            return LookupOutcome(NetReason.UNRESOLVED, resolution.detail)
        return outcome

    def _check(self, entry: NameEntry) -> LookupOutcome:
        """INVARIANT: a name is only given an address if there is something behind it that may be dialled."""
        refused = ""
        for port in self._grants.ports(entry.name):
            for address, _ in entry.addresses(port) or ():
                if self._grants.may_dial(entry.name, port, address):
                    return _OK
                refused = refused or address
        if refused:
            return LookupOutcome(NetReason.NOT_PUBLIC, f"it leads to {refused}", refused)
        return LookupOutcome(NetReason.UNRESOLVED)

    def _covers_ports(self, entry: NameEntry) -> bool:
        """Whether no port was allowed since the name was looked up."""
        return all(entry.addresses(port) is not None for port in self._grants.ports(entry.name))


class _Waiter:
    """One connection that waits for the answer to a question."""

    __slots__ = ("done", "timer")

    def __init__(self, done: Answered) -> None:
        self.done: Answered | None = done
        self.timer: Timer | None = None

    def tell(self, reason: NetReason) -> None:
        done, self.done = self.done, None
        if self.timer is not None:
            self.timer.cancel()
        if done is not None:
            done(reason)

    def time_out(self) -> None:
        self.tell(NetReason.UNANSWERED)

    def fail(self, problem: Exception) -> None:
        self.done = None


class Questions:
    """To whoever decides about what no rule names. An answer is for the life of the network.

    No answer in time is a no, for that connection: what is said later counts for the next one.
    """

    def __init__(self, gateway: Gateway, ask: Ask, seconds: float, lane: Lane) -> None:
        self._gateway, self._ask, self._seconds, self._lane = gateway, ask, seconds, lane
        self._pending: dict[tuple[str, int], list[_Waiter]] = {}

    def ask(self, host: str, port: int, done: Answered, remember: Answered) -> None:
        """Ask unless the same is asked already; `remember` hears of the answer whenever it comes."""
        waiter = _Waiter(done)
        waiters = self._pending.get((host, port))
        if waiters is None:
            if len(self._pending) >= _MOST_QUESTIONS or not self._submit(host, port, remember):
                done(NetReason.TOO_MANY)
                return
            self._pending[host, port] = waiters = []
        waiters[:] = [one for one in waiters if one.done is not None]
        if len(waiters) >= _MOST_WAITERS:
            done(NetReason.TOO_MANY)
            return
        waiters.append(waiter)
        waiter.timer = self._gateway.later(self._seconds, waiter, waiter.time_out)

    def close(self) -> None:
        """Nobody waits any longer."""
        for waiters in self._pending.values():
            for waiter in waiters:
                waiter.done = None
                if waiter.timer is not None:
                    waiter.timer.cancel()
        self._pending.clear()

    def _submit(self, host: str, port: int, remember: Answered) -> bool:
        from corral.network.options import NetRequest

        def ask() -> None:
            reason = NetReason.REFUSED
            try:
                # INVARIANT: only a plain True is a yes.
                if self._ask(NetRequest(host, port)) is True:
                    reason = NetReason.ASKED
            except Exception as problem:
                del problem  # whoever cannot answer has not said yes
            self._gateway.call(lambda: self._finish(host, port, reason, remember))

        return self._lane.submit(ask)

    def _finish(self, host: str, port: int, reason: NetReason, remember: Answered) -> None:
        waiters = self._pending.pop((host, port), None)
        if waiters is None:
            return  # the network has been closed
        remember(reason)
        for waiter in waiters:
            self._gateway.do(None, partial(waiter.tell, reason))
