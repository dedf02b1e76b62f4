"""A pseudo-terminal for the command, relayed to the caller's own terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import termios
import tty

from corral.runtime.streams import InheritedStreams, no_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

_CHUNK = 65_536


class TerminalStreams(InheritedStreams):
    """One new terminal for all three streams. The caller's is raw meanwhile and restored afterwards."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._room = limit_bytes
        self._ours = self._theirs = -1
        self._saved: list[object] | None = None
        self._previous: object = None
        self._typed = b""
        self._at_line_start = True
        self._has_ended = False
        self.is_over_limit = False

    def __enter__(self) -> Self:
        try:
            self._ours, self._theirs = pty.openpty()
        except OSError as problem:
            raise no_descriptors(problem) from problem
        os.set_blocking(self._ours, False)
        self._copy_size()
        if os.isatty(0):
            self._saved = termios.tcgetattr(0)
            tty.setraw(0, termios.TCSADRAIN)  # what was typed already is kept
        with contextlib.suppress(ValueError):  # only the main thread may listen for signals
            self._previous = signal.signal(signal.SIGWINCH, lambda *_: self._copy_size())
        return self

    def close(self) -> None:
        if self._saved is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, self._saved)  # type: ignore[arg-type]
            self._saved = None
        if self._previous is not None:
            signal.signal(signal.SIGWINCH, self._previous)  # type: ignore[arg-type]
            self._previous = None
        self.close_child_ends()
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    def child_ends(self) -> tuple[int, int, int]:
        return (self._theirs, self._theirs, self._theirs)

    def close_child_ends(self) -> None:
        if self._theirs >= 0:
            os.close(self._theirs)
            self._theirs = -1

    def register(self, poller: select.poll) -> None:
        poller.register(self._ours, select.POLLIN)
        poller.register(0, select.POLLIN)

    def carry(self, descriptor: int, poller: select.poll) -> None:
        if descriptor == 0:
            self._hear(poller)
        else:
            with contextlib.suppress(BlockingIOError):
                if self._show():
                    poller.unregister(self._ours)
                    return
            self._type_in(poller)

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while not self._show():
                pass

    def _hear(self, poller: select.poll) -> None:
        """Take what the caller types; nothing more until that has been passed on."""
        try:
            piece = os.read(0, _CHUNK)
        except OSError:
            piece = b""
        poller.unregister(0)
        self._has_ended = not piece
        # A terminal has no end of file, only a key; after an unfinished line it must be pressed twice.
        self._typed = piece or (b"\x04" if self._at_line_start else b"\x04\x04")
        self._at_line_start = piece.endswith((b"\n", b"\r"))
        poller.modify(self._ours, select.POLLIN | select.POLLOUT)
        self._type_in(poller)

    def _type_in(self, poller: select.poll) -> None:
        """Pass on as much of it as the command's terminal takes now: both sides may be full at once."""
        if not self._typed:
            return
        try:
            self._typed = self._typed[os.write(self._ours, self._typed) :]
        except BlockingIOError:
            return
        except OSError:  # EIO: nobody is there any more
            self._typed = b""
        if not self._typed:
            poller.modify(self._ours, select.POLLIN)
            if not self._has_ended:
                poller.register(0, select.POLLIN)

    def _show(self) -> bool:
        """Pass on what the command prints; True when nobody holds its end any more."""
        try:
            piece = os.read(self._ours, _CHUNK)
        except BlockingIOError:
            raise
        except OSError:  # EIO: the last holder is gone
            return True
        if self._room is not None:
            self.is_over_limit = len(piece) > self._room
            piece = piece[: self._room]
            self._room -= len(piece)
        view = memoryview(piece)
        with contextlib.suppress(OSError):  # the caller's own terminal went away
            while view:
                view = view[os.write(1, view) :]
        return False

    def _copy_size(self) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(1, termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)
