"""Fixtures: a home with a secret, and a server over HTTP that a file's tests share."""

from __future__ import annotations

import pytest

from support.mcp_clients import McpHome, http_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.mcp_clients import HttpServer


@pytest.fixture
def home(tmp_path: Path) -> McpHome:
    return McpHome(tmp_path)


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> McpHome:
    return McpHome(tmp_path_factory.mktemp("mcp"))


@pytest.fixture(scope="session")
def served(shared_home: McpHome) -> Iterator[HttpServer]:
    """A server over HTTP whose runs are all in the audit log."""
    own = shared_home.configure("[audit]\nenabled = true\n")
    with http_server(shared_home, own) as server:
        yield server
