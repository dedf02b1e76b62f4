"""Laws of the wire: nothing that a sandbox sends breaks a parser, and what is accepted has one meaning."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from corral.model.network.endpoint import parse_one_host
from corral.network.wire.dns import answer, answer_malformed, build_frame, parse_query, split_frames
from corral.network.wire.http1 import MOST_HEAD, Mismatch, RequestWatch
from corral.network.wire.tls import HelloState, read_server_name
from support.examples import examples
from support.lenient_server import READERS
from support.wire_messages import (
    OPT,
    client_hello,
    dns_name,
    dns_query,
    name_seen_by_a_server,
    real_hello,
    records,
    server_name,
)

labels = st.from_regex(r"[A-Za-z_]([A-Za-z0-9_-]{0,20}[A-Za-z0-9_])?", fullmatch=True)
names = st.lists(labels, min_size=1, max_size=5).map(".".join)
packets = st.binary(max_size=600)


@st.composite
def broken(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """A message with a few bytes changed, taken out or put in."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(["change", "remove", "insert", "end"])):
            case "change":
                data[position : position + 1] = draw(st.binary(min_size=1, max_size=1))
            case "remove":
                del data[position : position + draw(st.integers(1, 4))]
            case "insert":
                data[position:position] = draw(st.binary(max_size=4))
            case "end":
                del data[position:]
    return bytes(data)


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


queries = st.builds(
    lambda name, kind, edns: dns_query(name, kind, counts=(1, 0, 0, int(edns)), rest=OPT if edns else b""),
    names,
    st.sampled_from([1, 28, 16, 65, 255]),
    st.booleans(),
)


@given(names, st.integers(0, 65535), st.booleans())
def test_a_question_is_read_as_it_was_written(name: str, kind: int, edns: bool) -> None:
    query = parse_query(dns_query(name, kind, counts=(1, 0, 0, int(edns)), rest=OPT if edns else b""))

    assert query is not None
    assert (query.name, query.kind, query.edns) == (name.lower(), kind, edns)
    assert query.question == dns_name(name) + struct.pack("!2H", kind, 1)


@given(st.one_of(packets, broken(queries)))
def test_a_packet_is_a_question_for_a_canonical_name_or_malformed(packet: bytes) -> None:
    query = parse_query(packet)

    if query is None:
        said = answer_malformed(packet)
        assert said is None or (len(said) == 12 and said[:2] == packet[:2])
        return
    assert query.name == "" or parse_one_host(query.name) == query.name
    assert dns_name(query.name) == query.question[:-4].lower()
    assert packet[12:].startswith(query.question)
    reply = answer(query, ["198.18.0.1", "fd00::1"], ttl=1)
    assert reply[:2] == packet[:2]
    assert reply[12:].startswith(query.question)
    assert len(reply) <= 512


@given(st.lists(st.binary(max_size=50), max_size=6), st.lists(st.integers(0, 400), max_size=8))
def test_a_stream_has_the_same_packets_however_it_is_cut(packets: list[bytes], cuts: list[int]) -> None:
    buffer = bytearray()
    taken = []
    for piece in pieces_of(b"".join(map(build_frame, packets)), cuts):
        buffer += piece
        taken += split_frames(buffer)

    assert taken == packets
    assert buffer == b""


hellos = st.builds(
    lambda name, size: records(client_hello([(10, b"\x00\x1d"), server_name(name.encode())]), size),
    names,
    st.integers(4, 400),
)
REAL = real_hello("example.com")


@given(names, st.integers(4, 400))
def test_a_name_is_found_however_the_hello_is_cut(name: str, size: int) -> None:
    stream = records(client_hello([(10, b"\x00\x1d"), server_name(name.encode())]), size)

    found = read_server_name(stream)

    assert (found.state, found.name) == (HelloState.FOUND, name.lower())


@given(st.one_of(packets, broken(hellos), broken(st.just(REAL))), st.binary(max_size=100))
def test_what_was_once_decided_stays_so(stream: bytes, more: bytes) -> None:
    decided = read_server_name(b"")
    for length in range(0, len(stream) + 1, 3):
        now = read_server_name(stream[:length])
        assert decided.state is HelloState.MORE or now == decided
        decided = now
    now = read_server_name(stream + more)

    assert decided.state is HelloState.MORE or read_server_name(stream) == decided
    assert read_server_name(stream).state is HelloState.MORE or now == read_server_name(stream)
    assert (now.name != "") == (now.state is HelloState.FOUND)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a name that is not ASCII
@examples(400)
@given(broken(st.just(REAL)), st.integers(0, 600))
@example(REAL, 0)
@example(REAL, 40)
def test_the_name_that_is_found_is_the_one_that_a_server_sees(stream: bytes, size: int) -> None:
    """With the TLS library of this machine as the server: it may refuse what we accept, and no more."""
    if size > 30 and len(stream) > 5:
        stream = records(stream[5:], size)
    found = read_server_name(stream)
    is_read, name = name_seen_by_a_server(stream)

    event(f"{found.state.value}, {'read' if is_read else 'refused'}")
    if is_read and found.state is HelloState.FOUND:
        assert name is not None
        assert parse_one_host(name) == found.name
    if is_read and found.state is HelloState.ABSENT:
        assert name is None
    if is_read and name is not None:
        assert found.state in {HelloState.FOUND, HelloState.MALFORMED}


#: What requests are made of, when somebody wants two servers to read them differently.
LINE_ENDS = [b"\r\n"] * 12 + [b"\n", b"\r", b"\r\r\n", b"\x00\r\n", b" \r\n"]
FIRST_LINES = [
    *([b"POST / HTTP/1.1"] * 6),
    *(
        b"GET / HTTP/1.1",
        b"POST / HTTP/1.0",
        b"GET http://evil.test/ HTTP/1.1",
        b"POST /",
        b"HEAD / HTTP/1.1",
    ),
    *(b"GET http://example.com/ HTTP/1.1", b"GET http://example.com@evil.test/ HTTP/1.1", b"GET  / HTTP/1.1"),
]
FIELDS = [
    *([b"Host: example.com"] * 6),
    *(
        b"Host: evil.test",
        b"Host : evil.test",
        b" Host: evil.test",
        b"X: y",
        b"Host: example.com:80",
        b"host:Example.COM",
    ),
    *(
        b"Content-Length: 5",
        b"Content-Length: 0",
        b"Content-Length: 05",
        b"Content-Length: 5, 6",
        b"Content-Length : 3",
    ),
    *(
        b"content-length:4",
        b"Content_Length: 7",
        b"Content-Length: +5",
        b"\tContent-Length: 9",
        b"Content-Length:",
    ),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: CHUNKED ", b"Transfer-Encoding: identity, chunked"),
    *(
        b"Transfer-Encoding: x\x00chunked",
        b"Transfer-Encoding : chunked",
        b"Transfer_Encoding: chunked",
        b"Host_: a",
    ),
    *(b"X: y\nHost: evil.test", b"X: y\rHost: evil.test", b"X: y\r\n Host: evil.test", b"", b"no field"),
]
EVIL = b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"
BODIES = [
    *([b""] * 4),
    *(
        b"hello",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"0\r\n\r\n",
        b"5;a\r\nhello\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"05\r\nhello\r\n0\r\n\r\n",
    ),
    *(
        b"0\r\nHost: evil.test\r\n\r\n",
        b"0\r\nX: y\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"%x\r\n" % len(EVIL) + EVIL + b"\r\n0\r\n\r\n",
    ),
    *(EVIL, b"0\r\n\r\n" + EVIL, b"5\r\n" + EVIL),
]


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request that is a good one now and then."""
    lines = [draw(st.sampled_from(FIRST_LINES)), *draw(st.lists(st.sampled_from(FIELDS), max_size=3))]
    if draw(st.integers(0, 9)):
        lines.insert(1, b"Host: example.com")
    head = b"".join(line + draw(st.sampled_from(LINE_ENDS)) for line in lines)
    return head + draw(st.sampled_from(LINE_ENDS)) + draw(st.sampled_from(BODIES))


#: Good ones, so that bodies and second requests are reached.
good_requests = st.builds(
    lambda fields, framed: b"POST / HTTP/1.1\r\nHost: example.com\r\n" + b"".join(fields) + framed,
    st.lists(st.sampled_from([b"X: y\r\n", b"Accept: */*\r\n", b"X_Y:\r\n"]), max_size=2),
    st.sampled_from(
        [
            b"\r\n",
            b"Content-Length: 5\r\n\r\nhello",
            b"Content-Length: %d\r\n\r\n" % len(EVIL) + EVIL,
            b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(EVIL) + EVIL + b"\r\n0\r\nX: y\r\n\r\n",
        ]
    ),
)
streams = st.lists(st.one_of(requests(), good_requests, broken(good_requests)), min_size=1, max_size=3).map(
    b"".join
)


def watch(pieces: list[bytes]) -> tuple[bytes, object]:
    """What has passed of a stream, and why it was refused."""
    found = RequestWatch("example.com", 80)
    passed = b""
    try:
        for piece in pieces:
            passed += found.feed(piece)
    except Mismatch as mismatch:
        return passed, mismatch.reason
    return passed, None


@examples(500)
@given(st.one_of(streams, packets), st.lists(st.integers(0, 2000), max_size=8))
def test_a_stream_has_the_same_fate_however_it_is_cut(stream: bytes, cuts: list[int]) -> None:
    whole, reason = watch([stream])
    passed, other_reason = watch(pieces_of(stream, cuts))
    each, last_reason = watch(pieces_of(stream, list(range(len(stream)))))

    assert reason == other_reason == last_reason
    assert stream.startswith(each)
    assert each.startswith(passed)
    assert passed.startswith(whole)
    assert reason or whole == passed == each
    assert reason or len(stream) - len(whole) <= MOST_HEAD


@examples(1500)
@given(streams)
@example(b"POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
def test_whatever_passes_every_server_reads_as_requests_for_the_host(stream: bytes) -> None:
    """Byte by byte, so that all that can pass has passed before something is found to be wrong."""
    passed, reason = watch(pieces_of(stream, list(range(len(stream)))))
    event("refused" if reason else "passed" if passed == stream else "held")

    seen = {tuple(reader.requests(passed)) for reader in READERS}

    assert len(seen) == 1
    assert set(seen.pop()) <= {b"example.com"}


@pytest.mark.parametrize(
    "stream",
    [
        b"POST / HTTP/1.1\r\nHost: example.com\r\nHost: evil.test\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: example.com\r\nX: y\n\n" + EVIL,
        b"POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 35\r\nContent-Length: 0\r\n\r\n" + EVIL,
        b"POST / HTTP/1.1\r\nHost: example.com\r\nContent_Length: 0\r\nContent-Length: 35\r\n\r\n" + EVIL,
        b"POST / HTTP/1.1\r\nHost: example.com\r\nX: y\r\n Content-Length: 35\r\n\r\n" + EVIL,
        b"POST / HTTP/1.1\r\nHost: example.com\r\nX: y\rContent-Length: 35\r\n\r\n" + EVIL,
        b"POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\nHost: evil.test\r\n\r\n",
    ],
)
def test_the_servers_of_these_laws_do_differ(stream: bytes) -> None:
    """A control: left alone, each of these is read in several ways, and is refused."""
    assert len({tuple(reader.requests(stream)) for reader in READERS}) > 1
    assert watch([stream])[1] is not None
