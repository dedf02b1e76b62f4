"""GatewayNetwork: everything that one sandbox asks of the network, decided and carried out.

Its public methods may be called by any thread; all the rest happens in the gateway's.
"""

from __future__ import annotations

import os
import socket
import threading
import time

from corral.model.network.connection import is_loopback
from corral.model.network.endpoint import Endpoint
from corral.model.network.traffic import LiveGrants, NetAction, NetEvent, NetReason
from corral.network.admission import Admission
from corral.network.connection import Connection
from corral.network.fronts.listeners import DNS_PORT, DnsSocket, DnsStream, TcpListener
from corral.network.fronts.refused_ports import RefusedPorts
from corral.network.gateway import leave
from corral.network.grants import Grants
from corral.network.lookups import Lookups, Questions
from corral.network.meter import Meter
from corral.network.names import Names, plain_address
from corral.network.refusal_reports import RefusalReports
from corral.network.tally import Tally
from corral.network.throttle import Throttle
from corral.network.workers import Lane

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from corral.model.network.traffic import Traffic
    from corral.model.plan import ProxyPlace
    from corral.model.violation import Violation
    from corral.network.connection import Reply
    from corral.network.fronts.proxy import Entrance, Proxy, Translator
    from corral.network.fronts.published import Published, PublishedConnection
    from corral.network.fronts.refusal_reply import RefusalReply
    from corral.network.gateway import Gateway, Timer
    from corral.network.names import NameEntry
    from corral.network.options import NetworkOptions

    Beginner = DnsStream | Entrance | RefusalReply | Translator | PublishedConnection

#: What lies in the kernel's queues is seen in one turn, and decided about in the next.
_QUIET_TURNS, _SETTLE_SECONDS = 2, 0.002
_CATCH_UP_SECONDS = 1.0
_LOOKUPS_AT_ONCE, _QUESTIONS_AT_ONCE = 4, 8
_CLOSE_SECONDS, _EVENT_SECONDS = 10.0, 2.0


class GatewayNetwork:
    """`SandboxNetwork` of one sandbox, in the gateway's loop."""

    def __init__(
        self,
        gateway: Gateway,
        grants: Grants,
        names: Names,
        options: NetworkOptions,
        *,
        most_bytes: int | None,
        most_rate: int | None,
    ) -> None:
        self.gateway, self.grants, self.names, self.options = gateway, grants, names, options
        self._event_lane = Lane(gateway.callbacks, 1, 2)
        self._lookup_lane = Lane(gateway.lookups, _LOOKUPS_AT_ONCE, 1024)
        self._question_lane = Lane(gateway.callbacks, _QUESTIONS_AT_ONCE, 1024)
        reports = RefusalReports(grants, names, gateway)
        self.listening = reports.listening
        self._throttle = Throttle(self, reports.add)
        self.tally = Tally(options.on_event, self._event_lane, self._throttle.report)
        self.lookups = Lookups(gateway, names, grants, options.resolve, self._lookup_lane)
        self.questions: Questions | None = None
        if options.ask is not None:
            self.questions = Questions(gateway, options.ask, options.ask_seconds, self._question_lane)
        self.meter = Meter(gateway, most_bytes, most_rate)
        self.listeners: list[TcpListener | DnsSocket | RefusedPorts] = []
        self._open: set[Connection | Beginner] = set()
        self._proxy: Proxy | None = None
        self._published: Published | None = None
        self._timers: dict[Endpoint, list[Timer]] = {}
        self._ends: dict[int, float] = {}  # of what was allowed for a time, by its number
        self._is_closed = False
        self.room = Admission(self)
        self._close_lock = threading.Lock()
        self._owner = os.getpid()
        self.faults = 0

    # For everybody.

    def attach(self, descriptors: Sequence[int]) -> None:
        """Serve listening sockets. They belong to the network from now on, whatever happens."""
        if self._proxy is not None:  # then it is no socket, but where the kernel asks about connections
            for descriptor in descriptors:
                self._proxy.attach(descriptor)
            return
        sockets: list[socket.socket] = []
        try:
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)  # no command that is started later gets it
                sockets.append(socket.socket(fileno=descriptor))
            self._call(lambda: self._attach(sockets))
        finally:
            for descriptor in descriptors[len(sockets) :]:
                os.close(descriptor)
            for sock in sockets:
                sock.close()  # those that are served have been detached

    def detach(self) -> None:
        """Its sandbox is over, and a successor will be attached: what was permitted and counted stays."""
        if self._proxy is None:  # a proxy listens outside of all sandboxes
            self._call(self._detach)

    def open_proxy(self) -> ProxyPlace:
        """Listen for a command that has no network of its own. Raises OSError."""
        from corral.network.fronts.proxy import Proxy

        if self._proxy is not None:
            return self._proxy.place
        self._proxy = proxy = Proxy(self)
        self._call(lambda: self.listeners.append(proxy.listen()))
        return proxy.place

    def publish(self, ports: Sequence[tuple[int, int]]) -> None:
        """Lead connections to ports of the host's loopback to servers inside. Raises OSError."""
        from corral.network.fronts.published import Published

        if self._published is not None:  # of a sandbox that was made anew
            return
        self._published = published = Published(self)
        self._call(lambda: self.listeners.extend(published.listen(ports)))

    def allow(self, endpoint: Endpoint, for_seconds: float | None = None) -> None:
        """Permit more than the policy does, for a time or until it is revoked. Deny rules stay."""
        self._call(lambda: self._allow(endpoint, for_seconds))

    def revoke(self, host: str) -> None:
        """Forbid a host, whoever has permitted it, and end the connections to it."""
        self._call(lambda: self._revoke(host))

    def live_grants(self) -> LiveGrants:
        """What these two have changed, as it holds now."""
        found = LiveGrants()

        def look() -> None:
            nonlocal found
            found = self._live_grants()

        self._call(look)
        return found

    def relay(
        self, client: socket.socket, host: str, port: int, head: bytes = b"", reply: Reply | None = None
    ) -> None:
        """Carry on for a proxy, which has read what its client wants: `host` in canonical form.

        `head` was read already and is not yet passed on. `reply` gives what the client is told: for None
        once the connection stands, else for the reason why it does not. The client is owned from now on.
        """
        client.setblocking(False)
        if not self.gateway.call(lambda: self._relay(client, host, port, head, reply), self):
            client.close()

    def traffic(self) -> Traffic:
        """What was asked and how much has passed, until now."""
        self._catch_up()
        return self.tally.traffic()

    def mark(self) -> int:
        """This moment, for `violations`."""
        return self.tally.mark()

    def violations(self, since: int = 0) -> tuple[Violation, ...]:
        """What the command tried and the policy forbids, since a moment."""
        self._catch_up()
        return self.tally.violations(self.grants, since, self.names.covers)

    def settle(self, seconds: float) -> None:
        """Pass on what was sent by somebody who has ended since; for this time at most."""
        deadline, quiet = time.monotonic() + seconds, 0
        while quiet < _QUIET_TURNS and time.monotonic() < deadline:
            owing: list[Connection] = []
            if not self.gateway.call_and_wait(lambda: owing.extend(self._owing()), seconds):  # noqa: B023
                return
            quiet = 0 if owing else quiet + 1
            if owing:
                time.sleep(_SETTLE_SECONDS)

    def _owing(self) -> list[Connection]:
        return [one for one in self._open if isinstance(one, Connection) and one.owes()]

    def close(self) -> None:
        """End everything. When this returns, all sockets are closed and all events were told."""
        with self._close_lock:
            if self._is_closed or self._owner != os.getpid():  # a process that was forked has none
                return
            self._is_closed = True
        if self._proxy is not None:
            self._proxy.stop()
        self.gateway.call_and_wait(self._close, _CLOSE_SECONDS)
        self._lookup_lane.close()
        self._question_lane.close()
        self._event_lane.close(_EVENT_SECONDS)
        leave()

    def _catch_up(self) -> None:
        """What other threads have told the loop is counted, though it may be late."""
        if not self._is_closed:
            self.gateway.call_and_wait(lambda: None, _CATCH_UP_SECONDS)

    def _call(self, action: Callable[[], None]) -> None:
        if not self._is_closed:
            self.gateway.call_and_wait(action, _CLOSE_SECONDS)

    # In the loop: what the sandbox does.

    def accept(self, client: socket.socket, port: int) -> None:
        """A connection, to whatever address it was meant."""
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            address = plain_address(client.getsockname()[0])
        except OSError:
            client.close()
            return
        entry = self.names.find(address)
        host = self._host_of(address, port, entry)
        try:
            if port == DNS_PORT and not (entry is not None and self.grants.decide(host, port).allowed):
                self._start(DnsStream(self, client))
            else:
                self._start(Connection(self, client, host, port), entry)
        except Exception:
            client.close()
            raise

    def was_refused(self, address: str, port: int) -> None:
        """The kernel has refused a connection: no rule is about this port, and so nobody listens there."""
        address = plain_address(address)
        if is_loopback(address) and not self.names.covers(address):
            return  # among the sandbox's own
        host = self._host_of(address, port, self.names.find(address))
        verdict = self.grants.decide(host, port)
        if not verdict.allowed:
            self.tally.record(
                NetEvent(NetAction.CONNECT, False, verdict.reason, host, port, rule=verdict.rule)
            )

    def answer(self, packet: bytes, reply: Callable[[bytes | None], None]) -> None:
        """A lookup; `reply` is called once, now or later."""
        from corral.network.fronts.dns_answers import answer_packet

        if not self._throttle.postpone(packet, reply):
            answer_packet(self, packet, reply)

    def ask(self, host: str, port: int, done: Callable[[NetReason], None]) -> None:
        """Ask about what no rule names, unless it was answered before."""
        assert self.questions is not None
        refusal = self.grants.refusal(host, port)
        if refusal is not None:
            done(refusal)
            return
        endpoint = Endpoint({80: "http", 443: "https"}.get(port, "tcp"), host, port)
        self.questions.ask(host, port, done, lambda reason: self.grants.answer(endpoint, reason))

    def begin(self, one: Beginner) -> None:
        """Something that has a connection; it is counted, and ended with the network."""
        self._start(one)

    def forget(self, one: Connection | Beginner) -> None:
        """It is over."""
        if one in self._open:
            self._open.remove(one)
            self.gateway.connections -= 1

    # In the loop: bounds.

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def turn_away(self, client: socket.socket, port: int, host: str = "") -> None:
        """A connection for which there is no room."""
        try:
            address = plain_address(client.getsockname()[0])
        except OSError:
            client.close()
            return
        host = host or self._host_of(address, port, self.names.find(address))
        detail = f"{len(self._open)} are open"
        connection = Connection(self, client, host, port)
        self._open.add(connection)
        self.gateway.count_connection()
        connection.refuse(NetReason.TOO_MANY, detail)

    def exceed(self) -> None:
        """All bytes that may pass have passed."""
        if not self.room.is_spent:
            self.room.is_spent = True
            for listener in self.listeners:  # whoever comes now is refused, and does not wait for ever
                listener.close()
            self.listeners.clear()
            self._end_all(NetReason.TOO_MUCH, self.meter.limit)

    def fail(self, problem: Exception) -> None:
        self.faults += 1

    # In the loop: what the holder of the network does.

    def _attach(self, sockets: list[socket.socket]) -> None:
        lines: list[socket.socket] = []
        for sock in sockets:
            if self._is_closed or self.room.is_spent:
                return
            own = socket.socket(fileno=sock.detach())
            if own.type == socket.SOCK_RAW:
                self.listeners.append(RefusedPorts(self, own))
            elif own.type == socket.SOCK_DGRAM:
                self.listeners.append(DnsSocket(self, own))
            elif own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                self.listeners.append(TcpListener(self, own))
            else:
                lines.append(own)
        if self._published is not None:
            self._published.add(lines)

    def _allow(self, endpoint: Endpoint, for_seconds: float | None) -> None:
        number = self.grants.allow(endpoint)
        detail = ""
        if for_seconds is not None:
            self._ends[number] = time.monotonic() + for_seconds
            detail = f"for {for_seconds:g} seconds"
            timer = self.gateway.later(for_seconds, self, lambda: self._expire(endpoint, number))
            self._timers.setdefault(endpoint, []).append(timer)
        self._tell(NetAction.ALLOW, NetReason.ALLOWED_LATER, endpoint, detail)

    def _live_grants(self) -> LiveGrants:
        now = time.monotonic()
        later = self.grants.later()
        self._ends = {number: end for number, end in self._ends.items() if number in later}
        left = {number: max(0.0, end - now) for number, end in self._ends.items()}
        allowed = tuple((str(endpoint), left.get(number)) for number, endpoint in later.items())
        return LiveGrants(allowed, self.grants.revoked())

    def _expire(self, endpoint: Endpoint, number: int) -> None:
        running = [timer for timer in self._timers.pop(endpoint, []) if timer.action is not None]
        if running:
            self._timers[endpoint] = running
        if self.grants.expire(number):
            self._tell(NetAction.REVOKE, NetReason.REVOKED, endpoint, "its time is over")
            self._end_unpermitted()

    def _revoke(self, host: str) -> None:
        for endpoint in [one for one in self._timers if one.host == host]:
            for timer in self._timers.pop(endpoint):
                timer.cancel()
        self.grants.revoke(host)
        self.tally.record(NetEvent(NetAction.REVOKE, True, NetReason.REVOKED, host))
        self._end_unpermitted()

    def _relay(self, client: socket.socket, host: str, port: int, head: bytes, reply: Reply | None) -> None:
        if self._is_closed:
            client.close()
            return
        connection = Connection(self, client, host, port, head=head, reply=reply)
        has_room = self.room.is_left()  # nobody has asked yet: not every client came by a listener
        self._open.add(connection)
        self.gateway.count_connection()
        if not has_room:
            connection.refuse(NetReason.TOO_MUCH if self.room.is_spent else NetReason.TOO_MANY)
            return
        connection.start()

    def _start(self, one: Connection | Beginner, entry: NameEntry | None = None) -> None:
        self.room.was_found()
        self._open.add(one)
        self.gateway.count_connection()
        try:
            if isinstance(one, Connection):
                one.start(entry)
            else:
                one.start()
        except Exception as problem:
            one.fail(problem)
            raise

    def _host_of(self, address: str, port: int, entry: NameEntry | None) -> str:
        """The name that was looked up, or who else is meant by an address."""
        return entry.name if entry is not None else self.host_of(address, port)

    def host_of(self, address: str, port: int) -> str:
        """What is loopback there, and nobody's name, is the host's own."""
        if self.names.covers(address) or not is_loopback(address):
            return address
        is_granted = self.grants.decide(address, port).allowed
        return address if is_granted and not self.grants.decide("localhost", port).allowed else "localhost"

    def _end_unpermitted(self) -> None:
        for one in tuple(self._open):
            if isinstance(one, Connection) and not one.rests_on_grants():
                one.end(NetReason.REVOKED)

    def _end_all(self, reason: NetReason, detail: str) -> None:
        for one in tuple(self._open):
            if isinstance(one, Connection):
                one.end(reason, detail)
            else:
                one.close()

    def _tell(self, action: NetAction, reason: NetReason, endpoint: Endpoint, detail: str) -> None:
        self.tally.record(
            NetEvent(action, True, reason, endpoint.host, endpoint.port, rule=str(endpoint), detail=detail)
        )

    def _detach(self) -> None:
        """The sandbox is gone, and with it its sockets; another one may come."""
        doors = self._published.doors if self._published is not None else []
        for listener in self.listeners:
            if listener not in doors:
                listener.close()
        self.listeners[:] = doors
        for one in tuple(self._open):
            if isinstance(one, Connection):
                one.abort()
            else:
                one.close()
        if self._published is not None:
            self._published.drop_lines()

    def _close(self) -> None:
        self._detach()
        for listener in self.listeners:
            listener.close()
        self.listeners.clear()
        self.lookups.close()
        if self.questions is not None:
            self.questions.close()
        self.meter.close()
        self.room.close()
        for timers in self._timers.values():
            for timer in timers:
                timer.cancel()
        self._timers.clear()
