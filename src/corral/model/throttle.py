"""Throttle: how long a command that goes on being refused waits for its next answer."""

from __future__ import annotations

#: So many refusals cost nothing: programs try one or two things in passing.
_FREE = 4
_FIRST_SECONDS, _MOST_SECONDS = 0.001, 1.0
_MOST_DOUBLINGS = 10


def throttle_seconds(refusals: int) -> float:
    """The pause after so many refusals: twice the last one, a second at most. As in launcher/listen.c."""
    if refusals <= _FREE:
        return 0.0
    return min(_MOST_SECONDS, _FIRST_SECONDS * (1 << min(refusals - _FREE - 1, _MOST_DOUBLINGS)))
