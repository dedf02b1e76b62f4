"""The machine that numbers belong to, without its name."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import corral

_VERSIONED = {
    "bwrap": ["bwrap", "--version"],
    "firejail": ["firejail", "--version"],
    "docker": ["docker", "--version"],
    "podman": ["podman", "--version"],
    "runc": ["runc", "--version"],
}


def describe() -> Iterator[str]:
    """Lines for a reader: what would have to be alike for like numbers."""
    kib = re.search(r"MemTotal: +(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"))
    memory = f"{int(kib[1]) / 2**20:.0f} GiB" if kib else "unknown"
    yield f"Linux {os.uname().release}, {platform.machine()}"
    yield f"{_processor()}, {os.cpu_count()} cores, {memory} of memory"
    yield f"corral {corral.__version__}, Python {platform.python_version()}, {_user()}"
    yield ", ".join(_versions())
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    yield f"load before the run (1, 5, 15 minutes): {load}"


def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return name[1] if name else "unknown processor"


def _user() -> str:
    return "as root" if os.geteuid() == 0 else "as an ordinary user"


def _versions() -> Iterator[str]:
    for name, line in _VERSIONED.items():
        if shutil.which(name) is None:
            yield f"no {name}"
            continue
        said = subprocess.run(line, capture_output=True, text=True, check=False).stdout
        number = re.search(r"\d+\.\d+(\.\d+)*", said)
        yield f"{name} {number[0] if number else '(version unknown)'}"
