"""Fixtures: a Mac for one test; skipped where the stand-in for `sandbox-exec` cannot work."""

from __future__ import annotations

import socket
import subprocess
import sys
from functools import cache

import pytest

from support.bystanders import Listener
from support.mac_stage import Mac, install_program, make_mac

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@cache
def _refusal(place: Path) -> str:
    """Why this kernel cannot ask about calls; empty if it can."""
    if sys.platform != "linux":
        return "the stand-in is for Linux; a Mac has the real one"
    program = install_program(place, "sandbox-exec", "sandbox_exec")
    done = subprocess.run(
        [program, "-p", "(version 1)(allow default)", "/bin/echo", "stands"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return "" if done.stdout == "stands\n" else f"the stand-in cannot ask: {done.stderr.strip()}"


@pytest.fixture
def mac(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Mac:
    place = tmp_path_factory.getbasetemp() / "stand-in"
    place.mkdir(exist_ok=True)
    if why := _refusal(place):
        pytest.skip(why)
    return make_mac(tmp_path)


@pytest.fixture
def tcp_listener() -> Iterator[Listener]:
    listener = Listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
    yield listener
    listener.close()
