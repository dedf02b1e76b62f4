"""Streams: the command's stdin, stdout and stderr, bounded, whatever it prints."""

from __future__ import annotations

import os
import select

from corral.model.errors import SetupError
from corral.model.plan import StdioMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from corral.model.plan import Plan

#: What is kept of captured output when the policy sets no limit: the caller's memory is not endless.
CAPTURE_BYTES = 64 * 1024 * 1024
_CHUNK = 65_536


def open_streams(plan: Plan) -> InheritedStreams:
    """The streams that a plan asks for, to be used in a `with` statement."""
    mode = plan.command.stdio
    if mode is StdioMode.TERMINAL:
        from corral.runtime.terminal import TerminalStreams

        return TerminalStreams(plan.ground.limits.output_bytes)
    if mode is StdioMode.CAPTURE:
        limit = plan.ground.limits.output_bytes
        return PipedStreams(CAPTURE_BYTES if limit is None else limit, plan.command.stdin)
    if plan.ground.limits.output_bytes is not None:
        return RelayedStreams(plan.ground.limits.output_bytes)
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
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


class PipedStreams(InheritedStreams):
    """Pipes: stdin is fed from bytes or the caller's own, output is kept up to a limit for both together."""

    def __init__(self, limit_bytes: int, stdin: bytes | None) -> None:
        self._room = limit_bytes
        self._inherits_stdin = stdin is None
        self._pending = memoryview(stdin or b"")
        self._open: set[int] = set()
        self._child: list[int] = []
        self._pieces: tuple[list[bytes], list[bytes]] = ([], [])
        self._feed_end = -1
        self._outputs: tuple[int, int] = (-1, -1)
        self.is_over_limit = False

    def __enter__(self) -> Self:
        try:
            self._child.append(self._open_stdin())
            self._outputs = (self._open_output(), self._open_output())
        except OSError as problem:
            self.close()
            raise no_descriptors(problem) from problem
        return self

    def _open_stdin(self) -> int:
        if self._inherits_stdin:
            return os.dup(0)
        if not self._pending:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        theirs, self._feed_end = os.pipe()
        self._keep(self._feed_end)
        return theirs

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
        for descriptor in tuple(self._open):
            self._close(descriptor)

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
        try:
            ended = self._feed() if descriptor == self._feed_end else self._take(descriptor)
        except BlockingIOError:  # the command itself may read its own pipe empty before we do
            return
        if ended:
            poller.unregister(descriptor)
            self._close(descriptor)

    def drain(self) -> None:
        for descriptor in self._outputs:
            while descriptor in self._open:
                try:
                    if self._take(descriptor):
                        self._close(descriptor)
                except BlockingIOError:
                    break

    def _feed(self) -> bool:
        """Write some of stdin; True when there is no more, or nobody reads it."""
        try:
            self._pending = self._pending[os.write(self._feed_end, self._pending[:_CHUNK]) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            return True
        return not self._pending

    def _take(self, descriptor: int) -> bool:
        """Read some output; True at its end. Past the limit it is read and thrown away."""
        piece = os.read(descriptor, _CHUNK)
        if len(piece) > self._room:
            self.is_over_limit = True
        kept = piece[: self._room]
        self._room -= len(kept)
        if kept and not self._store(0 if descriptor == self._outputs[0] else 1, kept):
            return True
        return not piece

    def _store(self, which: int, piece: bytes) -> bool:
        """Put a piece where it belongs; False if nobody wants any more."""
        self._pieces[which].append(piece)
        return True

    @property
    def stdout(self) -> bytes:  # type: ignore[override]
        return b"".join(self._pieces[0])

    @property
    def stderr(self) -> bytes:  # type: ignore[override]
        return b"".join(self._pieces[1])


class RelayedStreams(PipedStreams):
    """The caller's stdin, and output that is counted on its way to the caller's own descriptors."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes, None)

    def _store(self, which: int, piece: bytes) -> bool:
        view = memoryview(piece)
        try:
            while view:
                view = view[os.write(1 + which, view) :]
        except OSError:  # the reader is gone or the disk is full: the command learns it by SIGPIPE
            return False
        return True
