"""Requests on a plain connection: what passes, what is held, and what ends the connection."""

from __future__ import annotations

import time

import pytest

from corral.model.network.traffic import NetReason
from corral.network.wire.http1 import MOST_HEAD, Mismatch, RequestWatch

HOST = b"Host: example.com\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"


def request(*fields: bytes, first: bytes = b"POST /path HTTP/1.1", host: bytes = HOST) -> bytes:
    return first + b"\r\n" + host + b"".join(field + b"\r\n" for field in fields) + b"\r\n"


def watched(host: str = "example.com", port: int = 80) -> RequestWatch:
    return RequestWatch(host, port)


def refusal(data: bytes, host: str = "example.com", port: int = 80) -> NetReason | None:
    """Why a stream is refused; the same however it is cut."""
    reasons = set()
    for size in (1, 7, len(data)):
        watch = watched(host, port)
        try:
            passed = b"".join(watch.feed(data[start : start + size]) for start in range(0, len(data), size))
            assert data.startswith(passed)
            reasons.add(None)
        except Mismatch as mismatch:
            reasons.add(mismatch.reason)
    (reason,) = reasons
    return reason


@pytest.mark.parametrize(
    "stream",
    [
        GET,
        GET + GET + GET,
        b"GET / HTTP/1.0\r\nHost: example.com\r\n\r\n",
        b"GET /%20?a=b HTTP/1.1\r\nhOST:Example.COM.:80\t \r\nAccept: */*\r\n\r\n",
        b"GET /\xc3\xbc HTTP/1.1\r\nUser-Agent: \xc3\xbc\r\n" + HOST + b"\r\n",
        b"GET //evil.test/x HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET http://example.com/path HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET HTTP://EXAMPLE.com:80 HTTP/1.1\r\n" + HOST + b"\r\n",
        b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET / HTTP/1.1\r\nX-Empty:\r\n" + HOST + b"Upgrade-Insecure-Requests: 1\r\n\r\n",
        request(b"Content-Length: 0") + GET,
        request(b"Content-Length: 5", b"Expect: 100-continue") + b"\x00\r\n\n\xff" + GET,
        request(b"Content-Length: 5", first=b"GET / HTTP/1.1") + b"hello" + GET,
        request(b"Transfer-Encoding: Chunked") + b"5\r\nhello\r\n00a\r\n0123456789\r\n0\r\n\r\n" + GET,
        request(b"Transfer-Encoding: chunked")
        + b"1F\r\n"
        + b"\r\n" * 15
        + b"x\r\n0\r\nA: b\r\nC:\r\n\r\n"
        + GET,
    ],
)
def test_requests_for_the_host_pass_byte_by_byte(stream: bytes) -> None:
    watch, by_bytes = watched(), watched()

    assert watch.feed(stream) == stream
    assert b"".join(by_bytes.feed(bytes([byte])) for byte in stream) == stream
    assert not watch.awaits_answer


def test_a_head_is_held_until_it_is_whole_and_bodies_pass_as_they_come() -> None:
    watch = watched()
    head = request(b"Content-Length: 10")

    assert watch.feed(head[:-1]) == b""
    assert watch.feed(head[-1:] + b"abc") == head + b"abc"
    assert watch.feed(b"defg") == b"defg"
    assert watch.feed(b"hijGET /") == b"hij"
    assert watch.feed(b" HTTP/1.1\r\n" + HOST) == b""
    assert watch.feed(b"\r\n") == b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"


def test_of_a_body_nothing_is_copied() -> None:
    watch = watched()
    watch.feed(request(b"Content-Length: 2000000"))
    slices = b"x" * 1_000_000

    assert watch.body_left == 2_000_000
    assert watch.feed(slices) is slices
    watch.skip(999_999)
    assert watch.feed(b"x" + GET) == b"x" + GET
    assert watch.body_left == 0


def test_no_more_than_the_body_passes_unseen() -> None:
    watch = watched()
    watch.feed(request(b"Transfer-Encoding: chunked") + b"5\r\nhe")

    with pytest.raises(ValueError, match="of 3 that may pass unseen"):
        watch.skip(4)
    watch.skip(3)
    assert watch.body_left == 0
    assert watch.feed(b"\r\n0\r\n\r\n") == b"\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("host", "port", "written"),
    [
        ("example.com", 8080, b"example.com:8080"),
        ("example.com", 8080, b"example.com"),
        ("10.0.0.5", 80, b"10.0.0.5"),
        ("127.0.0.1", 80, b"[::ffff:127.0.0.1]:80"),
        ("::1", 80, b"[::1]"),
        ("::1", 80, b"[0:0::1]:80"),
        ("localhost", 80, b"LocalHost:80"),
        ("xn--bcher-kva.example", 80, b"xn--bcher-kva.example"),
    ],
)
def test_one_host_has_several_spellings(host: str, port: int, written: bytes) -> None:
    assert refusal(request(host=b"Host: " + written + b"\r\n"), host, port) is None


@pytest.mark.parametrize(
    "written",
    [
        *(b"evil.test", b"allowed.example.com", b"example.com.evil.test", b"evilexample.com", b"com"),
        *(
            b"example.com@evil.test",
            b"evil.test\\@example.com",
            b"example.com, evil.test",
            b"example.com evil.test",
        ),
        *(b"example.com:443", b"example.com:", b"example.com:080", b"example.com:80:80", b"example.com:80x"),
        *(
            b"*",
            b"*.com",
            b"*.example.com",
            b"example.com..",
            b".example.com",
            b"ex\xc3\xa4mple.com",
            b"[example.com]",
        ),
        *(
            b"http://example.com",
            b"example.com/",
            b"example.com#",
            b"127.0.0.1",
            b"0x7f.1",
            b"2130706433",
            b"[::1]",
        ),
        *(b"\xe2\x84\xaaexample.com", b"[example.com", b"example.com]", b"[::1]]", b"[::1%25lo]", b"::1"),
    ],
)
def test_another_host_ends_the_connection(written: bytes) -> None:
    assert refusal(request(host=b"Host: " + written + b"\r\n")) is NetReason.OTHER_NAME


def test_a_port_that_is_not_the_connections_is_another_host() -> None:
    assert refusal(request(host=b"Host: example.com:80\r\n"), "example.com", 8080) is NetReason.OTHER_NAME


def test_the_second_request_is_looked_at_as_the_first_is() -> None:
    other = GET.replace(b"example.com", b"evil.test")

    assert refusal(GET + other) is NetReason.OTHER_NAME
    assert refusal(request(b"Content-Length: 5") + b"hello" + other) is NetReason.OTHER_NAME
    assert refusal(request(b"Transfer-Encoding: chunked") + b"0\r\n\r\n" + other) is NetReason.OTHER_NAME


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (request(host=b""), NetReason.NO_NAME),
        (request(host=b"Host:\r\n"), NetReason.NO_NAME),
        (request(host=b"Host: \t\r\n"), NetReason.NO_NAME),
        (request(host=b"", first=b"GET / HTTP/1.0"), NetReason.NO_NAME),
        (request(host=b"", first=b"GET http://example.com/ HTTP/1.1"), NetReason.NO_NAME),
        (request(host=HOST + HOST), NetReason.OTHER_NAME),
        (request(host=HOST + b"host: evil.test\r\n"), NetReason.OTHER_NAME),
        (request(host=HOST + b"Host:\r\n"), NetReason.OTHER_NAME),
    ],
)
def test_a_request_names_its_host_once(stream: bytes, reason: NetReason) -> None:
    assert refusal(stream) is reason


@pytest.mark.parametrize(
    "target",
    [
        *(b"http://evil.test/", b"http://example.com@evil.test/", b"http://example.com:81/", b"http:///"),
        *(
            b"http://evil.test?http://example.com/",
            b"http://example.com?@evil.test/",
            b"http://example.com#@evil/",
        ),
        *(b"http://example.com\\@evil.test/", b"http://", b"http://example.com?", b"HTTP://evil.test"),
    ],
)
def test_a_target_with_another_host_ends_the_connection(target: bytes) -> None:
    assert refusal(request(first=b"GET " + target + b" HTTP/1.1")) is NetReason.OTHER_NAME


@pytest.mark.parametrize(
    "first",
    [
        *(
            b"GET / HTTP/2.0",
            b"GET / HTTP/1.2",
            b"GET / HTTP/1.1 ",
            b"GET / http/1.1",
            b"GET /",
            b"GET",
            b"GET  / HTTP/1.1",
        ),
        *(
            b"GET /a b HTTP/1.1",
            b"GET /\tHTTP/1.1",
            b"GET\t/ HTTP/1.1",
            b" GET / HTTP/1.1",
            b"G(T / HTTP/1.1",
        ),
        *(b"GET / HTTP/1.1\x00", b"GET /\x00 HTTP/1.1", b"GET /\x7f HTTP/1.1", b"GET /\x0bHTTP/1.1 HTTP/1.1"),
        *(
            b"GET https://example.com/ HTTP/1.1",
            b"GET example.com/ HTTP/1.1",
            b"GET * HTTP/1.1",
            b"GET ftp://a HTTP/1.1",
        ),
        *(
            b"CONNECT example.com:80 HTTP/1.1",
            b"CONNECT / HTTP/1.1",
            b"connect / HTTP/1.1",
            b"GET ?a HTTP/1.1",
        ),
        *(b"OPTIONS ** HTTP/1.1", b"GET http:/\\example.com/ HTTP/1.1", b"A" * 33 + b" / HTTP/1.1", b""),
    ],
)
def test_first_lines_that_are_not_of_this_protocol(first: bytes) -> None:
    assert refusal(request(first=first)) is NetReason.NOT_HTTP


@pytest.mark.parametrize(
    "field",
    [
        *(
            b"X : y",
            b" X: y",
            b"\tX: y",
            b"X\t: y",
            b"X y",
            b": y",
            b"X\x00: y",
            b"X: \x00",
            b"X: a\rb",
            b"X: a\x0bb",
        ),
        *(
            b"X: a\x7f",
            b"X: a\x1fb",
            b"\xc3\xa4: y",
            b"X(: y",
            b"Host : evil.test",
            b" Host: evil.test",
            b"X: y\r",
        ),
        *(b"X: a\nHost: evil.test", b"X: a\rHost: evil.test", b"X: a\r\r", b"X: a\n", b"\nX: a", b"\rX: a"),
        *(b"Content-Length: 5\n\nGET / HTTP/1.1", b"X: a\n\r\nGET / HTTP/1.1"),
    ],
)
def test_fields_that_some_servers_read_otherwise(field: bytes) -> None:
    assert refusal(request(field)) is NetReason.NOT_HTTP
    assert (
        refusal(request(b"Transfer-Encoding: chunked") + b"0\r\n" + field + b"\r\n\r\n") is NetReason.NOT_HTTP
    )


@pytest.mark.parametrize(
    "fields",
    [
        [b"Content-Length: 5", b"Content-Length: 5"],
        [b"Content-Length: 5", b"Content-Length: 6"],
        [b"Content-Length: 5", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: chunked", b"Content-Length: 0"],
        [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: identity, chunked"],
        [b"Transfer-Encoding: identity"],
        [b"Transfer-Encoding: chunked, identity"],
        [b"Transfer-Encoding: gzip, chunked"],
        [b"Transfer-Encoding: chunked, chunked"],
        [b"Transfer-Encoding: xchunked"],
        [b"Transfer-Encoding: chunked;q=1"],
        [b'Transfer-Encoding: "chunked"'],
        [b"Transfer-Encoding:"],
        [b"Transfer-Encoding: chunked\xa0"],
        [b"Transfer_Encoding: chunked"],
        [b"Content_Length: 5"],
        *(
            [b"Content-Length: " + value]
            for value in (b"+5", b"-5", b"5, 5", b"5 5", b"0x5", b"5.0", b"", b"05", b"1_0")
        ),
        *([b"Content-Length: " + value] for value in (b"00", b"9" * 19, b"\xb2", b"5;", b"5e1", b"five")),
        [b"Connection: close, Content-Length", b"Content-Length: 5"],
        [b"Connection: host"],
        [b"Connection: a,\tTransfer-Encoding"],
        [b"Expect: 200-ok"],
        [b"Expect: y 100-continue"],
        [b"Host_: evil.test", b"Content-length : 5"],
    ],
)
def test_bodies_whose_end_servers_see_in_different_places(fields: list[bytes]) -> None:
    assert refusal(request(*fields) + b"0\r\n\r\n" + GET) is NetReason.NOT_HTTP


@pytest.mark.parametrize("method", [b"HEAD", b"TRACE", b"head"])
def test_methods_without_a_body_have_none(method: bytes) -> None:
    first = method + b" / HTTP/1.1"

    assert refusal(request(b"Content-Length: 5", first=first)) is NetReason.NOT_HTTP
    assert refusal(request(b"Transfer-Encoding: chunked", first=first)) is NetReason.NOT_HTTP
    assert refusal(request(b"Content-Length: 0", first=first)) is None


def test_a_chunked_body_needs_a_version_that_knows_it() -> None:
    stream = request(b"Transfer-Encoding: chunked", first=b"POST / HTTP/1.0")

    assert refusal(stream) is NetReason.NOT_HTTP


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"5;ext\r\nhello\r\n",
            b'5;a="\n"\r\nhello\r\n',
            b"5 \r\nhello\r\n",
            b" 5\r\nhello\r\n",
            b"5\nhello\r\n",
        ),
        *(
            b"0x5\r\nhello\r\n",
            b"+5\r\nhello\r\n",
            b"-1\r\n",
            b"\r\n",
            b"g\r\n",
            b"5\r\rhello\r\n",
            b"5_0\r\n",
            b";\r\n",
        ),
        *(
            b"5\r\nhelloo\r\n",
            b"5\r\nhello\n",
            b"5\r\nhello\rx",
            b"5\r\nhello5\r\n",
            b"1" * 16 + b"\r\n",
            b"\n5\r\n",
        ),
        *(b"0\r\nX: y\n\r\n", b"0\r\nno field\r\n\r\n", b"0\r\n folded\r\n\r\n", b"0\r\nX: a\n\n\r\n\r\n"),
        *(
            b"0\r\nHost: evil.test\r\n\r\n",
            b"0\r\nContent-Length: 5\r\n\r\n",
            b"0\r\nTransfer-Encoding: x\r\n\r\n",
        ),
        *(b"0\r\ncontent_length: 5\r\n\r\n", b"0\r\n\nGET", b"0\r\n" + b"X: y\r\n" * 11000),
    ],
)
def test_chunks_that_can_be_read_in_two_ways(body: bytes) -> None:
    assert refusal(request(b"Transfer-Encoding: chunked") + body) is NetReason.NOT_HTTP


@pytest.mark.parametrize(
    "beginning",
    [
        *(
            b"\x16\x03\x01",
            b"\x00",
            b"\r\n",
            b"\n",
            b" ",
            b"SSH-2.0-OpenSSH_9\r\n",
            b"A" * 33,
            b"GET\x00",
            b"\x80",
        ),
        *(b"PRI * HTTP/2.0\r\n\r\n", b"GET / HTTP/1.1\n", b"GET / HTTP/1.1\r\nHost: example.com\n"),
        *(b"\r\n" + GET, GET + b"\r\n" + GET, GET + b"\n"),
    ],
)
def test_something_else_is_known_without_waiting(beginning: bytes) -> None:
    assert refusal(beginning) is NetReason.NOT_HTTP


def test_a_head_cannot_be_longer_than_the_limit() -> None:
    room = MOST_HEAD - len(request(b"X: ")) + 4
    largest = request(b"X: " + b"x" * room)

    assert watched().feed(largest) == largest
    assert refusal(largest[:-5] + b"x" + largest[-5:]) is NetReason.NOT_HTTP
    assert refusal(b"GET /" + b"x" * MOST_HEAD) is NetReason.NOT_HTTP


def test_a_mismatch_stays_one() -> None:
    watch = watched()
    with pytest.raises(Mismatch) as first:
        watch.feed(b"\x16\x03\x01")

    with pytest.raises(Mismatch) as second:
        watch.feed(GET)

    assert second.value.reason is first.value.reason is NetReason.NOT_HTTP
    assert first.value.detail


def test_a_head_that_comes_byte_by_byte_costs_no_more_than_its_bytes() -> None:
    stream = request(b"X: " + b"x" * (MOST_HEAD - 100))
    watch = watched()
    started = time.thread_time()

    passed = [watch.feed(stream[position : position + 1]) for position in range(len(stream))]

    assert passed[-1] == stream
    assert time.thread_time() - started < 5


def test_bodies_pass_at_the_speed_of_memory() -> None:
    watch = watched()
    size = 256 * 1024
    watch.feed(request(b"Transfer-Encoding: chunked"))
    chunk = b"%x\r\n" % size + bytes(size) + b"\r\n"
    started = time.thread_time()

    passed = sum(len(watch.feed(chunk)) for _ in range(1000))

    assert passed == 1000 * len(chunk)
    assert time.thread_time() - started < 5
