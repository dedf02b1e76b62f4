"""DNS packets: which questions are understood, and what the answers are made of."""

from __future__ import annotations

import struct

import pytest

from corral.network.wire.dns import (
    MOST_QUERY,
    Query,
    answer,
    answer_failure,
    answer_malformed,
    answer_nxdomain,
    build_frame,
    parse_query,
    split_frames,
)
from support.wire_messages import OPT, dns_name, dns_query

LONGEST = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])


def header(packet: bytes) -> tuple[int, ...]:
    return struct.unpack_from("!6H", packet)


def asked(name: str = "example.com", kind: int = 1, **fields: object) -> Query:
    query = parse_query(dns_query(name, kind, **fields))
    assert query is not None
    return query


def test_a_plain_question_is_read() -> None:
    packet = dns_query("example.com", 28, identity=0xBEEF)

    assert parse_query(packet) == Query(0xBEEF, "example.com", 28, packet[12:], True, False)


def test_an_edns_record_is_noticed() -> None:
    packet = dns_query("example.com", counts=(1, 0, 0, 1), rest=OPT)

    query = parse_query(packet)

    assert query == Query(0x1234, "example.com", 1, packet[12 : -len(OPT)], True, True)


def test_a_cookie_within_edns_is_skipped() -> None:
    with_cookie = OPT[:-2] + struct.pack("!3H", 12, 10, 8) + b"cookies!"

    query = parse_query(dns_query("example.com", counts=(1, 0, 0, 1), rest=with_cookie))

    assert query is not None
    assert query.edns


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Example.COM", "example.com"),
        ("_http._tcp.example.com", "_http._tcp.example.com"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("1.0.0.127.in-addr.arpa", "1.0.0.127.in-addr.arpa"),
        ("localhost", "localhost"),
        ("10.0.0.5", "10.0.0.5"),
        (
            ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61]),
            ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61]),
        ),
        ("", ""),
    ],
)
def test_names_are_canonical(written: str, name: str) -> None:
    assert asked(written).name == name


def test_a_client_that_wants_no_recursion_is_told_so() -> None:
    query = asked(flags=0)

    assert not query.recursion
    assert header(answer_nxdomain(query))[1] == 0x8083


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (b"\x0ballowed.com\x00", "a dot within a label"),
        (b"\x0cevil\x00allowed\x03com\x00", "NUL"),
        (b"\x07ex\xc3\xa4mpl\x03com\x00", "not ASCII"),
        (b"\x01*\x07example\x03com\x00", "a pattern"),
        (b"\x01*\x00", "the pattern for everything"),
        (b"\x09a@evil-co\x03com\x00", "an at sign"),
        (b"\x04-bad\x03com\x00", "a dash in front"),
        (b"\x03a b\x03com\x00", "a space"),
        (b"\x040x7f\x011\x00", "an address in hex"),
        (b"\x080x7f0001\x00", "an address in hex, as one label"),
        (b"\x0a2130706433\x00", "an address as one number"),
        (b"\x03127\x011\x00", "a short address"),
        (b"\x040127\x010\x010\x011\x00", "an address in octal"),
        (b"\x40" + b"a" * 64 + b"\x00", "a label of 64"),
        (b"\xc0\x0c", "a pointer to itself"),
        (b"\x01a\xc0\x0c", "a pointer after a label"),
        (dns_name(".".join(["a" * 63] * 4)), "a name of 255 letters"),
        (b"\x01a" * 1000 + b"\x00", "a thousand labels"),
    ],
)
def test_what_is_no_host_is_malformed(name: bytes, why: str) -> None:
    assert parse_query(dns_query(name)) is None, why


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"\x12",
        dns_query("example.com")[:12],
        dns_query("example.com", flags=0x8100),
        dns_query("example.com", flags=0x2800),
        dns_query("example.com", counts=(0, 0, 0, 0)),
        dns_query("example.com", counts=(2, 0, 0, 0)) + dns_name("evil.test") + b"\x00\x01\x00\x01",
        dns_query("example.com", counts=(1, 1, 0, 0)),
        dns_query("example.com", counts=(1, 0, 1, 0)),
        dns_query("example.com", counts=(1, 0, 0, 1)),
        dns_query("example.com", counts=(1, 0, 0, 2), rest=OPT + OPT),
        dns_query("example.com", counts=(1, 0, 0, 1), rest=OPT[:-1]),
        dns_query("example.com", counts=(1, 0, 0, 1), rest=OPT + b"x"),
        dns_query("example.com", counts=(1, 0, 0, 1), rest=b"\x01a" + OPT),
        dns_query("example.com", counts=(1, 0, 0, 1), rest=b"\x00" + struct.pack("!2HIH", 250, 255, 0, 0)),
        dns_query("example.com", network=3),
        dns_query("example.com", network=255),
        dns_query("example.com", rest=b"x"),
        dns_query("example.com", counts=(1, 0, 0, 1), rest=OPT[:-2] + struct.pack("!H", 5000) + bytes(5000)),
        bytes(100_000),
    ],
)
def test_all_but_one_plain_question_is_malformed(packet: bytes) -> None:
    assert parse_query(packet) is None


def test_every_beginning_of_a_question_is_malformed() -> None:
    packet = dns_query("www.example.com", counts=(1, 0, 0, 1), rest=OPT)

    assert parse_query(packet) is not None
    assert [length for length in range(len(packet)) if parse_query(packet[:length])] == []


def test_an_answer_has_the_question_letter_by_letter_and_the_addresses() -> None:
    query = asked("eXaMpLe.CoM")

    reply = answer(query, ["198.18.0.1", "2001:db8::1"], ttl=60)

    assert header(reply) == (0x1234, 0x8180, 1, 1, 0, 0)
    record = b"\xc0\x0c" + struct.pack("!2HIH", 1, 1, 60, 4) + bytes([198, 18, 0, 1])
    assert reply[12:] == dns_name("eXaMpLe.CoM") + b"\x00\x01\x00\x01" + record


def test_ipv6_addresses_answer_only_the_question_for_them() -> None:
    reply = answer(asked(kind=28), ["198.18.0.1", "fd00::5"], ttl=1)

    assert header(reply)[3] == 1
    assert reply.endswith(b"\x00\x10\xfd" + bytes(14) + b"\x05")


@pytest.mark.parametrize("kind", [15, 16, 33, 64, 65, 255, 12])
def test_other_questions_have_an_empty_answer(kind: int) -> None:
    reply = answer(asked(kind=kind), ["198.18.0.1", "fd00::5"], ttl=1)

    assert header(reply) == (0x1234, 0x8180, 1, 0, 0, 0)


def test_edns_is_answered_with_edns() -> None:
    query = asked(counts=(1, 0, 0, 1), rest=OPT)

    reply = answer_nxdomain(query)

    assert header(reply) == (0x1234, 0x8183, 1, 0, 0, 1)
    assert reply[12 + len(query.question) :] == b"\x00" + struct.pack("!2HIH", 41, 512, 0, 0)


def test_no_answer_is_longer_than_every_client_takes() -> None:
    query = asked(LONGEST, 28, counts=(1, 0, 0, 1), rest=OPT)

    reply = answer(query, [f"fd00::{number}" for number in range(100)], ttl=2**40)

    assert header(reply)[3] == 8
    assert len(reply) <= 512


def test_failures_have_codes_of_their_own() -> None:
    assert header(answer_failure(asked())) == (0x1234, 0x8182, 1, 0, 0, 0)
    assert header(answer_nxdomain(asked())) == (0x1234, 0x8183, 1, 0, 0, 0)


@pytest.mark.parametrize(
    ("packet", "reply"),
    [
        (b"\x12", None),
        (b"\x12\x34", (0x1234, 0x8081)),
        (b"\x12\x34\x01\x00garbage", (0x1234, 0x8181)),
        (dns_query("example.com", flags=0x8100), None),
        (dns_query("example.com", flags=0x2900), (0x1234, 0xA984)),
        (bytes(100_000), (0, 0x8081)),
    ],
)
def test_what_is_malformed_is_called_so(packet: bytes, reply: tuple[int, int] | None) -> None:
    said = answer_malformed(packet)

    assert (said and header(said)) == (reply and (*reply, 0, 0, 0, 0))


def test_packets_of_a_stream_are_taken_off_as_they_become_whole() -> None:
    first, second = dns_query("one.example"), dns_query("two.example")
    stream = build_frame(first) + build_frame(second)
    buffer = bytearray()

    taken = []
    for byte in stream:
        buffer.append(byte)
        taken.append(split_frames(buffer))

    assert [frames for frames in taken if frames] == [[first], [second]]
    assert split_frames(bytearray(stream)) == [first, second]
    assert buffer == b""


def test_a_stream_cannot_announce_more_than_a_query_has() -> None:
    with pytest.raises(ValueError, match="the most is 4096"):
        split_frames(bytearray(struct.pack("!H", MOST_QUERY + 1)))
