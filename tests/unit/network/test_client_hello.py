"""The name in a ClientHello: found in whatever pieces it comes, and never where two readers could differ."""

from __future__ import annotations

import time

import pytest

from corral.network.wire.tls import MOST_HELLO, HelloState, ServerName, read_server_name
from support.wire_messages import (
    client_hello,
    name_seen_by_a_server,
    real_hello,
    records,
    server_name,
    vector,
)

EXAMPLE = ServerName(HelloState.FOUND, "example.com")
ABSENT = ServerName(HelloState.ABSENT)
MORE = ServerName(HelloState.MORE)
NOT_TLS = ServerName(HelloState.NOT_TLS)
MALFORMED = ServerName(HelloState.MALFORMED)

PLAIN = client_hello([server_name(b"example.com")])
#: 0-RTT: what goes before the handshake is over.
EARLY_DATA = b"\x14\x03\x03\x00\x01\x01" + b"\x17\x03\x03\x00\x05early"


@pytest.mark.parametrize("name", ["example.com", "xn--bcher-kva.example", "a_b.example.com"])
def test_a_real_client_is_understood(name: str) -> None:
    hello = real_hello(name)

    assert read_server_name(hello) == ServerName(HelloState.FOUND, name)
    assert name_seen_by_a_server(hello) == (True, name)


def test_a_real_client_without_a_name_has_none() -> None:
    assert read_server_name(real_hello(None)) == ABSENT


def test_every_beginning_needs_more() -> None:
    hello = real_hello("example.com")

    assert {read_server_name(hello[:length]) for length in range(len(hello))} == {MORE}
    assert read_server_name(hello) == EXAMPLE


@pytest.mark.parametrize("size", [3, 4, 5, 40, 79, len(PLAIN) - 1, len(PLAIN)])
def test_a_hello_may_be_cut_into_records(size: int) -> None:
    stream = records(PLAIN, size)

    assert read_server_name(stream) == EXAMPLE
    assert {read_server_name(stream[:length]) for length in range(len(stream))} == {MORE}


def test_records_of_a_byte_each_are_not_endured() -> None:
    assert read_server_name(records(PLAIN, 1)) == MALFORMED


def test_early_data_may_follow() -> None:
    assert read_server_name(records(PLAIN) + EARLY_DATA) == EXAMPLE


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (b"Example.COM", "example.com"),
        (b"example.com.", "example.com"),
        (b"a.b-c.example", "a.b-c.example"),
        (b"10.0.0.5", "10.0.0.5"),
        (b"::ffff:127.0.0.1", "127.0.0.1"),
        (b"localhost", "localhost"),
    ],
)
def test_names_are_canonical(written: bytes, name: str) -> None:
    hello = records(client_hello([server_name(written)]))

    assert read_server_name(hello) == ServerName(HelloState.FOUND, name)


@pytest.mark.parametrize(
    "written",
    [
        *(
            b"",
            b".",
            b"evil.test\x00.allowed.com",
            b"allowed.com\x00",
            b"ex\xc3\xa4mple.com",
            b"\xff",
            b"a b.com",
        ),
        *(b"allowed.com@evil.test", b"*", b"*.example.com", b"example.com..", b".example.com", b"a..b"),
        *(b"0x7f.1", b"0x7f000001", b"2130706433", b"127.1", b"0177.0.0.1", b"fe80::1%eth0", b"[::1]"),
        *(b"a b.com", b"a/b"),
        *(
            b"example.com:443",
            b"-a.com",
            b"a" * 64 + b".com",
            b"a." * 127 + b"com",
            b"example.com\r\n",
            b"a/b",
        ),
    ],
)
def test_what_is_no_host_is_malformed(written: bytes) -> None:
    assert read_server_name(records(client_hello([server_name(written)]))) == MALFORMED


@pytest.mark.parametrize(
    "extensions",
    [
        [server_name(b"a.example"), server_name(b"b.example")],
        [server_name(b"a.example"), (10, b""), server_name(b"a.example")],
        [server_name(b"example.com"), (0x0A0A, b""), (0x0A0A, b"")],
        [server_name(b"a.example", b"b.example")],
        [server_name(b"example.com", kind=1)],
        [(0, vector(2, b"\x01\x00\x01x" + b"\x00" + vector(2, b"example.com")))],
        [(0, b"")],
        [(0, b"\x00\x00")],
        [(0, vector(2, b"\x00" + vector(2, b"example.com")) + b"x")],
        [(0, vector(2, b"\x00" + vector(2, b"example.com") + b"x"))],
        [(0, vector(2, b"\x00\x00\xffexample.com"))],
        [(0, b"\x00\xff\x00" + vector(2, b"example.com"))],
    ],
)
def test_names_that_can_be_read_in_two_ways_are_malformed(extensions: list[tuple[int, bytes]]) -> None:
    assert read_server_name(records(client_hello(extensions))) == MALFORMED


def test_grease_and_unknown_extensions_are_skipped() -> None:
    grease = [(0x0A0A, b""), (0x1A1A, b"\x00"), server_name(b"example.com"), (0xFFFF, b"x" * 100)]

    assert read_server_name(records(client_hello(grease, suites=b"\x2a\x2a\x13\x01"))) == EXAMPLE


def test_of_an_encrypted_hello_the_outer_name_counts() -> None:
    encrypted = [(0xFE0D, b"\x00" * 200), server_name(b"example.com")]

    assert read_server_name(records(client_hello(encrypted))) == EXAMPLE
    assert read_server_name(records(client_hello([(0xFE0D, b"\x00" * 200)]))) == ABSENT
    assert read_server_name(records(client_hello([(0xFFCE, b"\x00" * 200)]))) == ABSENT


@pytest.mark.parametrize("extensions", [None, [], [(10, b"\x00\x02\x00\x1d")]])
def test_a_hello_without_a_name_is_complete(extensions: list[tuple[int, bytes]] | None) -> None:
    assert read_server_name(records(client_hello(extensions))) == ABSENT


@pytest.mark.parametrize(
    "message",
    [
        client_hello([server_name(b"example.com")], rest=b"x"),
        client_hello(None, rest=b"\x00"),
        client_hello([server_name(b"example.com")], version=b"\x02\x00"),
        client_hello([server_name(b"example.com")], version=b"\xfe\xfd"),
        client_hello([server_name(b"example.com")], session=bytes(33)),
        client_hello([server_name(b"example.com")], suites=b""),
        client_hello([server_name(b"example.com")], suites=b"\x13\x01\x00"),
        client_hello([server_name(b"example.com")], compressions=b""),
        b"\x02" + PLAIN[1:],
        b"\x00\x00\x00\x00" + PLAIN,
        b"\x01\x00\x00\x00",
        b"\x01\x00\x00\x02\x03\x03",
        b"\x01" + (MOST_HELLO + 1).to_bytes(3) + PLAIN[4:],
        PLAIN + b"\x01",
        PLAIN + PLAIN,
    ],
)
def test_broken_messages_are_malformed(message: bytes) -> None:
    assert read_server_name(records(message)) == MALFORMED


@pytest.mark.parametrize(
    "stream",
    [
        records(PLAIN[:20]) + b"\x14\x03\x03\x00\x01\x01" + records(PLAIN[20:]),
        records(PLAIN[:20]) + b"\x15\x03\x03\x00\x02\x01\x00" + records(PLAIN[20:]),
        records(PLAIN[:20]) + b"\x16\x03\x01\x00\x00" + records(PLAIN[20:]),
        b"\x16\x03\x01\x00\x00" + records(PLAIN),
        b"\x16\x03\x01\x40\x01" + PLAIN + bytes(2**14),
        records(PLAIN[:20]) + b"\x16\x02\x00" + vector(2, PLAIN[20:]),
    ],
    ids=["other record", "alert", "empty record", "empty first", "long record", "other version"],
)
def test_records_that_do_not_belong_are_malformed(stream: bytes) -> None:
    assert read_server_name(stream) == MALFORMED


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"GET / HTTP/1.1\r\n\r\n",
            b"SSH-2.0-OpenSSH\r\n",
            b"\x00",
            b"\x80\x2e\x01\x03\x01",
            b"\x16\x02",
            b"\x17",
        ),
        *(
            b"\x15\x03\x01\x00\x02\x01\x00",
            b"\x14\x03\x01\x00\x01\x01",
            b"\x16\x02",
            b"\x16\xfe\xff" + bytes(40),
        ),
    ],
)
def test_what_is_no_tls_is_known_by_its_first_bytes(data: bytes) -> None:
    assert read_server_name(data) == NOT_TLS


def test_a_hello_of_the_largest_size_is_read_and_a_longer_one_is_not_waited_for() -> None:
    room = MOST_HELLO - 2 * 5 - len(client_hello([server_name(b"example.com"), (21, b"")]))
    largest = records(client_hello([server_name(b"example.com"), (21, bytes(room))]))
    longer = records(client_hello([server_name(b"example.com"), (21, bytes(room + 1))]))

    assert len(largest) == MOST_HELLO
    assert read_server_name(largest) == EXAMPLE
    assert read_server_name(longer[:MOST_HELLO]) == MALFORMED
    assert read_server_name(longer) == MALFORMED


def test_one_byte_at_a_time_does_not_take_the_time_of_all_others() -> None:
    """The whole of a largest hello, read anew after each of its bytes, costs less than its packets do."""
    largest = records(client_hello([server_name(b"example.com"), (21, bytes(MOST_HELLO - 1000))]), 600)
    started = time.thread_time()

    states = {read_server_name(largest[:length]).state for length in range(0, len(largest), 8)}

    assert states == {HelloState.MORE}
    assert time.thread_time() - started < 5
