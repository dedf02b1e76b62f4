"""Calls about descriptors that are open: read, write, seek, list, look."""

from __future__ import annotations

import os
import stat
import struct

from corral.model.feature import Feature
from corral.wasi import numbers
from corral.wasi.handles import Handle, Handles, WasiError
from corral.wasi.tree import ModuleRefusal, Tree, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.wasi.guest_memory import GuestMemory
    from corral.wasi.task import Task

_FDSTAT = struct.Struct("<BxHxxxxQQ")
_FILESTAT = struct.Struct("<QQBxxxxxxxQQQQQ")
_PRESTAT = struct.Struct("<II")
_ENTRY = struct.Struct("<QQIBxxx")
_WHENCE = (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END)


class FileCalls:
    """`fd_*`. A method gets the module's memory and the arguments, and returns nothing or an error."""

    def __init__(self, task: Task, tree: Tree) -> None:
        self.task, self.tree = task, tree
        self.handles = Handles(task.bounds.open_files)
        self._most_bytes = task.bounds.file_size_bytes
        #: Takes what the module prints; it may be kept instead.
        self.write_stream: Callable[[int, bytes], int] = os.write
        self.has_input = True  # its first stream is the process's own
        here = tuple(name for name in task.directory.split("/") if name)
        begins = {shown(parts): parts for parts in tree.places}
        for name, parts in begins.items():
            self.handles.add(Handle(parts=parts, preopened=name))
        if any(here[: len(parts)] == parts for parts in begins.values()):
            self.handles.add(Handle(parts=here, preopened="."))

    def keep_streams(self, write: Callable[[int, bytes], int]) -> None:
        """What it prints goes there, and there is nothing to read: the process's streams are its keeper's."""
        self.write_stream, self.has_input = write, False

    def fd_close(self, memory: GuestMemory, number: int) -> None:
        self.handles.close(number)

    def fd_renumber(self, memory: GuestMemory, old: int, new: int) -> None:
        self.handles.move(old, new)

    def fd_advise(self, memory: GuestMemory, number: int, _start: int, _length: int, _advice: int) -> None:
        self.handles.file(number)

    def fd_sync(self, memory: GuestMemory, number: int) -> None:
        handle = self.handles.get(number)
        if handle.descriptor >= 0 and not handle.is_stream:
            os.fsync(handle.descriptor)

    fd_datasync = fd_sync

    def fd_read(self, memory: GuestMemory, number: int, pieces: int, count: int, result: int) -> None:
        handle = self.handles.file(number, reads=True)
        has_more = self.has_input or not handle.is_stream
        read = (lambda size: os.read(handle.descriptor, size)) if has_more else (lambda _: b"")
        self._fill(memory, pieces, count, result, read)

    def fd_pread(
        self, memory: GuestMemory, number: int, pieces: int, count: int, start: int, result: int
    ) -> None:
        handle, offset = self._placed(number, reads=True), _offset(start)
        self._fill(memory, pieces, count, result, lambda size: os.pread(handle.descriptor, size, offset))

    def _fill(
        self, memory: GuestMemory, pieces: int, count: int, result: int, read: Callable[[int], bytes]
    ) -> None:
        wanted = memory.pieces(pieces, count)
        data = read(sum(length for _, length in wanted)) if wanted else b""
        taken = 0
        for place, length in wanted:
            memory.write(place, data[taken : taken + length])
            taken += length
        memory.write_u32(result, len(data))

    def fd_write(self, memory: GuestMemory, number: int, pieces: int, count: int, result: int) -> None:
        handle = self.handles.file(number, writes=True)
        data = _joined(memory, pieces, count)
        if handle.is_stream:
            memory.write_u32(result, self.write_stream(handle.descriptor, data))
            return
        end = os.SEEK_END if handle.appends else os.SEEK_CUR
        start = os.lseek(handle.descriptor, 0, end)
        memory.write_u32(result, os.write(handle.descriptor, data[: self._room(handle, start, len(data))]))

    def fd_pwrite(
        self, memory: GuestMemory, number: int, pieces: int, count: int, start: int, result: int
    ) -> None:
        handle = self._placed(number, writes=True)
        data, offset = _joined(memory, pieces, count), _offset(start)
        if handle.appends:  # Linux would write to the end, wherever it was told to
            raise WasiError(numbers.NOT_SUPPORTED)
        piece = data[: self._room(handle, offset, len(data))]
        memory.write_u32(result, os.pwrite(handle.descriptor, piece, offset))

    def _placed(self, number: int, *, writes: bool = False, reads: bool = False) -> Handle:
        """A file. INVARIANT: what goes to a stream goes by `write_stream`, which counts it."""
        handle = self.handles.file(number, writes=writes, reads=reads)
        if handle.is_stream:
            raise WasiError(numbers.ILLEGAL_SEEK)
        return handle

    def _room(self, handle: Handle, start: int, length: int) -> int:
        """How much of it may be written there. Raises ModuleRefusal if nothing."""
        if self._most_bytes is None or start + length <= self._most_bytes or not length:
            return length
        if start >= self._most_bytes:
            detail = f"no file may have more than {self._most_bytes} bytes"
            raise ModuleRefusal(
                numbers.FILE_TOO_BIG, Feature.LIMIT_FILE_SIZE, shown(handle.parts or ()), detail
            )
        return self._most_bytes - start

    def fd_allocate(self, memory: GuestMemory, number: int, start: int, length: int) -> None:
        handle = self._sizable(number)
        end = _offset(start) + _offset(length)
        self._check_size(handle, end)
        if end > os.fstat(handle.descriptor).st_size:
            os.ftruncate(handle.descriptor, end)

    def fd_filestat_set_size(self, memory: GuestMemory, number: int, size: int) -> None:
        handle = self._sizable(number)
        self._check_size(handle, _offset(size))
        os.ftruncate(handle.descriptor, _offset(size))

    def _sizable(self, number: int) -> Handle:
        handle = self.handles.file(number, writes=True)
        if handle.is_stream:
            raise WasiError(numbers.INVALID)
        return handle

    def _check_size(self, handle: Handle, size: int) -> None:
        if self._most_bytes is not None and size > self._most_bytes:
            self._room(handle, size, 1)

    def fd_seek(self, memory: GuestMemory, number: int, offset: int, whence: int, result: int) -> None:
        handle = self._placed(number)
        if not 0 <= whence < len(_WHENCE):
            raise WasiError(numbers.INVALID)
        memory.write_u64(result, os.lseek(handle.descriptor, offset, _WHENCE[whence]))

    def fd_tell(self, memory: GuestMemory, number: int, result: int) -> None:
        memory.write_u64(result, os.lseek(self._placed(number).descriptor, 0, os.SEEK_CUR))

    def fd_fdstat_get(self, memory: GuestMemory, number: int, result: int) -> None:
        handle = self.handles.get(number)
        if handle.is_directory:
            kind, rights = numbers.DIRECTORY, numbers.RIGHTS_OF_DIRECTORIES
        elif handle.is_stream:
            kind, rights = numbers.CHARACTER, numbers.RIGHT_READ if handle.reads else numbers.RIGHT_WRITE
        else:
            kind, rights = numbers.REGULAR, numbers.RIGHTS_OF_FILES
            rights &= ~(0 if handle.writes else numbers.WRITING) & ~(0 if handle.reads else 2)
        flags = numbers.APPEND if handle.appends else 0
        inherited = numbers.ALL_RIGHTS if handle.is_directory else 0
        memory.write(result, _FDSTAT.pack(kind, flags, rights, inherited))

    def fd_fdstat_set_flags(self, memory: GuestMemory, number: int, flags: int) -> None:
        handle = self.handles.file(number)
        if handle.is_stream or flags & ~(numbers.APPEND | numbers.NONBLOCK):
            raise WasiError(numbers.NOT_SUPPORTED)
        import fcntl

        handle.appends = bool(flags & numbers.APPEND)
        found = fcntl.fcntl(handle.descriptor, fcntl.F_GETFL) & ~os.O_APPEND
        fcntl.fcntl(handle.descriptor, fcntl.F_SETFL, found | (os.O_APPEND if handle.appends else 0))

    def fd_fdstat_set_rights(self, memory: GuestMemory, number: int, base: int, _inherited: int) -> None:
        """Rights are only ever given up; what a policy permits is judged at every call anyhow."""
        handle = self.handles.get(number)
        if not handle.is_directory and not base & numbers.RIGHT_WRITE:
            handle.writes = False
        if not handle.is_directory and not base & numbers.RIGHT_READ:
            handle.reads = False

    def fd_filestat_get(self, memory: GuestMemory, number: int, result: int) -> None:
        handle = self.handles.get(number)
        if handle.is_directory and handle.parts is not None:
            status = self.tree.status(handle.parts)
        elif handle.is_stream and not self.has_input:
            status = None
        else:
            status = os.fstat(handle.descriptor)
        memory.write(result, filestat(status, is_stream=handle.is_stream))

    def fd_prestat_get(self, memory: GuestMemory, number: int, result: int) -> None:
        name = self._given(number)
        memory.write(result, _PRESTAT.pack(0, len(name)))

    def fd_prestat_dir_name(self, memory: GuestMemory, number: int, place: int, length: int) -> None:
        name = self._given(number)
        if length & 0xFFFF_FFFF < len(name):
            raise WasiError(numbers.NAME_TOO_LONG)
        memory.write(place, name)

    def _given(self, number: int) -> bytes:
        handle = self.handles.get(number)
        if not handle.preopened:
            raise WasiError(numbers.BAD_DESCRIPTOR)
        return handle.preopened.encode("utf-8", "surrogateescape")

    def fd_readdir(
        self, memory: GuestMemory, number: int, place: int, room: int, cookie: int, result: int
    ) -> None:
        parts = self.handles.directory(number)
        handle = self.handles.get(number)
        self.tree.check_read(parts)
        if cookie == 0 or not handle.listing:
            handle.listing = self._list(parts)
        pieces, size, room = [], 0, room & 0xFFFF_FFFF
        for index in range(_offset(cookie), len(handle.listing)):
            name, inode, kind = handle.listing[index]
            raw = os.fsencode(name)
            pieces.append(_ENTRY.pack(index + 1, inode, len(raw), kind) + raw)
            size += len(pieces[-1])
            if size >= room:
                break
        memory.write(place, b"".join(pieces)[:room])
        memory.write_u32(result, min(size, room))

    def _list(self, parts: tuple[str, ...]) -> list[tuple[str, int, int]]:
        found = [(".", 0, numbers.DIRECTORY), ("..", 0, numbers.DIRECTORY)]
        for name, status in sorted(self.tree.names(parts).items()):
            found.append((name, status.st_ino if status else 0, kind_of(status)))
        return found


def kind_of(status: os.stat_result | None) -> int:
    """The kind of a file; None is a directory that only leads to places."""
    if status is None or stat.S_ISDIR(status.st_mode):
        return numbers.DIRECTORY
    if stat.S_ISREG(status.st_mode):
        return numbers.REGULAR
    return numbers.LINK if stat.S_ISLNK(status.st_mode) else numbers.UNKNOWN


def filestat(status: os.stat_result | None, *, is_stream: bool = False) -> bytes:
    """What a module is told about a file. Devices are not told: they say something about the host."""
    if status is None:
        kind = numbers.CHARACTER if is_stream else numbers.DIRECTORY
        return _FILESTAT.pack(0, 0, kind, 1, 0, 0, 0, 0)
    kind = numbers.CHARACTER if is_stream else kind_of(status)
    times = (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)
    shown_times = (max(0, each) for each in times)
    return _FILESTAT.pack(0, status.st_ino, kind, status.st_nlink, status.st_size, *shown_times)


def _joined(memory: GuestMemory, pieces: int, count: int) -> bytes:
    return b"".join(memory.read(place, length) for place, length in memory.pieces(pieces, count))


def _offset(value: int) -> int:
    """An unsigned number of 64 bits; what no file of the host can have is an error."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    if value >= 1 << 63:
        raise WasiError(numbers.INVALID)
    return value
