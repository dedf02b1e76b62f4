"""A gateway network without a sandbox: it listens on this loopback, where 127.64.0.0/10 is all local.

Whoever connects to a synthetic address reaches the network's listener, exactly as in a sandbox's own network.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from corral.model.network.traffic import NetEvent
from corral.model.policy import NetMode, NetPolicy
from corral.network import gateway as gateway_module
from corral.network import sandbox_network as network_module
from corral.network.opening import open_sandbox_network
from corral.network.options import NetworkOptions
from corral.network.sandbox_network import GatewayNetwork

RANGE = "127.64.0.0/10"
NAME = "allowed.test"
LOOPBACK = "127.0.0.1"
A, AAAA = 1, 28
NO_ERROR, FORMAT_ERROR, SERVER_FAILURE, NO_SUCH_NAME = 0, 1, 2, 3
SECONDS = 10.0


class Client(socket.socket):
    """A connection that may have been reset before `connect` had returned."""

    was_reset = False


class Server:
    """Answers connections on loopback, each in a thread of its own."""

    def __init__(self, serve: Callable[[socket.socket], None], backlog: int = 1024) -> None:
        self._serve = serve
        self._listener = socket.create_server((LOOPBACK, 0), backlog=backlog)
        self.port: int = self._listener.getsockname()[1]
        self.connections: list[socket.socket] = []
        self.came = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(SECONDS)
        self._listener.close()
        for one in self.connections:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(client)
            self.came.release()
            threading.Thread(target=self._one, args=(client,), daemon=True).start()

    def _one(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self._serve(client)
            if self._serve is not keep:
                client.shutdown(socket.SHUT_WR)  # it is still the test's to look at


def echo(client: socket.socket) -> None:
    """Send everything back, and end when the client does."""
    while data := client.recv(65536):
        client.sendall(data)
    client.shutdown(socket.SHUT_WR)


def keep(client: socket.socket) -> None:
    """Nothing: the test does what is to be done."""


class Stage:
    """A sandbox network, its listeners, and what has come to pass."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.events: list[NetEvent] = []
        self.targets: dict[tuple[str, int], list[tuple[str, int]] | Exception] = {}
        self.resolved: list[str] = []
        self.port = free_port()
        self.other_port = free_port()
        self.extra_port = free_port()
        self.dns_port = 0
        self.network: GatewayNetwork

    def open(
        self,
        *allow: str,
        deny: tuple[str, ...] = (),
        ports: tuple[int, ...] = (),
        family: int = socket.AF_INET,
        listeners: bool = True,
        most_bytes: int | None = None,
        most_rate: int | None = None,
        **options: object,
    ) -> GatewayNetwork:
        """Allow what is given, `{}` being the port; by default any TCP to NAME, which is on loopback."""
        endpoints = [text.format(self.port) for text in allow or (f"tcp:{NAME}:{{}}", f"tcp:{LOOPBACK}:{{}}")]
        given = {"resolve": self.resolve, "on_event": self.events.append, **options}
        self.network = open_sandbox_network(
            NetPolicy(NetMode.LIMITED, frozenset(endpoints), frozenset(deny)),
            NetworkOptions(**given),
            addresses=RANGE,
            most_bytes=most_bytes,
            most_rate=most_rate,
        )
        self._stack.callback(self.network.close)
        if listeners:
            self.listen(*(ports or (self.port,)), family=family)
        return self.network

    def listen(self, *ports: int, family: int = socket.AF_INET) -> None:
        any_address = "0.0.0.0" if family == socket.AF_INET else "::"
        lookups = socket.socket(family, socket.SOCK_DGRAM)
        if family == socket.AF_INET6:
            lookups.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        lookups.bind((any_address, 0))
        self.dns_port = lookups.getsockname()[1]
        sockets = [lookups]
        for port in ports:
            is_dual = family == socket.AF_INET6
            sockets.append(
                socket.create_server((any_address, port), family=family, backlog=4096, dualstack_ipv6=is_dual)
            )
        self.network.attach([one.detach() for one in sockets])

    def resolve(self, name: str, port: int) -> list[tuple[str, int]]:
        self.resolved.append(name)
        found = self.targets.get((name, port), self.targets.get((name, 0)))
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        if isinstance(found, Exception):
            raise found
        return found

    def serve(self, serve: Callable[[socket.socket], None] = echo, name: str = NAME, port: int = 0) -> Server:
        """A server, and a name that leads to it."""
        server = Server(serve)
        self._stack.callback(server.close)
        self.targets[name, port] = [(LOOPBACK, server.port)]
        return server

    def ask(self, packet: bytes, at: str = "127.64.200.1", seconds: float = SECONDS) -> bytes:
        """Send a packet to the network's resolver; the answer has to come from the address that was asked."""
        family = socket.AF_INET6 if ":" in at else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as asker:
            asker.settimeout(seconds)
            asker.connect((at, self.dns_port))
            asker.send(packet)
            return asker.recv(65536)

    def look_up(self, name: str, kind: int = A, at: str = "127.64.200.1") -> tuple[int, list[str]]:
        """The status and the addresses."""
        return read_answer(self.ask(query(name, kind), at))

    def address(self, name: str = NAME) -> str:
        status, addresses = self.look_up(name)
        assert status == NO_ERROR and addresses, (status, addresses)
        return addresses[0]

    def connect(self, name: str = NAME, port: int | None = None) -> socket.socket:
        return self.connect_to(self.address(name), port)

    def connect_to(self, address: str, port: int | None = None) -> socket.socket:
        """Who is refused at once may hear of it here already; see `is_reset`."""
        client = Client()
        self._stack.callback(client.close)
        client.settimeout(SECONDS)
        try:
            client.connect((address, port or self.port))
        except ConnectionResetError:
            client.was_reset = True
        return client

    def wait(self, found: Callable[[], object], seconds: float = SECONDS) -> None:
        """Until something is so."""
        wait(found, seconds)

    def settle(self) -> None:
        """Until the loop has done what it is at, and told of it, which it does in a thread of its own."""
        self.network.gateway.call_and_wait(lambda: None, SECONDS)
        self.network._event_lane._idle.wait(SECONDS)

    def pass_time(self, seconds: float) -> None:
        """For whatever the loop has put off, so much time is gone."""
        timers = self.network.gateway._timers

        def hurry() -> None:
            timers[:] = [(at - seconds, number, timer) for at, number, timer in timers]

        assert self.network.gateway.call_and_wait(hurry, SECONDS)

    def of(self, action: str) -> list[NetEvent]:
        self.settle()
        return [event for event in self.events if event.action.value == action]

    def reasons(self, action: str = "connect") -> list[str]:
        return [event.reason.value for event in self.of(action)]


@contextmanager
def make_stage() -> Iterator[Stage]:
    """Whatever a test does, the loop meets no error that was not foreseen, and no descriptor is left."""
    before = open_sockets()
    with ExitStack() as stack:
        stage = Stage(stack)
        yield stage
        gateway = gateway_module._current
        faults = list(gateway.faults) if gateway is not None else []
        stage.network.close()
    assert faults == [], faults[0]
    wait(lambda: open_sockets() <= before)
    assert gateway_module._current is None


def dns_on(monkeypatch, port: int) -> None:
    """Take another port for DNS over TCP: 53 is root's."""
    monkeypatch.setattr(network_module, "DNS_PORT", port)


def wait(found: Callable[[], object], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.002)


def _ports() -> Iterator[int]:
    """Below those that the kernel gives to clients, and other ones for each process that tests."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    first = 20_000 + int(worker) % 6 * 2_000
    return itertools.cycle(range(first, first + 2_000))


_NEXT_PORT = _ports()


def free_port() -> int:
    for port in itertools.islice(_NEXT_PORT, 2_000):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("0.0.0.0", port))
            return port
    raise RuntimeError("no port is free")


def open_sockets() -> int:
    """Descriptors of this process that are sockets, pipes or the gateway's own."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            count += target.startswith(("socket:", "pipe:")) or "event" in target
    return count


def query(name: str, kind: int = A, number: int = 4660) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label)
    return struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


def read_answer(packet: bytes) -> tuple[int, list[str]]:
    number, flags, questions, answers, _, _ = struct.unpack_from("!6H", packet)
    assert number == 4660 and flags & 0x8000
    position = 12
    for _ in range(questions):
        while packet[position]:
            position += 1 + packet[position]
        position += 5
    addresses = []
    for _ in range(answers):
        kind, _, _, length = struct.unpack_from("!2HIH", packet, position + 2)
        data = packet[position + 12 : position + 12 + length]
        addresses.append(socket.inet_ntop(socket.AF_INET if kind == A else socket.AF_INET6, data))
        position += 12 + length
    return flags & 15, addresses


def read_all(client: socket.socket) -> bytes:
    parts = []
    while data := client.recv(65536):
        parts.append(data)
    return b"".join(parts)


def is_served(client: socket.socket) -> bool:
    """Whether an echo comes back."""
    client.sendall(b"x")
    return client.recv(1) == b"x"


def is_reset(client: socket.socket) -> bool:
    """Whether the connection ends by a reset, and not in an orderly way."""
    if isinstance(client, Client) and client.was_reset:
        return True
    try:
        while client.recv(65536):
            pass
    except ConnectionResetError:
        return True
    return False
