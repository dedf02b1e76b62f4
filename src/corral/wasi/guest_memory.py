"""A module's memory, as functions of the host see it. Every access is checked against its size, here."""

from __future__ import annotations

import ctypes
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_PAIR = struct.Struct("<II")
#: A call that names more pieces is a mistake, or an attack.
MOST_PIECES = 1024
#: What one call moves at most; the rest is left for the next, as POSIX permits.
MOST_BYTES = 1 << 20
LONGEST_PATH = 4096


class MemoryFault(Exception):
    """A module named a place outside of its memory."""


class GuestMemory:
    """Valid during one call only: a module's memory may move when it grows."""

    def __init__(self, memory: Any, store: Any) -> None:
        self._address = ctypes.cast(memory.data_ptr(store), ctypes.c_void_p).value or 0
        self._size = int(memory.data_len(store))

    def _place(self, pointer: int, length: int) -> int:
        # INVARIANT: every address that is read or written comes from here.
        pointer &= 0xFFFF_FFFF
        if length < 0 or pointer + length > self._size:
            raise MemoryFault
        return self._address + pointer

    def read(self, pointer: int, length: int) -> bytes:
        """A copy of some bytes."""
        return ctypes.string_at(self._place(pointer, length), length) if length else b""

    def write(self, pointer: int, data: bytes) -> None:
        """Put bytes there."""
        ctypes.memmove(self._place(pointer, len(data)), data, len(data))

    def write_u32(self, pointer: int, value: int) -> None:
        self.write(pointer, _U32.pack(value & 0xFFFF_FFFF))

    def write_u64(self, pointer: int, value: int) -> None:
        self.write(pointer, _U64.pack(value & 0xFFFF_FFFF_FFFF_FFFF))

    def read_path(self, pointer: int, length: int) -> str:
        """A path. Raises ValueError for what is none, MemoryFault for what lies outside."""
        length &= 0xFFFF_FFFF
        if length > LONGEST_PATH:
            raise ValueError("too long")
        text = self.read(pointer, length).decode("utf-8")
        if "\0" in text:
            raise ValueError("a NUL byte")
        return text

    def pieces(self, pointer: int, count: int) -> list[tuple[int, int]]:
        """The places that a call wants filled or written: at most so many, and so much of them."""
        count &= 0xFFFF_FFFF
        if count > MOST_PIECES:
            raise ValueError("too many pieces")
        found, left = [], MOST_BYTES
        for place, length in _PAIR.iter_unpack(self.read(pointer, count * _PAIR.size)):
            self._place(place, length)
            if left > 0 and length:
                found.append((place, min(length, left)))
                left -= length
        return found
