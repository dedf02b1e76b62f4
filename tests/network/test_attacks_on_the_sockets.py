"""A command shares its network with the gateway's sockets, and cannot take their places."""

from __future__ import annotations

import json

import pytest

from support.confinement import PYTHON
from support.net_runs import ALLOWED, TRANSPARENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.net_runs import Place

_NO_IPV6 = "EADDRNOTAVAIL"
#: Each socket is kept, so that all that could be taken is taken when the name is looked up.
_TAKE = f"""
import errno, json, socket
kept = []
def bind(kind, options, where):
    family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
    taker = socket.socket(family, kind)
    kept.append(taker)
    for option in options:
        taker.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        taker.bind(where)
    except OSError as problem:
        return errno.errorcode[problem.errno]
    return "taken"
def bind_all(kind, port):
    address, place = socket.SO_REUSEADDR, socket.SO_REUSEPORT
    ways = ((), (address,), (place,), (address, place))
    hosts = ("127.0.0.1", "127.0.0.53", "0.0.0.0", "::1", "::")
    return sorted({{bind(kind, way, (host, port)) for way in ways for host in hosts}})
def look_up(name):
    try:
        return len(socket.getaddrinfo(name, 443, socket.AF_INET, socket.SOCK_STREAM))
    except socket.gaierror as problem:
        return str(problem)
print(json.dumps({{
    "free": bind(socket.SOCK_DGRAM, (socket.SO_REUSEADDR,), ("127.0.0.1", 0)),
    "datagrams": bind_all(socket.SOCK_DGRAM, 53),
    "names": bind_all(socket.SOCK_STREAM, 53),
    "web": bind_all(socket.SOCK_STREAM, 443),
    "addresses": look_up("{ALLOWED}"),
}}))
"""


@pytest.mark.parametrize("place", TRANSPARENT, indirect=True)
def test_no_command_takes_the_place_of_a_socket(place: Place) -> None:
    """Whatever it says of sharing; and names are answered afterwards as before."""
    result = place.run((PYTHON, "-I", "-S", "-c", _TAKE))

    found = json.loads(result.check().stdout)
    assert found.pop("free") == "taken"  # the control: such a socket can be had
    assert found.pop("addresses") == 1
    for kind, answers in found.items():
        assert set(answers) - {_NO_IPV6} in ({"EADDRINUSE"}, {"EACCES"}), kind
