"""Notices of the kernel about directories: inotify, which tells names, or kqueue, which tells only where."""

from __future__ import annotations

import os
import select
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    #: The number of a directory, a name in it (empty: some name), and inotify's mask.
    Notice = tuple[int, str, int]

    class Notices(Protocol):
        descriptor: int  # ready when there are some
        has_names: bool  # each tells a name

        def tell_of(self, handle: int) -> int:
            """From now on, of this directory: returns its number. Raises OSError."""
            ...

        def take(self) -> Iterator[Notice]:
            """Those that have come; a number below 0: some were lost."""
            ...

        def forget(self) -> None: ...

        def close(self) -> None: ...


_IN_CREATE, _IN_MOVED_TO, _IN_DELETE, _IN_MOVED_FROM = 0x100, 0x80, 0x200, 0x40
_IN_ONLYDIR = 0x01000000
_MASK = _IN_CREATE | _IN_MOVED_TO | _IN_DELETE | _IN_MOVED_FROM | _IN_ONLYDIR
_EVENT = struct.Struct("iIII")


class Inotify:
    """inotify(7)."""

    has_names = True

    def __init__(self) -> None:
        import ctypes

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._errno = ctypes.get_errno
        self.descriptor: int = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self.descriptor < 0:
            raise OSError(self._errno(), "inotify_init1")

    def tell_of(self, handle: int) -> int:
        place = f"/proc/self/fd/{handle}".encode()
        number: int = self._libc.inotify_add_watch(self.descriptor, place, _MASK)
        if number < 0:
            raise OSError(self._errno(), "inotify_add_watch")
        return number

    def take(self) -> Iterator[Notice]:
        try:
            raw = os.read(self.descriptor, 65_536)
        except BlockingIOError:
            return
        at = 0
        while at < len(raw):
            number, mask, _cookie, length = _EVENT.unpack_from(raw, at)
            name = os.fsdecode(raw[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
            at += _EVENT.size + length
            yield number, name, mask

    def forget(self) -> None:
        while list(self.take()):
            pass

    def close(self) -> None:
        os.close(self.descriptor)


def open_notices() -> Notices:
    """The kernel's own. Raises OSError where there are none: then looking must do."""
    if sys.platform == "linux":
        return Inotify()
    if sys.platform == "darwin":
        return Kqueue()
    raise OSError("this platform has neither inotify nor kqueue")


if sys.platform == "darwin":

    class Kqueue:
        """kqueue(2). It holds each directory by a descriptor of its own, which is its number."""

        has_names = False

        def __init__(self) -> None:
            self._queue = select.kqueue()
            self.descriptor = self._queue.fileno()
            self._held: list[int] = []

        def tell_of(self, handle: int) -> int:
            own = os.dup(handle)
            self._held.append(own)
            flags = select.KQ_EV_ADD | select.KQ_EV_CLEAR
            # A directory is written to when a name in it is made, moved or removed.
            self._queue.control([select.kevent(own, select.KQ_FILTER_VNODE, flags, select.KQ_NOTE_WRITE)], 0)
            return own

        def take(self) -> Iterator[Notice]:
            for event in self._queue.control(None, 256, 0):
                yield event.ident, "", 0

        def forget(self) -> None:
            while list(self.take()):
                pass

        def close(self) -> None:
            self._queue.close()
            while self._held:
                os.close(self._held.pop())
