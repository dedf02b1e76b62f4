"""Handles: what a module's descriptors stand for."""

from __future__ import annotations

import contextlib
import os

from corral.wasi import numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.wasi.tree import Parts

#: Where the policy does not say.
DEFAULT_OPEN_FILES = 256
_STREAMS = 3


class WasiError(Exception):
    """A call failed; the module is told the number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Handle:
    """An open file, directory or stream."""

    def __init__(
        self,
        descriptor: int = -1,
        *,
        parts: Parts | None = None,
        preopened: str = "",
        reads: bool = True,
        writes: bool = False,
        appends: bool = False,
    ) -> None:
        self.descriptor = descriptor  # of the host; -1 for directories, which are walked to anew
        self.parts = parts  # of a directory or file; None: a stream
        self.preopened = preopened  # the name by which the module was given it
        self.reads, self.writes, self.appends = reads, writes, appends
        self.listing: list[tuple[str, int, int]] = []  # of a directory that is being read: name, inode, kind

    @property
    def is_directory(self) -> bool:
        return self.parts is not None and self.descriptor < 0

    @property
    def is_stream(self) -> bool:
        return self.parts is None

    def close(self) -> None:
        if self.descriptor > 2:
            with contextlib.suppress(OSError):
                os.close(self.descriptor)


class Handles:
    """The table of descriptors."""

    def __init__(self, most: int | None) -> None:
        self._most = DEFAULT_OPEN_FILES if most is None else most
        self._open: dict[int, Handle] = {
            0: Handle(0),
            1: Handle(1, reads=False, writes=True),
            2: Handle(2, reads=False, writes=True),
        }

    def add(self, handle: Handle) -> int:
        """Give it the lowest free number. Raises WasiError when there are too many."""
        given = sum(1 for each in self._open.values() if each.preopened)
        if not handle.preopened and len(self._open) - given >= max(self._most, _STREAMS):
            handle.close()
            raise WasiError(numbers.TOO_MANY_FILES)
        number = next(number for number in range(len(self._open) + 1) if number not in self._open)
        self._open[number] = handle
        return number

    def check_room(self) -> None:
        """Raise WasiError if no more can be opened: before something is made on the way."""
        given = sum(1 for each in self._open.values() if each.preopened)
        if len(self._open) - given >= max(self._most, _STREAMS):
            raise WasiError(numbers.TOO_MANY_FILES)

    def get(self, number: int) -> Handle:
        """Raises WasiError for one that is not open."""
        handle = self._open.get(number & 0xFFFF_FFFF)
        if handle is None:
            raise WasiError(numbers.BAD_DESCRIPTOR)
        return handle

    def directory(self, number: int) -> Parts:
        """Where a directory is. Raises WasiError if it is none."""
        handle = self.get(number)
        if not handle.is_directory or handle.parts is None:
            raise WasiError(numbers.NOT_DIRECTORY)
        return handle.parts

    def file(self, number: int, *, writes: bool = False, reads: bool = False) -> Handle:
        """Something with bytes. Raises WasiError if it is none, or was not opened for this."""
        handle = self.get(number)
        if handle.is_directory:
            raise WasiError(numbers.IS_DIRECTORY if reads or writes else numbers.BAD_DESCRIPTOR)
        if (writes and not handle.writes) or (reads and not handle.reads):
            raise WasiError(numbers.NOT_CAPABLE)
        return handle

    def close(self, number: int) -> None:
        self.get(number).close()
        del self._open[number & 0xFFFF_FFFF]

    def move(self, old: int, new: int) -> None:
        handle = self.get(old)
        self.get(new)
        if old == new:
            return
        self.close(new)
        del self._open[old & 0xFFFF_FFFF]
        self._open[new & 0xFFFF_FFFF] = handle

    def close_all(self) -> None:
        for handle in self._open.values():
            handle.close()
        self._open.clear()
