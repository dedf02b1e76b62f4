"""What the tests of systemd ask for, and where its sockets would be."""

from __future__ import annotations

import os
from pathlib import Path

from corral.limits import systemd
from corral.limits.systemd import ScopeRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

MIB = 1 << 20
NAME = "corral-1-2-run.scope"
REQUEST = ScopeRequest(NAME, 4242, memory_bytes=64 * MIB, cpus=0.29, pids=12)
FILES = {
    "memory.max": f"{64 * MIB}\n",
    "memory.swap.max": "0\n",
    "cpu.max": "29000 100000\n",
    "pids.max": "12\n",
}


def runtime(place: Path) -> Path:
    return place / "run" if os.geteuid() == 0 else place / f"run/user/{os.geteuid()}"


def bus_socket(place: Path) -> Path:
    return runtime(place) / ("dbus/system_bus_socket" if os.geteuid() == 0 else "bus")


def use(method: str) -> None:
    """Do something that calls this method of the manager."""
    if method == "StopUnit":
        systemd.stop_scope(NAME)
    elif method == "ListUnitsByPatterns":
        systemd.leftovers()
    else:
        systemd.start_scope(REQUEST)
