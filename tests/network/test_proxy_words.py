"""What clients say to the proxy, byte by byte: SOCKS5, CONNECT and plain requests. No socket is made."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.network.traffic import NetReason
from corral.network.wire.http_proxy import Forwarder, HttpHandshake
from corral.network.wire.proxy_request import BadRequest, ProxyRequest, explain, read_authority
from corral.network.wire.socks import SocksHandshake

TOKEN = "0123abcd"
GREETING = b"\x05\x01\x02"
PASSWORD = b"\x01\x06corral" + bytes((len(TOKEN),)) + TOKEN.encode()
BASIC = base64.b64encode(f"corral:{TOKEN}".encode())
SHOWN = b"Proxy-Authorization: Basic " + BASIC + b"\r\n"

#: What is no name of one host, whoever reads it.
NO_HOSTS = [
    *("evil.test\0.allowed.com", "allowed.com\0", "allowed.com\n", "allowed.com evil.test", "", ".", ".."),
    *(
        "allowed.com@evil.test",
        "evil.test#allowed.com",
        "allowed.com/",
        "*",
        "*.allowed.com",
        "a..b",
        "-a.test",
    ),
    *("0x7f.1", "2130706433", "127.1", "0177.0.0.1", "1.2.3.4.5", "[::1", "fe80::1%1", "a" * 64 + ".test"),
    *("ällowed.com", "allowed.com\x7f", "allowed.com,evil.test", "allowed.com:80:80"),
]


def socks_request(name: bytes, port: int = 443, command: int = 1, kind: int = 3) -> bytes:
    address = bytes((len(name),)) + name if kind == 3 else name
    return bytes((5, command, 0, kind)) + address + port.to_bytes(2, "big")


def unfit_of(handshake: SocksHandshake | HttpHandshake, data: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        handshake.feed(data)
    return caught.value


def known_socks() -> SocksHandshake:
    handshake = SocksHandshake(TOKEN)
    assert handshake.feed(GREETING + PASSWORD) == b"\x05\x02\x01\x00"
    return handshake


# SOCKS


@pytest.mark.parametrize(
    ("kind", "address", "host"),
    [
        (3, b"API.Example.com.", "api.example.com"),
        (3, b"127.0.0.1", "127.0.0.1"),
        (1, bytes((10, 0, 0, 1)), "10.0.0.1"),
        (4, bytes(10) + b"\xff\xff" + bytes((10, 0, 0, 1)), "10.0.0.1"),
        (4, bytes(15) + b"\x01", "::1"),
    ],
)
def test_a_socks_client_says_where_it_wants_to_go(kind: int, address: bytes, host: str) -> None:
    handshake = known_socks()

    assert handshake.feed(socks_request(address, 8443, kind=kind) + b"more") == b""
    assert (handshake.request, handshake.rest) == (ProxyRequest(host, 8443), b"more")
    assert handshake.granted() == b"\x05\x00\x00\x01" + bytes(6)
    assert handshake.refused(BadRequest(NetReason.NOT_GRANTED, "")) == b"\x05\x02\x00\x01" + bytes(6)


@given(st.lists(st.integers(1, 40), max_size=8))
def test_how_the_bytes_come_makes_no_difference_to_socks(cuts: list[int]) -> None:
    whole = GREETING + PASSWORD + socks_request(b"allowed.com") + b"hello"
    handshake, answer = SocksHandshake(TOKEN), b""
    for size in (*cuts, len(whole)):
        if handshake.request is None and whole:
            answer += handshake.feed(whole[:size])
            whole = whole[size:]

    assert answer == b"\x05\x02\x01\x00"
    assert handshake.request == ProxyRequest("allowed.com", 443)
    assert handshake.rest + whole == b"hello"


@pytest.mark.parametrize("name", NO_HOSTS)
def test_what_is_no_host_is_refused_by_socks(name: str) -> None:
    handshake = known_socks()

    problem = unfit_of(handshake, socks_request(name.encode("utf-8")[:255]))

    assert problem.reason is NetReason.MALFORMED
    assert handshake.request is None
    assert handshake.refused(problem)[:2] == b"\x05\x01"


def test_a_socks_client_without_the_token_gets_no_further() -> None:
    wrong = b"\x01\x06corral\x08" + b"x" * 8
    other = b"\x01\x05admin" + bytes((len(TOKEN),)) + TOKEN.encode()
    for said, words in (
        (b"\x05\x01\x00", b"\x05\xff"),  # no password
        (b"\x05\x02\x00\x01", b"\x05\xff"),
        (GREETING + wrong, b"\x05\x02\x01\x01"),
        (GREETING + other, b"\x05\x02\x01\x01"),
        (GREETING + b"\x01\x00\x00", b"\x05\x02\x01\x01"),
    ):
        handshake = SocksHandshake(TOKEN)
        problem = unfit_of(handshake, said + socks_request(b"allowed.com"))

        assert (problem.reason, handshake.request, handshake.is_known) == (NetReason.NO_TOKEN, None, False)
        assert handshake.refused(problem) == words


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (socks_request(b"allowed.com", command=2), 7),
        (socks_request(b"allowed.com", command=3), 7),
        (socks_request(b"allowed.com", port=0), 1),
        (socks_request(b"\x01\x02\x03\x04", kind=9), 8),
        (b"\x04" + socks_request(b"allowed.com")[1:], 1),
    ],
)
def test_socks_is_connect_and_nothing_else(request_: bytes, code: int) -> None:
    handshake = known_socks()

    assert handshake.refused(unfit_of(handshake, request_)) == bytes((5, code, 0, 1)) + bytes(6)


# HTTP


def test_connect_says_where_to_go() -> None:
    handshake = HttpHandshake(TOKEN)

    said = b"CONNECT API.example.com:443 HTTP/1.1\r\nHost: whatever\r\n" + SHOWN + b"\r\n\x16\x03\x01"
    assert handshake.feed(said) == b""
    assert (handshake.request, handshake.rest, handshake.forwarder) == (
        ProxyRequest("api.example.com", 443),
        b"\x16\x03\x01",
        None,
    )
    assert handshake.granted().startswith(b"HTTP/1.1 200 ")


#: In a target these end the host: what follows is a path, or a fragment.
NO_HOSTS_OF_TARGETS = [name for name in NO_HOSTS if not set("/#") & set(name)]


@pytest.mark.parametrize(
    "line",
    [
        *(f"CONNECT {name}:443 HTTP/1.1" for name in NO_HOSTS),
        *(f"GET http://{name}/ HTTP/1.1" for name in NO_HOSTS_OF_TARGETS),
    ],
)
def test_what_is_no_host_is_refused_by_http(line: str) -> None:
    handshake = HttpHandshake(TOKEN)

    problem = unfit_of(handshake, f"{line}\r\n".encode() + SHOWN + b"\r\n")

    assert problem.reason in {NetReason.MALFORMED, NetReason.NOT_HTTP}
    assert handshake.request is None
    assert handshake.refused(problem).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "target", ["allowed.com", "allowed.com:", "allowed.com:0", "allowed.com:65536", ":443"]
)
def test_connect_needs_a_port(target: str) -> None:
    assert unfit_of(HttpHandshake(TOKEN), f"CONNECT {target} HTTP/1.1\r\n".encode() + SHOWN + b"\r\n")


def test_without_the_token_http_is_asked_for_it_and_with_a_wrong_one_it_ends() -> None:
    plain = b"CONNECT allowed.com:443 HTTP/1.1\r\n\r\n"
    handshake = HttpHandshake(TOKEN)

    assert handshake.feed(plain).startswith(b"HTTP/1.1 407 ")
    assert handshake.feed(plain[:-2] + SHOWN + b"\r\n") == b""  # as curl does it
    assert handshake.request == ProxyRequest("allowed.com", 443)

    for line in (
        b"",
        b"Proxy-Authorization: Basic AAAA\r\n",
        b"Proxy-Authorization: Basic " + BASIC + b"x\r\n",
        b"Proxy-Authorization: Bearer " + BASIC + b"\r\n",
        b"Authorization: Basic " + BASIC + b"\r\n",
        SHOWN + SHOWN,
    ):
        handshake = HttpHandshake(TOKEN)
        problem = unfit_of(handshake, (plain[:-2] + line + b"\r\n") * 2)

        assert (problem.reason, handshake.request) == (NetReason.NO_TOKEN, None)
        assert handshake.refused(problem).startswith(b"HTTP/1.1 407 ")


def test_a_plain_request_is_sent_on_as_a_server_knows_it() -> None:
    handshake = HttpHandshake(TOKEN)
    said = (
        b"POST http://Allowed.com:8080/a?b#c HTTP/1.1\r\nHost: allowed.com:8080\r\n"
        b"Proxy-Connection: keep-alive\r\n"
        + SHOWN
        + b"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
        + b"Accept: */*\r\nContent-Length: 3\r\n\r\nab"
    )

    assert handshake.feed(said) == b""
    assert handshake.request == ProxyRequest("allowed.com", 8080)
    assert handshake.rest == (
        b"POST /a?b HTTP/1.1\r\nHost: allowed.com:8080\r\nAccept: */*\r\nContent-Length: 3\r\n\r\nab"
    )
    assert handshake.granted() == b""
    assert handshake.forwarder is not None
    again = handshake.forwarder.feed(b"cGET http://allowed.com:8080 HTTP/1.1\r\n" + SHOWN + b"\r\n")
    assert again == b"cGET / HTTP/1.1\r\nHost: allowed.com:8080\r\n\r\n"
    assert BASIC not in handshake.rest + again


@pytest.mark.parametrize(
    "second",
    [
        b"GET http://evil.test/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.com:8080/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.com/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET http://allowed.com/ HTTP/1.1\r\nHost: allowed.com\r\nHost: evil.test\r\n\r\n",
        b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.com:80 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET https://allowed.com/ HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
    ],
)
def test_a_second_request_is_for_the_same_host_or_is_the_end(second: bytes) -> None:
    for body in (b"", b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n"):
        forwarder = Forwarder(ProxyRequest("allowed.com", 80))
        forwarder.feed(b"GET http://allowed.com/ HTTP/1.1\r\n" + body + b"\r\n")
        if body:
            forwarder.feed(b"3\r\nabc\r\n0\r\nX: y\r\n\r\n" if b"chunked" in body else b"abcd")

        with pytest.raises(BadRequest):
            forwarder.feed(second)


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: +3\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"X: a\r\n folded\r\n",
        b"X: a\nY: b\r\n",
        b"X: a\rY: b\r\n",
        b"X: \0\r\n",
        b"no field\r\n",
    ],
)
def test_a_request_that_can_be_read_in_two_ways_is_not_sent_on(fields: bytes) -> None:
    with pytest.raises(BadRequest):
        Forwarder(ProxyRequest("allowed.com", 80)).feed(
            b"POST http://allowed.com/ HTTP/1.1\r\n" + fields + b"\r\n"
        )


@pytest.mark.parametrize(
    "chunk", [b"x\r\n", b"\r\n", b"-1\r\n", b"3\r\nabcd\r\n", b"10000000000000000\r\n", b"3\n"]
)
def test_a_chunk_that_is_none_is_not_sent_on(chunk: bytes) -> None:
    forwarder = Forwarder(ProxyRequest("allowed.com", 80))
    forwarder.feed(b"POST http://allowed.com/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")

    with pytest.raises(BadRequest):
        forwarder.feed(chunk + b"\r\n" * 4096)


@given(st.lists(st.integers(1, 60), max_size=12))
def test_how_the_bytes_come_makes_no_difference_to_what_is_sent_on(cuts: list[int]) -> None:
    whole = (
        b"GET http://allowed.com/a HTTP/1.1\r\nHost: allowed.com\r\n\r\n"
        b"POST http://allowed.com/b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n0;x=y\r\nZ: 1\r\n\r\n"
        b"PUT http://allowed.com/c HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    )
    forwarder, passed = Forwarder(ProxyRequest("allowed.com", 80)), b""
    for size in (*cuts, len(whole)):
        passed += forwarder.feed(whole[:size])
        whole = whole[size:]

    assert passed == (
        b"GET /a HTTP/1.1\r\nHost: allowed.com\r\n\r\n"
        b"POST /b HTTP/1.1\r\nHost: allowed.com\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n0\r\nZ: 1\r\n\r\n"
        b"PUT /c HTTP/1.1\r\nHost: allowed.com\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    )


def test_a_head_has_an_end() -> None:
    assert unfit_of(HttpHandshake(TOKEN), b"GET http://allowed.com/ HTTP/1.1\r\nX: " + b"a" * 70_000)


@given(st.binary(max_size=300))
def test_whatever_is_said_it_is_understood_or_refused(data: bytes) -> None:
    for handshake in (SocksHandshake(TOKEN), HttpHandshake(TOKEN)):
        try:
            handshake.feed(data)
        except BadRequest as problem:
            assert isinstance(handshake.refused(problem), bytes)
        assert handshake.request is None  # nobody guesses the token


def test_the_answer_names_the_reason_and_what_would_permit_it() -> None:
    said = explain(BadRequest(NetReason.NOT_GRANTED, "", "api.example.com", 443))

    assert said == ("corral: api.example.com:443: not-granted; to permit it: network:https:api.example.com")
    assert "permit" not in explain(BadRequest(NetReason.UNRESOLVED, "", "api.example.com", 443))
    assert "\n" not in explain(BadRequest(NetReason.MALFORMED, "two\r\nlines"))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("[::1]:8080", ProxyRequest("::1", 8080)),
        ("[::ffff:10.0.0.1]:80", ProxyRequest("10.0.0.1", 80)),
        ("[::1]", ProxyRequest("::1", 80)),
    ],
)
def test_addresses_in_brackets(text: str, asked: ProxyRequest) -> None:
    assert read_authority(text, 80) == asked
