"""The host's own table of names: a program that finds a name there asks nobody for its address."""

from __future__ import annotations

from corral.model.network.connection import is_loopback

_PATH = "/etc/hosts"
_MOST_BYTES = 1 << 20


def names_of(address: str, path: str = _PATH) -> tuple[str, ...]:
    """The names that the table has for an address; none if there is no table, or it is this machine's own."""
    if is_loopback(address):
        return ()
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(_MOST_BYTES).splitlines()
    except OSError:
        return ()
    words = (line.partition("#")[0].split() for line in lines)
    return tuple(name for found in words if found and found[0] == address for name in found[1:])
