"""EarlyInference: what the words of a command say, told while it runs, between its lines."""

from __future__ import annotations

from corral.runtime.inference import MOST_GUESSES, infer, is_suspicious

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.plan import Plan
    from corral.model.violation import Violation

#: A line that does not end is not read further.
_MOST_REST = 4096


class EarlyInference:
    """Of one command: takes standard error as it comes."""

    def __init__(self, plan: Plan, tell: Callable[[Violation], None]) -> None:
        self._plan, self._tell = plan, tell
        self._rest = b""  # of a line that goes on
        self._told: set[str] = set()
        self._waiting: list[Violation] = []

    def take(self, piece: bytes, *, can_tell: bool = True) -> None:
        """`can_tell`: all that came before was passed on to whoever reads it."""
        if len(self._told) >= MOST_GUESSES and not self._waiting:
            return
        lines, end, rest = piece.rpartition(b"\n")
        whole = self._rest + lines if end else b""
        self._rest = (rest if end else self._rest + rest)[-_MOST_REST:]
        if whole and is_suspicious(whole):
            for found in infer(self._plan, whole.decode("utf-8", "replace")):
                if found.subject not in self._told and len(self._told) < MOST_GUESSES:
                    self._told.add(found.subject)
                    self._waiting.append(found)
        if can_tell and not self._rest:
            waiting, self._waiting = self._waiting, []
            for found in waiting:
                self._tell(found)
