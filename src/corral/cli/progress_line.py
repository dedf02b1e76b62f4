"""ProgressLine: one line on the terminal about work that takes longer than two seconds, gone afterwards."""

from __future__ import annotations

import os
import sys
import threading
import time

from corral.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

_ERASE = "\r\x1b[K"
#: Quicker work says nothing.
PATIENCE_SECONDS = 2.0
_REDRAW_SECONDS = 1.0


class ProgressLine:
    """Says on stderr what is being done and for how long; nothing where stderr is no terminal.

    A context manager. Whoever prints lines meanwhile calls `clear` before each.
    """

    def __init__(self, what: str, *, patience: float = PATIENCE_SECONDS) -> None:
        self._what = what
        self._patience = patience
        self._is_wanted = bool(what) and sys.stderr.isatty()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._is_drawn = False
        self._began = time.monotonic()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._is_wanted:
            self._thread = threading.Thread(target=self._draw_on, name="corral-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self.clear()

    def say(self, what: str) -> None:
        """Something else is being done now."""
        self._what = what

    def clear(self) -> None:
        """Take the line away, until it is drawn again."""
        with self._lock:
            if self._is_drawn:
                self._is_drawn = False
                self._write(_ERASE)

    def _draw_on(self) -> None:
        wait = self._patience
        while not self._over.wait(wait):
            wait = _REDRAW_SECONDS
            with self._lock:
                self._is_drawn = True
                self._write(f"{_ERASE}{self._line()}")

    def _line(self) -> str:
        seconds = time.monotonic() - self._began
        try:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        except (OSError, ValueError):
            width = 80
        # A line that wraps cannot be removed.
        return f"corral: {printable(self._what)} ({seconds:.0f} s)"[: width - 1]

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # the terminal is gone: no reason to end the work
            self._over.set()
