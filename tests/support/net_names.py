"""Test names: where they lead, for the gateway's resolver hook, and which ones were asked for."""

from __future__ import annotations

import errno
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Any port of a name that has no server of its own for it.
ANY_PORT = 0


class Names:
    """`NetworkOptions(resolve=names)`: leads names to servers of the test; called from the gateway's threads.

    Every name that corral asks for is kept, also those that lead nowhere: a name is a message.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leads: dict[tuple[str, int], tuple[tuple[str, int], ...]] = {}
        self._asked: list[tuple[str, int]] = []

    def lead(self, name: str, port: int, *addresses: tuple[str, int]) -> None:
        """From now on `name` and `port` lead there. `ANY_PORT` is for all ports that have no lead."""
        with self._lock:
            self._leads[name, port] = addresses

    def __call__(self, name: str, port: int) -> Sequence[tuple[str, int]]:
        with self._lock:
            self._asked.append((name, port))
            found = self._leads.get((name, port)) or self._leads.get((name, ANY_PORT))
        if not found:
            raise OSError(errno.ENOENT, f"no test name: {name}:{port}")
        return found

    @property
    def asked(self) -> list[str]:
        """Every name that was asked for, in order."""
        with self._lock:
            return [name for name, _ in self._asked]

    def leads(self) -> dict[str, tuple[str, int]]:
        """`name:port` -> its first address: for controls, which have no gateway to ask."""
        with self._lock:
            return {f"{name}:{port}": there[0] for (name, port), there in self._leads.items()}
