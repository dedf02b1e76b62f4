"""limit.traffic: all connections together carry no more bytes than permitted."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt
from support.counting import ALL_BYTES, CountingServer, sending, taking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_TRAFFIC)

#: Far above what may pass, with all that lies in buffers on the way; far below what is tried.
TOO_MUCH = ALL_BYTES // 2


@pytest.fixture
def server() -> Iterator[CountingServer]:
    made = CountingServer()
    yield made
    made.close()


def _capabilities(server: CountingServer) -> tuple[str, ...]:
    return (f"network:tcp:localhost:{server.port}", "traffic:limit:1MB")


def test_a_command_cannot_send_more(backend: Case, stage: Stage, server: CountingServer) -> None:
    done = attempt(
        backend,
        stage,
        sending(server),
        effect=lambda _: server.settled() > TOO_MUCH,
        reset=server.reset,
        capabilities=_capabilities(server),
    )

    assert not done.worked
    assert server.clients > 0, "it never got there, which proves nothing"


def test_a_command_cannot_take_more(backend: Case, stage: Stage, server: CountingServer) -> None:
    done = attempt(
        backend,
        stage,
        taking(server),
        effect=lambda _: server.settled() > TOO_MUCH,
        reset=server.reset,
        capabilities=_capabilities(server),
    )

    assert not done.worked
    assert server.clients > 0, "it never got there, which proves nothing"
