"""Fixtures: a Mac for one test; skipped where the stand-in for `sandbox-exec` cannot work."""

from __future__ import annotations

import socket

import pytest

from support.bystanders import Listener
from support.mac_server import MacServer
from support.mac_stage import TESTS, Mac, find_standin, make_mac

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def mac_server() -> Iterator[MacServer]:
    server = MacServer(str(TESTS))
    yield server
    server.close()


@pytest.fixture
def mac(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, mac_server: MacServer) -> Mac:
    _, why = find_standin(tmp_path_factory)
    if why:
        pytest.skip(why)
    return make_mac(tmp_path, mac_server)


@pytest.fixture
def tcp_listener() -> Iterator[Listener]:
    listener = Listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
    yield listener
    listener.close()
