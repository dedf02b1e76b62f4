"""Calls that name paths. Each is judged by the tree first, then done without following any link."""

from __future__ import annotations

import contextlib
import os
import time

from corral.wasi import numbers
from corral.wasi.files import FileCalls, filestat
from corral.wasi.handles import Handle, WasiError
from corral.wasi.links import check_moved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.wasi.guest_memory import GuestMemory
    from corral.wasi.tree import Parts


class PathCalls(FileCalls):
    """`path_*`."""

    def _locate(
        self, memory: GuestMemory, number: int, place: int, length: int, *, follow: bool = False
    ) -> Parts:
        base = self.handles.directory(number)
        path = memory.read_path(place, length)
        if not path:
            raise WasiError(numbers.NO_ENTRY)
        return self.tree.locate(base, path, follow=follow)

    def path_open(
        self,
        memory: GuestMemory,
        number: int,
        lookup: int,
        place: int,
        length: int,
        how: int,
        rights: int,
        _inherited: int,
        flags: int,
        result: int,
    ) -> None:
        parts = self._locate(memory, number, place, length, follow=bool(lookup & numbers.FOLLOW))
        wants = (bool(rights & numbers.RIGHT_READ), bool(rights & numbers.WRITING))
        self.tree.check_read(parts)
        self.handles.check_room()
        is_there = self._is_there(parts)
        is_directory = is_there and self.tree.is_directory(parts)
        if is_directory or how & numbers.DIRECTORY_ONLY:
            handle = self._open_directory(parts, how, is_there=is_there, is_directory=is_directory)
        else:
            handle = self._open_file(parts, how, flags, reads=wants[0], writes=wants[1], is_there=is_there)
        memory.write_u32(result, self.handles.add(handle))

    def _is_there(self, parts: Parts) -> bool:
        try:
            self.tree.status(parts)
        except FileNotFoundError:
            return False
        return True

    def _open_directory(self, parts: Parts, how: int, *, is_there: bool, is_directory: bool) -> Handle:
        if how & numbers.CREATE and how & numbers.EXCLUSIVE and is_there:
            raise WasiError(numbers.EXISTS)
        if how & numbers.TRUNCATE:
            raise WasiError(numbers.IS_DIRECTORY)
        if not is_there:
            raise WasiError(numbers.NO_ENTRY)
        if not is_directory:
            raise WasiError(numbers.NOT_DIRECTORY)
        return Handle(parts=parts)

    def _open_file(
        self, parts: Parts, how: int, flags: int, *, reads: bool, writes: bool, is_there: bool
    ) -> Handle:
        if flags & ~(numbers.APPEND | numbers.NONBLOCK | numbers.DSYNC | 8 | 16):
            raise WasiError(numbers.INVALID)
        makes = bool(how & numbers.CREATE) and not is_there
        if how & numbers.CREATE and how & numbers.EXCLUSIVE and is_there:
            raise WasiError(numbers.EXISTS)  # it may be gone by now; then nobody has judged that it is made
        if makes:
            self.tree.check_move(parts)
        elif writes or how & numbers.TRUNCATE:
            self.tree.check_write(parts)
        mode = os.O_RDWR if reads and writes else os.O_WRONLY if writes else os.O_RDONLY
        appends = bool(flags & numbers.APPEND)
        mode |= os.O_APPEND if appends else 0
        mode |= os.O_CREAT if makes else 0
        mode |= os.O_EXCL if makes and how & numbers.EXCLUSIVE else 0
        mode |= os.O_TRUNC if how & numbers.TRUNCATE else 0
        descriptor = self.tree.open(parts, mode)
        return Handle(descriptor, parts=parts, reads=reads or not writes, writes=writes, appends=appends)

    def path_create_directory(self, memory: GuestMemory, number: int, place: int, length: int) -> None:
        parts = self._locate(memory, number, place, length)
        if self._is_there(parts):
            raise WasiError(numbers.EXISTS)
        self.tree.check_move(parts)
        with self.tree.holding(parts) as (directory, name):
            os.mkdir(name, dir_fd=directory)

    def path_filestat_get(
        self, memory: GuestMemory, number: int, lookup: int, place: int, length: int, result: int
    ) -> None:
        parts = self._locate(memory, number, place, length, follow=bool(lookup & numbers.FOLLOW))
        self.tree.check_read(parts)
        memory.write(result, filestat(self.tree.status(parts)))

    def path_filestat_set_times(
        self,
        memory: GuestMemory,
        number: int,
        lookup: int,
        place: int,
        length: int,
        accessed: int,
        modified: int,
        which: int,
    ) -> None:
        parts = self._locate(memory, number, place, length, follow=bool(lookup & numbers.FOLLOW))
        self._set_times(parts, accessed, modified, which)

    def fd_filestat_set_times(
        self, memory: GuestMemory, number: int, accessed: int, modified: int, which: int
    ) -> None:
        handle = self.handles.get(number)
        if handle.parts is None:
            raise WasiError(numbers.NOT_CAPABLE)
        self._set_times(handle.parts, accessed, modified, which, handle.descriptor)

    def _set_times(
        self, parts: Parts, accessed: int, modified: int, which: int, descriptor: int = -1
    ) -> None:
        self.tree.check_write(parts)
        status = self.tree.status(parts) if descriptor < 0 else os.fstat(descriptor)
        if status is None:
            raise WasiError(numbers.ACCESS)
        times = (
            _chosen(which, accessed, status.st_atime_ns),
            _chosen(which >> 2, modified, status.st_mtime_ns),
        )
        if descriptor >= 0:
            os.utime(descriptor, ns=times)
            return
        with self.tree.holding(parts) as (directory, name):
            os.utime(name, ns=times, dir_fd=directory, follow_symlinks=False)

    def path_link(
        self,
        memory: GuestMemory,
        old_number: int,
        lookup: int,
        old_place: int,
        old_length: int,
        new_number: int,
        new_place: int,
        new_length: int,
    ) -> None:
        if lookup & numbers.FOLLOW:
            raise WasiError(numbers.INVALID)
        old = self._locate(memory, old_number, old_place, old_length)
        new = self._locate(memory, new_number, new_place, new_length)
        # ORDER: both before anything is done. A second name in a writable place would make a file writable.
        self.tree.check_write(old)
        with self._moving(old, new) as (source, name, directory, made):
            os.link(name, made, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)

    def path_rename(
        self,
        memory: GuestMemory,
        old_number: int,
        old_place: int,
        old_length: int,
        new_number: int,
        new_place: int,
        new_length: int,
    ) -> None:
        old = self._locate(memory, old_number, old_place, old_length)
        new = self._locate(memory, new_number, new_place, new_length)
        self.tree.check_move(old)
        with self._moving(old, new) as (source, name, directory, made):
            os.rename(name, made, src_dir_fd=source, dst_dir_fd=directory)

    @contextlib.contextmanager
    def _moving(self, old: Parts, new: Parts) -> Iterator[tuple[int, str, int, str]]:
        """Both directories and names, if something of the one may be at the other as well."""
        self.tree.check_move(new)
        self.tree.check_together(old, new)
        check_moved(self.tree, old, new)
        with self.tree.holding(old) as (source, name), self.tree.holding(new) as (directory, made):
            yield source, name, directory, made

    def path_symlink(
        self,
        memory: GuestMemory,
        text_place: int,
        text_length: int,
        number: int,
        place: int,
        length: int,
    ) -> None:
        text = memory.read_path(text_place, text_length)
        parts = self._locate(memory, number, place, length)
        self.tree.check_move(parts)
        self.tree.check_link_text(parts, text)
        with self.tree.holding(parts) as (directory, name):
            os.symlink(text, name, dir_fd=directory)

    def path_readlink(
        self,
        memory: GuestMemory,
        number: int,
        place: int,
        length: int,
        result: int,
        room: int,
        used: int,
    ) -> None:
        parts = self._locate(memory, number, place, length)
        self.tree.check_read(parts)
        with self.tree.holding(parts) as (directory, name):
            data = os.fsencode(os.readlink(name, dir_fd=directory))[: room & 0xFFFF_FFFF]
        memory.write(result, data)
        memory.write_u32(used, len(data))

    def path_unlink_file(self, memory: GuestMemory, number: int, place: int, length: int) -> None:
        parts = self._locate(memory, number, place, length)
        self.tree.check_move(parts)
        if self.tree.is_directory(parts):
            raise WasiError(numbers.IS_DIRECTORY)
        with self.tree.holding(parts) as (directory, name):
            os.unlink(name, dir_fd=directory)

    def path_remove_directory(self, memory: GuestMemory, number: int, place: int, length: int) -> None:
        parts = self._locate(memory, number, place, length)
        self.tree.check_move(parts)
        with self.tree.holding(parts) as (directory, name):
            os.rmdir(name, dir_fd=directory)


def _chosen(which: int, given: int, known: int) -> int:
    """The time to set: of two bits, the first takes what is given and the second the present."""
    match which & 3:
        case 0:
            return known
        case 1:
            return given & 0x7FFF_FFFF_FFFF_FFFF
        case 2:
            return time.time_ns()
    raise WasiError(numbers.INVALID)
