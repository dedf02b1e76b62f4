"""Which controls were seen to do their harm: in `make test` a test needs one, however many backends follow.

On each of them script, receiver and stage are the same. `make test-all` tries the control every time, and so
does whoever runs a file by itself.
"""

from __future__ import annotations

import os
import re

_seen: set[tuple[str, int]] = set()
_calls: dict[str, int] = {}  # of the test that runs now
_is_shared = False


def share_controls(*, is_shared: bool) -> None:
    global _is_shared
    _is_shared = is_shared


class Control:
    """The next control of the test that runs now: `is_needed` until it `worked` on some backend."""

    def __init__(self, backend: str) -> None:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        number = _calls.get(test, 0) + 1
        _calls.clear()
        _calls[test] = number
        name, _, case = test.partition("[")
        self._key = name + re.sub(rf"\b{backend}\b(-session)?", "*", case), number

    @property
    def is_needed(self) -> bool:
        return not _is_shared or self._key not in _seen

    def worked(self) -> None:
        _seen.add(self._key)
