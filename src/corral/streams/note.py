"""Note: one line on the caller's terminal that comes and goes, and never disturbs what the command prints."""

from __future__ import annotations

import os
import time

_CLEAR = b"\r\x1b[K"
_QUIET_SECONDS = 1.0
_ENTERS_SCREEN = (b"\x1b[?1049h", b"\x1b[?47h")
_LEAVES_SCREEN = (b"\x1b[?1049l", b"\x1b[?47l")
_LONGEST = max(map(len, _ENTERS_SCREEN + _LEAVES_SCREEN))


class Note:
    """Shown while the command is quiet, at the beginning of a line, and never over a full-screen program."""

    def __init__(self) -> None:
        self._is_shown = False
        self._is_line_start = True
        self._has_screen = False
        self._last = 0.0
        self._tail = b""

    def draw(self, text: str) -> bytes:
        """What to print for a note; nothing if this is not the moment."""
        is_quiet = time.monotonic() - self._last >= _QUIET_SECONDS
        if self._has_screen or not (self._is_shown or (self._is_line_start and is_quiet)):
            return b""
        self._is_shown = True
        return _CLEAR + text[: _columns() - 1].encode("utf-8", "replace")

    def clear(self) -> bytes:
        """What to print so that the note is gone; nothing if there is none."""
        was_shown, self._is_shown = self._is_shown, False
        return _CLEAR if was_shown else b""

    def make_way(self, piece: bytes) -> bytes:
        """What to print before a piece of the command's own output."""
        self._last = time.monotonic()
        self._is_line_start = piece.endswith(b"\n")
        seen = self._tail + piece  # a sequence may come in two pieces
        self._tail = seen[1 - _LONGEST :]
        entered = max(seen.rfind(mark) for mark in _ENTERS_SCREEN)
        left = max(seen.rfind(mark) for mark in _LEAVES_SCREEN)
        if entered != left:  # both -1: nothing of the kind
            self._has_screen = entered > left
        return self.clear()


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80
