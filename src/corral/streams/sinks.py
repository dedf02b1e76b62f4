"""Sinks: what becomes of the pieces that a command prints on one stream."""

from __future__ import annotations

import errno
import os
import select
import time
from io import BytesIO

from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Kept of each stream when the policy sets no limit. Both together, and one of them as text with four bytes
#: for each character, stay below 64 MB: the caller's memory is not the command's to fill.
KEPT_BYTES = 8 * 1024 * 1024
#: Kept of a stream that went elsewhere, for messages.
TAIL_BYTES = 65_536
#: What a pipe that is ready takes without waiting: PIPE_BUF, see pipe(7).
_READY_BYTES = 4096
_TICK_MS = 200
_PAUSE_SECONDS = 0.01
#: The maker of pseudo-terminals: to open one of its own once more would make another.
PTMX = os.makedev(5, 2)


class Sink:
    """Takes the pieces of one stream, in order."""

    is_wanted = True  # False: whoever was to get them is gone for good

    @property
    def kept(self) -> bytes:
        """What the result will hold."""
        return b""

    def take(self, piece: bytes) -> None:
        """Take one piece, which is not empty. What it raises ends the run."""

    def finish(self) -> None:
        """There will be no more."""

    def close(self) -> None:
        """Give back what was opened."""


class Head(Sink):
    """Keeps the beginning and forgets the rest."""

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._room = limit_bytes
        self._kept = BytesIO()  # gives its content away without a copy; pieces to be joined would be two

    @property
    def kept(self) -> bytes:
        return self._kept.getvalue()

    def take(self, piece: bytes) -> None:
        self._room -= self._kept.write(piece[: self._room])


class Passed(Sink):
    """Hands every piece to others, and keeps the end, where the messages are."""

    def __init__(self, takers: Sequence[Sink]) -> None:
        self._takers = takers
        self._tail = bytearray()

    @property
    def kept(self) -> bytes:
        return bytes(self._tail[-TAIL_BYTES:])

    def take(self, piece: bytes) -> None:
        self._tail += piece
        if len(self._tail) > 4 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]
        for taker in self._takers:
            taker.take(piece)

    def finish(self) -> None:
        for taker in self._takers:
            taker.finish()

    def close(self) -> None:
        for taker in self._takers:
            taker.close()


class Relay(Sink):
    """Passes pieces on to a descriptor of the caller's, and never waits for its reader.

    The descriptor is not made non-blocking: that would change it for everyone who shares it, the shell too.
    Instead it is asked before each write, and given no more than it surely takes. A terminal takes one byte
    for sure, so it is opened once more.
    """

    def __init__(self, descriptor: int, *, keeps_end: bool = False) -> None:
        self._own = _reopen_terminal(descriptor)
        self._tail = bytearray()
        self._keeps_end = keeps_end
        self._is_terminal = os.isatty(descriptor)
        self.problem: OSError | None = None  # why not all could be written, if not for want of a reader
        self.target = descriptor if self._own is None else self._own
        self.pending = memoryview(b"")  # INVARIANT: while there is some, no more is read of a command
        self._ready = select.poll()
        self._ready.register(self.target, select.POLLOUT)

    @property
    def kept(self) -> bytes:
        return bytes(self._tail[-TAIL_BYTES:])

    def take(self, piece: bytes) -> None:
        if self._keeps_end:
            self._tail += piece[-TAIL_BYTES:]
            if len(self._tail) > 4 * TAIL_BYTES:
                del self._tail[:-TAIL_BYTES]
        self.pending = memoryview(self.pending.tobytes() + piece if self.pending else piece)
        self.push()

    def resume(self, pending: bytes, end: bytes, number: int) -> None:
        """Go on where another process has stopped; `number` is the error that it met, or 0."""
        self.pending, self._tail[:] = memoryview(pending), end
        if number:
            self.problem = OSError(number, os.strerror(number))
        self.push()

    def push(self) -> None:
        """Write what can be written now."""
        try:
            while self.pending and self._ready.poll(0):
                self.pending = self.pending[os.write(self.target, self.pending[:_READY_BYTES]) :]
        except BlockingIOError:  # it is a terminal, or somebody else has made it non-blocking
            return
        except OSError as problem:
            self.pending = memoryview(b"")
            self.is_wanted = False
            if not self._is_reader_gone(problem):
                self.problem = problem

    def _is_reader_gone(self, problem: OSError) -> bool:
        """A terminal that was hung up says EIO; anything else does so when its content is lost."""
        is_hung_up = problem.errno == errno.EIO and self._is_terminal
        return is_hung_up or problem.errno in {errno.EPIPE, errno.ECONNRESET}

    def close(self) -> None:
        if self._own is not None:
            os.close(self._own)
            self._own = None


def _reopen_terminal(descriptor: int) -> int | None:
    """A non-blocking descriptor of our own for a terminal, if that can be had."""
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        if os.isatty(descriptor) and os.fstat(descriptor).st_rdev != PTMX:
            return os.open(f"/proc/self/fd/{descriptor}", flags)
    except OSError:  # another user's terminal: then as with anything else
        return None
    return None


def deliver(relays: Sequence[Relay], is_enough: Callable[[float], bool]) -> None:
    """Wait for the readers until they have everything, or enough of it. Raises SetupError if it was lost.

    `is_enough` is asked now and then, with the seconds since something was last taken.
    """
    _wait_for_readers(relays, is_enough)
    for relay in relays:
        if relay.problem is not None:
            raise SetupError(
                "output-not-written",
                "what it printed could not be written",
                why=relay.problem.strerror or str(relay.problem),
                fix="free some space or choose another place; the earlier output is there",
                ran=True,
            ) from relay.problem


def _wait_for_readers(relays: Sequence[Relay], is_enough: Callable[[float], bool]) -> None:
    last = time.monotonic()
    while waiting := [relay for relay in relays if relay.pending]:
        poller = select.poll()
        for relay in waiting:
            poller.register(relay.target, select.POLLOUT)
        left = sum(len(relay.pending) for relay in waiting)
        is_ready = bool(poller.poll(_TICK_MS))
        for relay in waiting:
            relay.push()
        if sum(len(relay.pending) for relay in waiting) < left:
            last = time.monotonic()
        elif is_enough(time.monotonic() - last):
            return
        elif is_ready:
            time.sleep(_PAUSE_SECONDS)  # it says that it is ready, and takes nothing
