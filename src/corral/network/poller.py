"""What the gateway waits with: epoll on Linux; kqueue, in epoll's words, where there is that instead."""

from __future__ import annotations

import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Poller(Protocol):
        def register(self, descriptor: int, events: int, /) -> None: ...

        def modify(self, descriptor: int, events: int, /) -> None: ...

        def unregister(self, descriptor: int, /) -> None: ...

        def poll(self, seconds: float | None, most: int, /) -> list[tuple[int, int]]: ...

        def close(self) -> None: ...


#: epoll(2): the same on every machine that Linux runs on.
EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLRDHUP, EPOLLET = 0x1, 0x4, 0x8, 0x10, 0x2000, 0x8000_0000


class Waker:
    """A descriptor that becomes readable when another thread wants the loop to look up."""

    def __init__(self) -> None:
        if sys.platform == "linux":
            self.descriptor = self._end = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:
            self.descriptor, self._end = os.pipe()
            os.set_blocking(self.descriptor, False)
            os.set_blocking(self._end, False)

    def wake(self) -> None:
        try:
            os.write(self._end, b"\1\0\0\0\0\0\0\0")  # a number, to an eventfd
        except BlockingIOError:
            return  # it is awake anyway

    def settle(self) -> None:
        """It has looked up."""
        try:
            while len(os.read(self.descriptor, 4096)) == 4096:
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        for descriptor in {self.descriptor, self._end}:
            os.close(descriptor)


def open_waker() -> Waker:
    """A new one. Raises OSError."""
    return Waker()


def open_poller() -> Poller:
    """The kernel's own. Raises OSError."""
    if sys.platform == "linux":
        return select.epoll()
    if sys.platform == "darwin":
        return KqueuePoller()
    raise OSError("this platform has neither epoll nor kqueue")


if sys.platform == "darwin":

    class KqueuePoller:
        """kqueue(2). Reading and writing are two filters of one descriptor; what both tell is told at once.

        INVARIANT: a mask means what epoll's does. The end of what comes in is RDHUP; an end with an error, or
        of both directions, is HUP, so that whoever waits for a connection hears of its failure.
        """

        def __init__(self) -> None:
            self._queue = select.kqueue()
            self._events: dict[int, int] = {}

        def register(self, descriptor: int, events: int) -> None:
            self._events[descriptor] = 0
            self.modify(descriptor, events)

        def modify(self, descriptor: int, events: int) -> None:
            before, self._events[descriptor] = self._events[descriptor], events
            edge = select.KQ_EV_CLEAR if events & EPOLLET else 0
            changes = []
            for bit, kind in ((EPOLLIN, select.KQ_FILTER_READ), (EPOLLOUT, select.KQ_FILTER_WRITE)):
                if events & bit:
                    changes.append(select.kevent(descriptor, kind, select.KQ_EV_ADD | edge))
                elif before & bit:
                    changes.append(select.kevent(descriptor, kind, select.KQ_EV_DELETE))
            if changes:
                self._queue.control(changes, 0)

        def unregister(self, descriptor: int) -> None:
            self.modify(descriptor, 0)
            del self._events[descriptor]

        def poll(self, seconds: float | None, most: int) -> list[tuple[int, int]]:
            found: dict[int, int] = {}
            for event in self._queue.control(None, most, seconds):
                found[event.ident] = found.get(event.ident, 0) | _mask(event)
            return list(found.items())

        def close(self) -> None:
            self._queue.close()

    def _mask(event: select.kevent) -> int:
        is_read = event.filter == select.KQ_FILTER_READ
        mask = EPOLLIN if is_read else EPOLLOUT
        if event.flags & select.KQ_EV_EOF:
            mask |= EPOLLRDHUP if is_read else EPOLLHUP
            if event.fflags:  # the error of the socket
                mask |= EPOLLERR | EPOLLHUP
        return mask
