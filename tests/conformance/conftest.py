"""Fixtures: the directories of a test, and things of the host that a command might get at."""

from __future__ import annotations

import os
import socket

import pytest

from support.bystanders import Listener, SharedMemory, Victim
from support.confinement import Stage, make_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Fresh directories; HOME, TMPDIR and PATH are such that no test depends on who runs it."""
    return make_stage(tmp_path, monkeypatch)


@pytest.fixture
def tcp_listener() -> Iterator[Listener]:
    listener = Listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
    yield listener
    listener.close()


@pytest.fixture
def udp_listener() -> Iterator[Listener]:
    listener = Listener(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
    yield listener
    listener.close()


@pytest.fixture
def abstract_listener() -> Iterator[Listener]:
    name = f"\0corral-test-{os.urandom(8).hex()}"
    listener = Listener(socket.AF_UNIX, socket.SOCK_STREAM, name)
    yield listener
    listener.close()


@pytest.fixture
def victim(stage: Stage) -> Iterator[Victim]:
    started = Victim(stage.work / "pid")
    yield started
    started.close()


@pytest.fixture
def shared_memory() -> Iterator[SharedMemory]:
    segment = SharedMemory()
    yield segment
    segment.close()
