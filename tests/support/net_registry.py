"""The package registry that pip is configured to use: a real remote, found out when it is needed.

INVARIANT: its name is written down nowhere and printed nowhere, not even by a test that fails: what pip says
has it, and is not shown.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import urllib.parse
from functools import cache

#: Small, and nothing but Python.
PACKAGE = "iniconfig"
_SECONDS = 60
_ASKED = re.compile(r'(https?://\S+) "(?:GET|HEAD) ')  # what pip says of each request that it makes
_URL = re.compile(r"https?://[^\s,<>\"')]+")


class Registry:
    """Where the index is, whom its links lead to, and what to trust."""

    def __init__(self, index: str, hosts: set[tuple[str, str, int]], certificates: str) -> None:
        self.index = index
        self.certificates = certificates
        self._hosts = hosts  # scheme, name, port

    def __repr__(self) -> str:
        return "Registry(...)"

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts, as capabilities."""
        return tuple(
            f"network:{scheme}:{_bracketed(host)}:{port}" for scheme, host, port in sorted(self._hosts)
        )

    @property
    def addresses(self) -> tuple[str, ...]:
        """Their addresses, as capabilities: they may lie where only a grant leads to."""
        found = {
            f"network:{scheme}:{_bracketed(answer[4][0])}:{port}"
            for scheme, host, port in self._hosts
            for answer in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        }
        return tuple(sorted(found))

    def is_named_by(self, hint: str) -> bool:
        """Whether a capability is for one of the hosts."""
        return any(f":{_bracketed(host)}" in hint for _, host, _ in self._hosts)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@cache
def find_registry() -> tuple[Registry | None, str]:
    """The registry; or None, and why there is none."""
    with tempfile.TemporaryDirectory(prefix="corral-registry-") as folder:
        try:
            said = _download(folder, "-vvv")
        except (OSError, subprocess.SubprocessError):
            return None, "pip cannot download from its registry on this machine"
    index = os.environ.get("PIP_INDEX_URL") or _setting("index-url") or _visited_index(said)
    if not index.startswith("http"):
        return None, "the registry that pip uses on this machine is not in a network"
    visited = _ASKED.findall(said)
    hosts = {_host_of(url) for url in [index, *visited]}
    if not any(_host_of(url) == _host_of(index) for url in visited):
        return None, "what pip downloads comes from no registry on this machine"
    return Registry(index, hosts, _certificates()), ""


def _download(folder: str, *options: str) -> str:
    pip = (sys.executable, "-m", "pip", "download", "--no-cache-dir", "--no-deps", "--dest", folder)
    done = subprocess.run(
        [*pip, *options, PACKAGE], capture_output=True, text=True, timeout=_SECONDS, check=True, cwd=folder
    )
    return done.stdout + done.stderr


def _line(said: str, beginning: str) -> str:
    return next((line for line in said.splitlines() if line.strip().startswith(beginning)), "")


def _visited_index(said: str) -> str:
    """Where pip is told of none it knows one by itself, and says that it goes there."""
    pages = _URL.findall(_line(said, "Fetching project page"))
    return pages[0].removesuffix("/").removesuffix(f"/{PACKAGE}") if pages else ""


def _certificates() -> str:
    return os.environ.get("PIP_CERT") or _setting("cert")


def _setting(name: str) -> str:
    asked = [sys.executable, "-m", "pip", "config", "get", f"global.{name}"]
    return subprocess.run(asked, capture_output=True, text=True, timeout=_SECONDS, check=False).stdout.strip()


def _host_of(url: str) -> tuple[str, str, int]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme]
