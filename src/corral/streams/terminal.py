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

from corral.streams.note import Note
from corral.streams.sinks import Relay, deliver
from corral.streams.streams import InheritedStreams, no_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

_CHUNK = 65_536
#: More than a terminal holds. Whoever lives on may be writing without end.
_LEFT_BYTES = 1024 * 1024


class TerminalStreams(InheritedStreams):
    """One new terminal for all three streams. The caller's is raw meanwhile and restored afterwards."""

    stdout_size: int = 0
    stderr_size: int = 0  # a terminal has but one output

    def __init__(self, limit_bytes: int | None) -> None:
        self._room = limit_bytes
        self._ours = self._theirs = -1
        self._saved: list[object] | None = None
        self._previous: object = None
        self._typed = b""
        self._at_line_start = True
        self._has_ended = False  # the caller types no more
        self._has_hung_up = False  # nobody holds the command's end any more
        self._relay = Relay(1)
        self._note = Note()
        self._expected: dict[int, int] = {}
        self.is_over_limit = False

    def __enter__(self) -> Self:
        try:
            self._ours, self._theirs = pty.openpty()
        except OSError as problem:
            self._relay.close()
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
        self._close_ours()
        self._relay.close()

    def child_ends(self) -> tuple[int, int, int]:
        return (self._theirs, self._theirs, self._theirs)

    def close_child_ends(self) -> None:
        if self._theirs >= 0:
            os.close(self._theirs)
            self._theirs = -1

    def register(self, poller: select.poll) -> None:
        self._steer(poller)

    def carry(self, descriptor: int, poller: select.poll) -> None:
        if descriptor == 0:
            self._hear()
        elif descriptor == self._relay.target:
            self._relay.push()
        elif not self._relay.pending:
            self._show()
        self._type_in()
        self._steer(poller)

    def _steer(self, poller: select.poll) -> None:
        """Wait for what can go on: no side is read while the other has to take something first."""
        if not self._relay.is_wanted:
            self._hang_up(poller)
        events = 0 if self._relay.pending else select.POLLIN
        if self._typed:
            events |= select.POLLOUT
        listens = not self._typed and not self._has_ended and not self._has_hung_up
        self._expect(poller, self._ours, 0 if self._has_hung_up else events)
        self._expect(poller, self._relay.target, select.POLLOUT if self._relay.pending else 0)
        self._expect(poller, 0, select.POLLIN if listens else 0)

    def _hang_up(self, poller: select.poll) -> None:
        """Nobody reads any more: the command learns it as from any terminal that goes away, by SIGHUP."""
        self._expect(poller, self._ours, 0)
        self._has_hung_up = True
        self._typed = b""
        self._close_ours()

    def _close_ours(self) -> None:
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    def _expect(self, poller: select.poll, descriptor: int, events: int) -> None:
        # Without events it is taken out: a hang-up would still be told, over and over.
        before = self._expected.get(descriptor, 0)
        if events and events != before:
            poller.register(descriptor, events)
        elif before and not events:
            poller.unregister(descriptor)
        self._expected[descriptor] = events

    def drain(self) -> None:
        most = self.stdout_size + _LEFT_BYTES
        while not self._has_hung_up and self.stdout_size < most and self._show():
            pass

    def flush(self, is_enough: Callable[[float], bool]) -> None:
        self._relay.take(self._note.clear())
        deliver((self._relay,), is_enough)

    def _hear(self) -> None:
        """Take what the caller types; nothing more until that has been passed on."""
        try:
            piece = os.read(0, _CHUNK)
        except OSError:
            piece = b""
        self._has_ended = not piece
        # A terminal has no end of file, only a key; after an unfinished line it must be pressed twice.
        self._typed = piece or (b"\x04" if self._at_line_start else b"\x04\x04")
        self._at_line_start = piece.endswith((b"\n", b"\r"))

    def _type_in(self) -> None:
        """Pass on as much of it as the command's terminal takes now: both sides may be full at once."""
        if not self._typed:
            return
        try:
            self._typed = self._typed[os.write(self._ours, self._typed) :]
        except BlockingIOError:
            return
        except OSError:  # EIO: nobody is there any more
            self._typed = b""

    def _show(self) -> bool:
        """Pass on some of what the command prints; False if there is nothing now, or never will be."""
        try:
            piece = os.read(self._ours, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # EIO: the last holder is gone
            self._has_hung_up = True
            return False
        self.stdout_size += len(piece)
        if self._room is not None:
            self.is_over_limit |= len(piece) > self._room
            piece = piece[: self._room]
            self._room -= len(piece)
        if piece:
            self._relay.take(self._note.make_way(piece) + piece)
        return True

    def show_note(self, text: str) -> None:
        if not self._relay.pending and self._relay.is_wanted and os.isatty(self._relay.target):
            self._relay.take(self._note.draw(text))

    def _copy_size(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # ValueError: it has hung up
            size = fcntl.ioctl(1, termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)
