"""The table of clients in docs/network.md says what is so."""

from __future__ import annotations

import os

import pytest

from support.net_clients import CLIENTS, Client, try_client
from support.net_runs import EVERY
from support.net_table import read_table, word_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.net_runs import Place


@pytest.mark.thorough
@pytest.mark.parametrize("client", CLIENTS, ids=str)
@pytest.mark.parametrize("place", EVERY, indirect=True)
def test_a_client_works_where_the_document_says_so(
    place: Place, client: Client, request: pytest.FixtureRequest
) -> None:
    said = read_table()[place.backend, client.name]

    worked, output = try_client(client, place)

    if worked is None and said != word_for(None):
        # Where everything else has to be there, a client that is not must not go by unseen.
        is_required = bool(request.config.getoption("--require")) and os.geteuid() == 0
        how = "`make packages PACKAGES=all` installs it, as root"
        (pytest.fail if is_required else pytest.skip)(f"{client} cannot be tried here: {how}")
    assert word_for(worked) == said, output


def test_the_document_has_every_client_and_every_backend() -> None:
    table = read_table()

    assert set(table) == {(backend, client.name) for backend in EVERY for client in CLIENTS}
    assert set(table.values()) <= {word_for(worked) for worked in (True, False, None)}
