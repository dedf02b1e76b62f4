"""Progress: how far a batch is, told to a function or shown as one line on a terminal."""

from __future__ import annotations

import os
import sys
import time

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    #: Done, failed, running, in all.
    Tell = Callable[[int, int, int, int], None]

_REDRAW_SECONDS = 0.1
_ERASE = "\r\x1b[K"


class Progress(Record):
    """How many steps there are, are done, have failed, and are running."""

    done: int
    failed: int
    running: int
    total: int

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} of {self.total} done{failed}, {self.running} running"


class Display:
    """One line, drawn over and over; nothing of it is left at the end, and nothing of a command is in it."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._next = 0.0
        self._is_shown = False

    def show(self, progress: Progress) -> None:
        """Draw it, if the last time is long enough ago."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _REDRAW_SECONDS
        width = self._width() - 1
        self._write(f"{_ERASE}{f'corral: {progress}'[:width]}")
        self._is_shown = True

    def close(self) -> None:
        """Take the line away."""
        if self._is_shown:
            self._write(_ERASE)

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._terminal.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def _write(self, text: str) -> None:
        try:
            self._terminal.write(text)
            self._terminal.flush()
        except (OSError, ValueError):  # the terminal is gone: that is no reason to end anything
            self._next = float("inf")


class Teller:
    """Turns `progress=` into a function. To be closed, whatever happened."""

    def __init__(self, progress: Callable[[Progress], object] | bool | None) -> None:
        self._call = progress if callable(progress) else None
        stream = sys.stderr
        is_shown = progress is True and stream is not None and stream.isatty()
        self._display = Display(stream) if is_shown else None
        self._last: Progress | None = None

    def tell(self, done: int, failed: int, running: int, total: int) -> None:
        """Say how far it is, if that is news."""
        now = Progress(done, failed, running, total)
        if now == self._last:
            return
        self._last = now
        if self._call is not None:
            self._call(now)
        if self._display is not None:
            self._display.show(now)

    def close(self) -> None:
        if self._display is not None:
            self._display.close()
