"""Streams: the command's stdin, stdout and stderr, bounded, whatever it prints."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select

from corral.model.errors import SetupError
from corral.model.plan import StdioMode
from corral.streams.callers_outputs import is_same_file, leads_past_corral
from corral.streams.feed import FileFeed
from corral.streams.sinks import Head, Relay, Sink, deliver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, Self

    from corral.model.plan import Plan
    from corral.streams.destinations import Destinations
    from corral.streams.doors import Doors

    class ErrorReader(Protocol):
        def __call__(self, piece: bytes, *, can_tell: bool = True) -> None: ...


_CHUNK = 65_536
#: How large a pipe is, where the kernel tells, and where it does not: the most that macOS has.
_F_GETPIPE_SZ: int = getattr(fcntl, "F_GETPIPE_SZ", 0)
_MOST_IN_PIPE = 65_536


def open_streams(
    plan: Plan, wanted: Destinations | None = None, doors: Doors | None = None
) -> InheritedStreams:
    """The streams that a plan asks for, to be used in a `with` statement; not given as they are: `doors`."""
    mode = plan.command.stdio
    limit = plan.resolved.limits.output_bytes
    if mode is StdioMode.TERMINAL:
        from corral.streams.terminal import TerminalStreams

        return TerminalStreams(limit)
    if mode is StdioMode.CAPTURE:
        return PipedStreams(limit, plan.command.stdin, wanted, doors=doors)
    # Errors are read on their way, for what they say of denials; on a terminal nothing is changed for that.
    reads_errors = not plan.hears and not leads_past_corral()
    if limit is not None or reads_errors or (doors is not None and doors.among((0, 1, 2))):
        return RelayedStreams(limit, doors=doors, reads_errors=reads_errors)
    return InheritedStreams()


def no_descriptors(problem: OSError) -> SetupError:
    """The caller has run out of something that every process needs."""
    return SetupError(
        "streams",
        "the command's input and output could not be set up",
        why=problem.strerror or str(problem),
        fix="close files that are no longer used, or raise the limit on open files",
    )


class InheritedStreams:
    """The caller's own descriptors, untouched: nothing is counted and nothing is kept."""

    is_over_limit = False
    stdout = b""
    stderr = b""
    stdout_size: int | None = None  # bytes that were printed, kept or not; None: nobody counted
    stderr_size: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what was opened."""

    def child_ends(self) -> tuple[int, int, int]:
        """The three descriptors that the command is given."""
        return (0, 1, 2)

    def close_child_ends(self) -> None:
        """After the start: only the command holds its ends."""

    def register(self, poller: select.poll) -> None:
        """Say what is to be waited for."""

    def carry(self, descriptor: int, poller: select.poll) -> None:
        """Move what can be moved on one descriptor; forget it when it is at its end."""

    def drain(self) -> None:
        """Take what is left, without waiting for anyone who still holds the other end."""

    def flush(self, is_enough: Callable[[float], bool]) -> None:
        """Let the caller's own readers have the rest; see `deliver`."""

    def read_errors(self, reader: ErrorReader) -> None:
        """Let somebody read standard error on its way, where it comes this way."""

    def show_note(self, text: str) -> None:
        """Show a line on the caller's terminal, where that does not come between what the command prints."""

    @property
    def is_truncated(self) -> bool:
        """Whether something was printed that is missing where it should be."""
        return self.is_over_limit


class GivenStreams(InheritedStreams):
    """Descriptors that somebody has handed over: the command's own from its start on."""

    def __init__(self, given: tuple[int, int, int]) -> None:
        self._given = given
        self._is_held = True
        self.is_over_limit = False

    def close(self) -> None:
        self.close_child_ends()

    def child_ends(self) -> tuple[int, int, int]:
        return self._given

    def close_child_ends(self) -> None:
        if self._is_held:
            self._is_held = False
            for descriptor in set(self._given):
                os.close(descriptor)


def _reading_only(descriptor: int) -> int:
    """A terminal is open for both; whoever's output is limited must not print through his input."""
    if os.isatty(descriptor):
        with contextlib.suppress(OSError):  # another user's terminal
            return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    return os.dup(descriptor)


class PipedStreams(InheritedStreams):
    """Pipes: stdin is fed from bytes or the caller's own; output is read to its end, whatever is kept of it.

    The limit is for both streams together. Without one the command may print what it likes.
    """

    def __init__(
        self,
        limit_bytes: int | None,
        stdin: bytes | None,
        wanted: Destinations | None = None,
        open_null: Callable[[], int] | None = None,
        *,
        inherited: int = 0,
        doors: Doors | None = None,
    ) -> None:
        """`open_null` opens the null device, for an empty stdin, more quickly than by its name.

        `inherited` is the caller's stdin, for a command that is to have that, though not if it is a door.
        """
        self._limit = self._room = limit_bytes
        self._inherits_stdin = stdin is None
        self._inherited = inherited
        self._pending = memoryview(stdin or b"")
        self._doors = doors
        self._file: FileFeed | None = None  # the caller's stdin, if it is a door
        self._wanted = wanted
        self._open_null = open_null
        self._open: set[int] = set()
        self._child: list[int] = []
        self._feed_end = -1
        self._outputs: tuple[int, int] = (-1, -1)
        self._sinks: list[Sink] = []
        self._sizes = [0, 0]
        self._reader: ErrorReader | None = None
        self.is_over_limit = False

    def read_errors(self, reader: ErrorReader) -> None:
        self._reader = reader

    def __enter__(self) -> Self:
        try:
            for name in ("stdout", "stderr"):
                self._sinks.append(self._open_sink(name))
            self._child.append(self._open_stdin())
            self._outputs = self._open_outputs()
        except OSError as problem:
            self.close()
            raise no_descriptors(problem) from problem
        except BaseException:
            self.close()
            raise
        return self

    def _open_sink(self, name: str) -> Sink:
        sink = self._wanted.open(name) if self._wanted is not None else None
        if sink is not None:
            return sink
        return Head() if self._limit is None else Head(self._limit)

    def _open_stdin(self) -> int:
        if self._inherits_stdin and self._doors is not None and self._doors.among((self._inherited,)):
            return self._open_door(self._doors)
        if self._inherits_stdin:
            return os.dup(self._inherited) if self._limit is None else _reading_only(self._inherited)
        if not self._pending and self._open_null is not None:
            return self._open_null()
        if not self._pending:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self._open_feed()

    def _open_door(self, doors: Doors) -> int:
        """The caller's file, for reading alone; where that cannot be had, what is in it comes by a pipe."""
        self._file = FileFeed(doors, self._inherited)
        if self._file.anew >= 0:
            return os.dup(self._file.anew)
        theirs = self._open_feed()
        try:
            self._pending = self._file.begin(theirs)
        except BaseException:
            os.close(theirs)
            raise
        return theirs

    def _open_feed(self) -> int:
        theirs, self._feed_end = os.pipe()
        self._keep(self._feed_end)
        return theirs

    def _open_outputs(self) -> tuple[int, int]:
        return (self._open_output(), self._open_output())

    def _open_output(self) -> int:
        ours, theirs = os.pipe()
        self._child.append(theirs)
        return self._keep(ours)

    def _keep(self, descriptor: int) -> int:
        os.set_blocking(descriptor, False)
        self._open.add(descriptor)
        return descriptor

    def close(self) -> None:
        self.close_child_ends()
        if self._file is not None:
            self._file.close(len(self._pending))
            self._file = None
        for descriptor in tuple(self._open):
            self._close(descriptor)
        while self._sinks:
            self._sinks.pop().close()

    def _close(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        os.close(descriptor)

    def child_ends(self) -> tuple[int, int, int]:
        return (self._child[0], self._child[1], self._child[2])

    def close_child_ends(self) -> None:
        while self._child:
            os.close(self._child.pop())

    def register(self, poller: select.poll) -> None:
        for descriptor in self._open:
            events = select.POLLOUT if descriptor == self._feed_end else select.POLLIN
            poller.register(descriptor, events)

    def carry(self, descriptor: int, poller: select.poll) -> None:
        ended = self._feed() if descriptor == self._feed_end else self._take(descriptor) == 0
        if ended:
            poller.unregister(descriptor)
            self._close(descriptor)

    def drain(self) -> None:
        for descriptor in self._outputs:
            self._drain(descriptor)
        for sink in self._sinks:
            sink.finish()

    def _drain(self, descriptor: int) -> None:
        if descriptor not in self._open:
            return
        # No more than the pipe holds now: somebody who lives on may be writing without end.
        left = fcntl.fcntl(descriptor, _F_GETPIPE_SZ) if _F_GETPIPE_SZ else _MOST_IN_PIPE
        while left > 0 and (taken := self._take(descriptor)):
            left -= taken

    def _feed(self) -> bool:
        """Write some of stdin; True when there is no more, or nobody reads it."""
        try:
            if self._file is not None and not self._pending:
                self._pending = self._file.read()
            self._pending = self._pending[os.write(self._feed_end, self._pending[:_CHUNK]) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            return True
        return not self._pending and (self._file is None or self._file.is_at_end)

    def _take(self, descriptor: int) -> int | None:
        """Read some output and hand it on: how much it was, 0 at the end, None if there is nothing now."""
        try:
            piece = os.read(descriptor, _CHUNK)
        except BlockingIOError:  # the command itself may read its own pipe empty before we do
            return None
        which = 0 if descriptor == self._outputs[0] else 1
        self._sizes[which] += len(piece)
        permitted = self._permitted(piece)
        if permitted:
            self._sinks[which].take(permitted)
            if self._reader is not None and (which == 1 or self._outputs[1] < 0):
                self._reader(permitted, can_tell=not getattr(self._sinks[which], "pending", b""))
        return len(piece) if self._sinks[which].is_wanted else 0

    def _permitted(self, piece: bytes) -> bytes:
        """What of it may still be shown. Past the limit it is read all the same, and thrown away."""
        if self._room is None:
            return piece
        if len(piece) > self._room:
            self.is_over_limit = True
        permitted = piece[: self._room]
        self._room -= len(permitted)
        return permitted

    @property
    def stdout(self) -> bytes:  # type: ignore[override]
        return self._sinks[0].kept

    @property
    def stderr(self) -> bytes:  # type: ignore[override]
        return self._sinks[1].kept

    @property
    def stdout_size(self) -> int:  # type: ignore[override]
        return self._sizes[0]

    @property
    def stderr_size(self) -> int:  # type: ignore[override]
        return self._sizes[1]

    @property
    def is_truncated(self) -> bool:
        return sum(self._sizes) > len(self.stdout) + len(self.stderr)


class RelayedStreams(PipedStreams):
    """The caller's stdin, and output that is counted on its way to the caller's own descriptors.

    Without a limit only that output goes this way which must not go directly: that of the `doors`.

    A reader that stops reading stops the command, not corral: a stream is read again when it has taken all.
    """

    def __init__(
        self,
        limit_bytes: int | None,
        callers: tuple[int, int, int] = (0, 1, 2),
        doors: Doors | None = None,
        *,
        reads_errors: bool = False,
    ) -> None:
        """`reads_errors`: standard error goes this way in any case, and its end is kept."""
        super().__init__(limit_bytes, None, inherited=callers[0], doors=doors)
        self._callers = callers
        self._reads_errors = reads_errors
        self._relays: list[Relay] = []
        self._stopped: set[int] = set()

    def _open_sink(self, name: str) -> Sink:
        self._relays.append(Relay(self._callers[1 if name == "stdout" else 2], keeps_end=self._reads_errors))
        return self._relays[-1]

    def _open_outputs(self) -> tuple[int, int]:
        if not (self._is_relayed(1) and is_same_file(self._callers[1], self._callers[2])):
            return (self._open_or_pass(1), self._open_or_pass(2))
        # `2>&1`: through one pipe as well, else lines would come out of order, and in pieces.
        ours = self._open_output()
        self._child.append(os.dup(self._child[-1]))
        return (ours, -1)

    def _is_relayed(self, number: int) -> bool:
        is_door = self._doors is not None and bool(self._doors.among((self._callers[number],)))
        is_error = number == 2 or is_same_file(self._callers[1], self._callers[2])
        return self._limit is not None or is_door or (self._reads_errors and is_error)

    def _open_or_pass(self, number: int) -> int:
        if self._is_relayed(number):
            return self._open_output()
        self._child.append(os.dup(self._callers[number]))
        return -1

    def carry(self, descriptor: int, poller: select.poll) -> None:
        if descriptor == self._feed_end:
            super().carry(descriptor, poller)
        for relay, source in zip(self._relays, self._outputs, strict=True):
            if descriptor == relay.target:
                relay.push()
            elif descriptor == source:
                super().carry(descriptor, poller)
            else:
                continue
            self._steer(relay, source, poller)

    def _steer(self, relay: Relay, source: int, poller: select.poll) -> None:
        """Wait for the reader if it has to take something first, else for the command."""
        if relay.pending and relay.target not in self._stopped:
            self._stopped.add(relay.target)
            if source in self._open:
                poller.unregister(source)
            poller.register(relay.target, select.POLLOUT)
        elif not relay.pending and relay.target in self._stopped:
            self._stopped.discard(relay.target)
            poller.unregister(relay.target)
            if source in self._open and relay.is_wanted:
                poller.register(source, select.POLLIN)
            elif source in self._open:
                self._close(source)  # nobody reads it any more: the command learns it by SIGPIPE

    def flush(self, is_enough: Callable[[float], bool]) -> None:
        deliver(self._relays, is_enough)

    @property
    def stdout(self) -> bytes:  # type: ignore[override]
        return b""

    @property
    def stderr(self) -> bytes:  # type: ignore[override]
        """The end of it; after `2>&1` that of both."""
        return self._relays[1].kept or self._relays[0].kept

    @property
    def is_truncated(self) -> bool:
        return self.is_over_limit
