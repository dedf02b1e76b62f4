"""Resolve a permitted name by the host's own resolver, or by what the caller gave instead, in a worker."""

from __future__ import annotations

import contextlib
import socket

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    #: A name and a port: the addresses and ports to dial. Raises OSError.
    Resolve = Callable[[str, int], Sequence[tuple[str, int]]]
    Addresses = tuple[tuple[str, int], ...]

_MOST_ADDRESSES = 16
_MOST_PORTS = 16
_HOSTS_FILE = "/etc/hosts"
_MOST_HOSTS_BYTES = 4 << 20
#: The resolver itself could not answer: this says nothing about the name.
_TEMPORARY = (socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_SYSTEM, socket.EAI_MEMORY)


class Resolution(Record):
    """What a lookup found."""

    answers: Mapping[int, Addresses]  # by port; 0: the same for every port
    has_failed: bool = False  # nothing is known about the name
    detail: str = ""


def look_up(resolve: Resolve | None, name: str, ports: Sequence[int]) -> Resolution:
    """Where a name leads to. Raises nothing."""
    try:
        if resolve is None:
            return Resolution({0: tuple((address, 0) for address in _ask_host(name))})
        return _ask_hook(resolve, name, ports)
    except socket.gaierror as problem:
        return Resolution({}, has_failed=problem.errno in _TEMPORARY, detail=problem.strerror or "")
    except OSError as problem:
        return Resolution({}, detail=problem.strerror or str(problem))
    except Exception as problem:
        return Resolution({}, has_failed=True, detail=f"the resolver raised {problem!r}")


def _ask_hook(resolve: Resolve, name: str, ports: Sequence[int]) -> Resolution:
    """All ports at once: between a lookup and its connection nobody is asked again."""
    answers: dict[int, Addresses] = {}
    problem: OSError | None = None
    for port in ports[:_MOST_PORTS]:
        try:
            answers[port] = _canonical(resolve(name, port))
        except OSError as raised:
            answers[port], problem = (), raised
    if problem is not None and not any(answers.values()):
        raise problem
    return Resolution(answers)


def _canonical(found: Sequence[tuple[str, int]]) -> Addresses:
    """The one form of each address; what is none is left out. TRUST: a resolver may say anything."""
    from corral.model.network.addresses import canonical_address

    kept: dict[tuple[str, int], None] = {}
    for address, port in found:
        if isinstance(address, str) and isinstance(port, int) and 0 < port < 65536:
            with contextlib.suppress(ValueError):
                kept[canonical_address(address), port] = None
    return tuple(kept)[:_MOST_ADDRESSES]


def _ask_host(name: str) -> list[str]:
    """The host's resolver.

    A name with a dot is meant as it is: a resolver that appended the host's search domains would ask for,
    and lead to, a name that nobody permitted.
    """
    from corral.model.network.addresses import canonical_address

    listed = _listed_in_file(name)
    if listed:
        return listed
    wanted = f"{name}." if "." in name else name
    found = socket.getaddrinfo(wanted, None, type=socket.SOCK_STREAM)
    addresses = dict.fromkeys(str(address[0]) for *_, address in found)
    return [canonical_address(address) for address in addresses][:_MOST_ADDRESSES]


def _listed_in_file(name: str) -> list[str]:
    """What /etc/hosts says: it does not know names that end with a dot."""
    from corral.model.network.addresses import canonical_address

    try:
        with open(_HOSTS_FILE, encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST_HOSTS_BYTES)
    except OSError:
        return []
    found: list[str] = []
    for line in text.splitlines():
        address, *names = line.partition("#")[0].lower().split() or [""]
        if name in names:
            with contextlib.suppress(ValueError):
                found.append(canonical_address(address))
    return found[:_MOST_ADDRESSES]
