"""LastMade: what was made of some values, for as long as it is asked for with the very same objects.

A planner hands out the same immutable values run after run while the host stays as it is. To compare them by
content would take as long as to make anew what follows from them; whether they are the same objects is asked
in no time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Made = TypeVar("Made")

_MOST = 16


class LastMade:
    """INVARIANT: the objects are immutable, and are held here, so that no other one gets their identity."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], tuple[tuple[object, ...], Any]] = {}

    def get(self, objects: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """What `make` returns for these objects; it must depend on nothing else."""
        key = tuple(map(id, objects))
        known = self._made.get(key)
        if known is None:
            known = (objects, make())
            if len(self._made) >= _MOST:
                self._made = {}  # as a whole: several threads may be here
            self._made[key] = known
        made: Made = known[1]
        return made
