"""Another protocol on a plain connection: once the server agrees, and only one that cannot name hosts."""

from __future__ import annotations

import pytest

from corral.model.network.traffic import NetReason
from corral.network.wire.http1 import MOST_HEAD, Mismatch, RequestWatch

HOST = b"Host: example.com\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
UPGRADE = b"GET /chat HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def watched() -> RequestWatch:
    return RequestWatch("example.com", 80)


def test_a_websocket_is_opaque_once_the_server_agrees() -> None:
    watch = watched()

    assert watch.feed(UPGRADE + b"\x81\x05frame") == UPGRADE
    assert watch.awaits_answer
    assert watch.feed(b"more") == b""
    assert watch.answered(b"HTTP/1.1 10") == b""
    assert watch.answered(b"1 Switching Protocols\r\n") == b"\x81\x05framemore"
    assert watch.is_opaque
    assert not watch.awaits_answer
    assert watch.feed(b"\x00\r\n\xff") == b"\x00\r\n\xff"


def test_a_server_that_does_not_agree_gets_requests_only() -> None:
    watch = watched()
    watch.feed(UPGRADE + GET)

    assert watch.answered(b"HTTP/1.1 200 OK\r\n") == GET
    assert not watch.awaits_answer
    assert watch.answered(b"HTTP/1.1 404 Not Found\r\n\r\n") == b""
    with pytest.raises(Mismatch):
        watch.feed(b"\x81\x05frame")


def test_a_server_that_does_not_agree_gets_no_request_for_another_host() -> None:
    watch = watched()
    watch.feed(UPGRADE + GET.replace(b"example.com", b"evil.test"))

    with pytest.raises(Mismatch) as caught:
        watch.answered(b"HTTP/1.1 400 Bad Request\r\n")

    assert caught.value.reason is NetReason.OTHER_NAME


def test_answers_on_the_way_are_not_the_answer() -> None:
    watch = watched()
    watch.feed(UPGRADE + b"frame")
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + b"HTTP/1.1 100 Continue\r\n\r\n"

    assert watch.answered(hints) == b""
    assert watch.awaits_answer
    assert watch.answered(b"HTTP/1.1 101 x\r\n") == b"frame"


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/2 101 xxxx\r\n", b"HTTP/1.1 abc d\r\n"])
def test_an_answer_that_is_none_agrees_to_nothing(answer: bytes) -> None:
    watch = watched()
    watch.feed(UPGRADE)
    watch.answered(answer)

    assert not watch.is_opaque
    with pytest.raises(Mismatch):
        watch.feed(b"\x81\x05frame")


@pytest.mark.parametrize("protocol", [b"h2c", b"TLS/1.0", b"websocket, h2c", b"HTTP/2.0", b""])
def test_protocols_that_could_ask_for_other_hosts_are_not_offered(protocol: bytes) -> None:
    watch = watched()
    stream = UPGRADE.replace(b"websocket", protocol)
    plain = b"GET /chat HTTP/1.1\r\n" + HOST + b"\r\n"

    assert watch.feed(stream + stream) == plain + plain
    assert watch.answered(b"HTTP/1.1 200 OK\r\n") == b""
    assert watch.feed(stream) == plain
    assert not watch.awaits_answer


def test_an_offer_of_http2_is_taken_out_and_nothing_else() -> None:
    """As curl and Java's client make it, with a body that must not wait."""
    first = b"POST / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\n" + HOST
    offer = b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\nUpgrade: h2c\r\n"
    rest = b"connection:keep-alive,  upgrade\r\nContent-Length: 3\r\n\r\n"
    kept = b"POST / HTTP/1.1\r\n" + HOST + b"connection:keep-alive\r\nContent-Length: 3\r\n\r\nabc"
    stream = first + offer + rest + b"abc"
    whole, slowly = watched(), watched()

    assert whole.feed(stream + stream + GET) == kept + kept + GET
    assert b"".join(slowly.feed(bytes([byte])) for byte in stream + stream) == kept + kept


def test_an_offer_does_not_hide_a_field_that_decides() -> None:
    with pytest.raises(Mismatch):
        watched().feed(UPGRADE.replace(b"Upgrade\r\nUpgrade: websocket", b"host, h2c\r\nUpgrade: h2c"))


@pytest.mark.parametrize("request_head", [GET, UPGRADE.replace(b"websocket", b"h2c")])
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_change_of_protocol_that_nobody_asked_for_ends_the_connection(
    request_head: bytes, before: bytes
) -> None:
    watch = watched()
    watch.feed(request_head)
    watch.answered(b"HTTP/1.1 200 OK\r\n")
    watch.feed(request_head)

    with pytest.raises(Mismatch) as caught:
        watch.answered(before + b"HTTP/1.1 101 Switching Protocols\r\n")

    assert caught.value.reason is NetReason.NOT_HTTP


def test_an_upgrade_is_asked_for_first_or_never() -> None:
    watch = watched()

    assert watch.feed(GET) == GET
    with pytest.raises(Mismatch) as caught:
        watch.feed(UPGRADE)
    assert caught.value.reason is NetReason.NOT_HTTP


def test_the_body_of_an_upgrade_passes_before_the_answer() -> None:
    watch = watched()
    head = UPGRADE[:-2] + b"Content-Length: 5\r\n\r\n"

    assert watch.feed(head + b"he") == head + b"he"
    assert watch.feed(b"llo" + GET) == b"llo"
    assert watch.answered(b"HTTP/1.1 200 OK\r\n") == GET


def test_only_so_much_is_held_for_a_server_that_does_not_answer() -> None:
    watch = watched()
    watch.feed(UPGRADE)
    watch.feed(bytes(MOST_HEAD))

    with pytest.raises(Mismatch):
        watch.feed(b"x")


def test_a_server_that_never_ends_its_hints_agrees_to_nothing() -> None:
    watch = watched()
    watch.feed(UPGRADE)

    watch.answered(b"HTTP/1.1 103 Early Hints\r\n")
    for _ in range(80):
        watch.answered(b"x" * 1024)

    assert not watch.awaits_answer
    assert not watch.is_opaque
