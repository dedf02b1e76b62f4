"""Relay bytes from one socket to another: unseen, where nobody has to look at them.

Small amounts go through a pipe, within the kernel. A stream that fills one is copied in large pieces instead:
measured on loopback, that is half as fast again, since both ends are woken up less often.

A flow is one direction. It is told what has become possible (`readable`, `writable`) and goes on until the
kernel says "would block". Its connection hears of the end, and of errors as the OSError that they are.
"""

from __future__ import annotations

import os
import socket
import sys
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class RelayMeter(Protocol):
        """How much may pass, of all that wants to."""

        def grant(self, wanted: int, flow: Flow) -> int:
            """So many bytes may be read now; 0: the flow is told when there are more."""
            ...

        def count(self, passed: int, is_sent: bool) -> None: ...


#: What a pipe holds. More costs memory that a sandbox can make the kernel keep; less costs system calls.
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031
#: After so many bytes it is somebody else's turn.
_TURN_BYTES = 4 << 20
_TURN_STEPS = 64
#: And after so long: what has to be looked at can be slow to read.
_TURN_SECONDS = 0.005
_CHUNK = 64 << 10
#: Of a stream that is copied; and what all streams together may have read that nobody takes yet.
_BULK_BYTES = 4 << 20
_MOST_HELD = 32 << 20
#: Who has so much at once has a stream.
_WORTH_A_COPY = 512 << 10
_SPLICE = getattr(os, "SPLICE_F_NONBLOCK", 0) | getattr(os, "SPLICE_F_MOVE", 0)


class Pipes:
    """A small pool. A flow holds a pipe only while there is something in it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.made = 0
        self.held = 0  # bytes that were copied and not sent yet, of all flows
        self._room: memoryview | None = None
        self._free: list[tuple[int, int]] = []

    def room(self) -> memoryview | None:
        """A place to copy through, for one moment; None where too much is held already."""
        if self.held > _MOST_HELD:
            return None
        if self._room is None:
            self._room = memoryview(bytearray(_BULK_BYTES))
        return self._room

    def take(self) -> tuple[int, int] | None:
        """A pipe with nothing in it; None if there are none left: then bytes are copied."""
        if self._free:
            return self._free.pop()
        if self.made >= self.most:
            return None
        try:
            if sys.platform != "linux":  # nothing moves bytes within the kernel there: they are copied
                return None
            pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        self.made += 1
        _enlarge(pipe[1])
        return pipe

    def give_back(self, pipe: tuple[int, int], *, is_empty: bool) -> None:
        """INVARIANT: what one connection left in a pipe never reaches another one."""
        if is_empty:
            self._free.append(pipe)
            return
        self.made -= 1
        for descriptor in pipe:
            os.close(descriptor)

    def close(self) -> None:
        while self._free:
            self.give_back(self._free.pop(), is_empty=False)


def _splice(source: int, sink: int, most: int) -> int:
    if sys.platform != "linux":
        raise OSError("there are no pipes to splice with")
    return os.splice(source, sink, most, flags=_SPLICE)


def _enlarge(descriptor: int) -> None:
    import contextlib
    import fcntl

    with contextlib.suppress(OSError):  # the user has more pipes than the kernel likes: a small one will do
        fcntl.fcntl(descriptor, _F_SETPIPE_SZ, _PIPE_BYTES)


class Flow:
    """One direction of a connection, its bytes unseen."""

    __slots__ = (
        *("_ahead", "_in_pipe", "_is_at_end", "_is_bulk", "_left", "_meter", "_pipe", "_pipes"),
        *("_sink", "_source"),
        *("is_done", "is_sent", "readable", "round", "total", "writable"),
    )

    def __init__(
        self, source: socket.socket, sink: socket.socket, meter: RelayMeter, pipes: Pipes, *, is_sent: bool
    ) -> None:
        self._source, self._sink, self._meter, self._pipes = source, sink, meter, pipes
        self.is_sent = is_sent
        self.readable = self.writable = True
        self.total = self.round = 0
        self.is_done = False
        self._is_at_end = False
        self._ahead = b""  # what was read already, to be sent first
        self._left: memoryview | None = None  # of what was copied
        self._is_bulk = False
        self._pipe: tuple[int, int] | None = None
        self._in_pipe = 0

    def send_first(self, data: bytes, came: int) -> None:
        """What may pass of the bytes that came while the beginning was looked at."""
        self._ahead += data
        self._count(came)

    def pump(self) -> bool:
        """Move what can be moved. True if there is more to do, and it is only somebody else's turn.

        Raises OSError if one of the two sides has ended the connection badly.
        """
        turn, ends = _TURN_BYTES, monotonic() + _TURN_SECONDS
        for _ in range(_TURN_STEPS):
            if not self._drain():
                return False
            if self._is_at_end:
                self._pass_end()
                return False
            if not self.readable or not self.writable:
                return False
            wanted = self._meter.grant(turn, self)
            if wanted <= 0:
                return False
            moved = self._fill(wanted)
            if moved < 0:
                return False
            turn -= moved
            if turn <= 0 or monotonic() > ends:
                break
        return True

    def release(self) -> None:
        """Give back what is held. Nothing moves afterwards."""
        self.is_done = True
        self._ahead = b""
        self._hold(None)
        if self._pipe is not None:
            self._pipes.give_back(self._pipe, is_empty=not self._in_pipe)
            self._pipe = None

    def _drain(self) -> bool:
        """Send what was read. True if nothing is left of it."""
        while self._ahead or self._left is not None or self._in_pipe:
            if not self.writable:
                return False
            try:
                if self._ahead:
                    self._ahead = self._ahead[self._sink.send(self._ahead) :]
                elif self._left is not None:
                    self._hold(self._left[self._sink.send(self._left) :])
                else:
                    self._in_pipe -= self._from_pipe()
            except BlockingIOError:
                self.writable = False
                return False
        if self._pipe is not None:
            self._pipes.give_back(self._pipe, is_empty=True)
            self._pipe = None
        return True

    def _fill(self, wanted: int) -> int:
        """Read: how much; -1 if there is nothing now. Nothing is held at this moment."""
        room = self._pipes.room() if self._is_bulk else None
        if room is not None:
            return self._copy_bulk(room[:wanted])
        self._pipe = self._pipes.take()
        if self._pipe is None:
            return self._copy(min(wanted, _CHUNK))
        try:
            moved = _splice(self._source.fileno(), self._pipe[1], min(wanted, _PIPE_BYTES))
        except BlockingIOError:
            self.readable = False
            self._drain()  # gives the pipe back
            return -1
        self._in_pipe = moved
        self._is_at_end = moved == 0
        self._is_bulk = moved >= _WORTH_A_COPY
        self._count(moved)
        return moved

    def _receive(self, wanted: int) -> bytes | None:
        """Read in order to look at it; None if there is nothing now."""
        try:
            data = self._source.recv(wanted)
        except BlockingIOError:
            self.readable = False
            return None
        self._is_at_end = not data
        self._count(len(data))
        return data

    def _from_pipe(self) -> int:
        assert self._pipe is not None
        return _splice(self._pipe[0], self._sink.fileno(), self._in_pipe)

    def _copy(self, wanted: int) -> int:
        """Without a pipe: look, send, and remove what was sent. So nothing is held here either."""
        try:
            data = self._source.recv(wanted, socket.MSG_PEEK)
        except BlockingIOError:
            self.readable = False
            return -1
        if not data:
            self._is_at_end = True
            return 0
        self._count(len(data))  # ORDER: first, since it raises where nothing more may pass
        try:
            sent = self._sink.send(data)
        except BlockingIOError:
            self.writable, sent = False, 0
        self._count(sent - len(data))
        if sent:
            self._source.recv(sent)
        return sent or -1

    def _copy_bulk(self, room: memoryview) -> int:
        """In one large piece. What the sink does not take is kept; nothing more is read before it is gone."""
        try:
            moved = self._source.recv_into(room)
        except BlockingIOError:
            self.readable = False
            return -1
        self._is_at_end = moved == 0
        self._is_bulk = moved >= _WORTH_A_COPY
        self._count(moved)
        sent = 0
        try:
            sent = self._sink.send(room[:moved]) if moved else 0
        except BlockingIOError:
            self.writable = False
        if sent < moved:
            self._hold(memoryview(bytes(room[sent:moved])))  # the room is everybody's
        return moved

    def _hold(self, left: memoryview | None) -> None:
        """INVARIANT: `Pipes.held` is the sum of what all flows hold."""
        self._pipes.held += (len(left) if left else 0) - (len(self._left) if self._left else 0)
        self._left = left or None

    def _pass_end(self) -> None:
        """The source says no more: the sink is told, and may still answer."""
        if not self.is_done:
            self.is_done = True
            self._sink.shutdown(socket.SHUT_WR)

    def _count(self, passed: int) -> None:
        self.total += passed
        self._meter.count(passed, self.is_sent)
