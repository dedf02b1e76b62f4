"""Upload and Download: copy a file or a tree into a kept sandbox, or out of it.

The path that is given is that of the copy itself, as with `cp -T`: where it ends up must not depend on
whether a command has just made a directory of that name. Contents and permission bits are copied; owners,
times and attributes are not. A link is copied as a link and never followed. What is neither file,
directory nor link ends the copy with an error, and so do bounds that are exceeded.

Upload. A tree goes into a directory that is there already (files are replaced as by `write`), or into a
new one. A source that is itself a link is refused: the workspace may be where it lies, and a command its
author. What was copied before an error stays.

Download. A file replaces what has the name, and a tree must find nothing there. A tree comes as a whole
or not at all: it is made under another name beside the target. Set-user-id, set-group-id and sticky bits
are dropped, and the caller's umask holds. A link comes along only if it is relative and stays inside the
tree; any other ends the download. A name that vanishes meanwhile is left out.

TRUST: both trees may be changed by a command while they are copied. Every directory on either side is
held by a descriptor, is entered without following a link, and is never found again by its path.
"""

from __future__ import annotations

import errno
import os
import stat

from corral.sandbox_files.held_file import HeldFile, Spot, naming, refusal
from corral.sandbox_files.put import put_file, put_link, removed_on_failure, temporary_name, write_all
from corral.untrusted_files.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.file_entry import CopyBounds
    from corral.sandbox_files.base import Files

_CHUNK = 1024**2
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_ENTRY = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC


class _Tally:
    """Counts what is copied. Raises OSError (EFBIG) beyond the bounds."""

    def __init__(self, bounds: CopyBounds) -> None:
        self._bounds = bounds
        self._bytes = 0
        self._entries = 0
        self.top = (0, 0)  # device and inode of the directory that the copy goes into

    def check_room(self, count: int) -> None:
        if self._bytes + count > self._bounds.total_bytes:
            raise OSError(errno.EFBIG, f"the copy has more than {self._bounds.total_bytes} bytes")

    def check_directory(self, status: os.stat_result, depth: int) -> None:
        # The workspace is on both sides: a copy of it into itself would only end at the bounds.
        if (status.st_dev, status.st_ino) == self.top:
            raise OSError(errno.EINVAL, "a directory cannot be copied into itself")
        if depth > self._bounds.depth:
            raise OSError(errno.EFBIG, f"the copy is more than {self._bounds.depth} directories deep")

    def enter(self, place: HeldFile, path: str, depth: int) -> list[str]:
        """The names in a directory that is held, and may be copied at this depth."""
        with naming(path):
            self.check_directory(place.status, depth)
            handle = place.open_directory()
            try:
                return self.names(handle)
            finally:
                os.close(handle)

    def names(self, descriptor: int) -> list[str]:
        """The names in an open directory. One that grows while it is read ends at the bound."""
        names = []
        with os.scandir(descriptor) as found:
            for entry in found:
                self._entries += 1
                if self._entries > self._bounds.entries:
                    raise OSError(errno.EFBIG, f"the copy has more than {self._bounds.entries} entries")
                names.append(entry.name)
        return names

    def chunks(self, descriptor: int) -> Iterator[memoryview]:
        """The contents of a file, piece by piece. Its size is asked first: holes are quick to make."""
        self.check_room(os.fstat(descriptor).st_size)
        while chunk := os.read(descriptor, _CHUNK):
            self.check_room(len(chunk))
            self._bytes += len(chunk)
            yield memoryview(chunk)


class Upload:
    def __init__(self, files: Files, bounds: CopyBounds) -> None:
        self._files = files
        self._tally = _Tally(bounds)

    def copy(self, source: str, path: str, *, parents: bool) -> None:
        """Raises OSError, with the path of the side that failed, and PolicyError."""
        with naming(source):
            origin = HeldFile(os.open(source, _ENTRY))
        with origin:
            if origin.is_link:
                raise OSError(errno.ELOOP, "it is a link; name its target", source)
            if not origin.is_directory:
                with naming(path):
                    spot = self._files.find_spot(self._files.absolute(path, file=True), parents=parents)
                with spot:
                    self._put(origin, source, spot, path)
                return
            with self._top(path, parents=parents, mode=_directory_mode(origin)) as place:
                self._tally.top = (place.status.st_dev, place.status.st_ino)
                self._tree(origin, source, place, path, depth=1)

    def _top(self, path: str, *, parents: bool, mode: int) -> HeldFile:
        """The directory that the tree goes into; made if it is missing."""
        with naming(path):
            whole = self._files.absolute(path)
            try:
                return self._files.find(whole).as_directory()
            except FileNotFoundError:
                with self._files.find_spot(whole.rstrip("/"), parents=parents) as spot:
                    assert spot.parent is not None  # nothing is there, so nothing that is granted
                    return self._files.make_directory(spot.parent, spot.name, path, mode)

    def _tree(self, origin: HeldFile, source: str, parent: HeldFile, path: str, *, depth: int) -> None:
        for name in self._tally.enter(origin, source, depth):
            here, there = f"{source}/{name}", f"{path}/{name}"
            with naming(here):
                child = HeldFile(os.open(name, _ENTRY, dir_fd=origin.descriptor))
            with child:
                if child.is_directory:
                    with naming(there):
                        place = self._files.make_directory(parent, name, there, _directory_mode(child))
                    with place:
                        self._tree(child, here, place, there, depth=depth + 1)
                else:
                    self._put_entry(child, here, parent, name, there)

    def _put_entry(self, child: HeldFile, here: str, parent: HeldFile, name: str, there: str) -> None:
        with naming(there):
            try:
                existing = self._files.child(parent, name)
            except FileNotFoundError:
                existing = None
        try:
            self._put(child, here, Spot(parent, name, existing), there)
        finally:
            if existing is not None:
                existing.close()

    def _put(self, origin: HeldFile, source: str, spot: Spot, path: str) -> None:
        """Copy one file or link. A link of that name inside is replaced, not followed: it ends a path."""
        self._files.check_name(spot.parent, spot.name, path)
        if origin.is_link:
            text = origin.link_text()
            with naming(path):
                put_link(spot, text)
            return
        with naming(source):
            handle = origin.open_file(os.O_RDONLY)
        try:
            with naming(path):
                put_file(_without_link(spot), lambda target: self._fill(handle, target), _mode(origin))
        finally:
            os.close(handle)

    def _fill(self, handle: int, target: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        for chunk in self._tally.chunks(handle):
            write_all(target, chunk)


class Download:
    def __init__(self, files: Files, bounds: CopyBounds) -> None:
        self._files = files
        self._tally = _Tally(bounds)

    def copy(self, path: str, target: str) -> None:
        """Raises OSError, with the path of the side that failed, and PolicyError."""
        with naming(path):
            place = self._files.find(self._files.absolute(path))
        with place:
            folder, name = os.path.split(target.rstrip("/"))
            with naming(target):
                if name in {"", ".", ".."}:
                    raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
                parent = os.open(folder or ".", _DIRECTORY)
            try:
                if place.is_directory:
                    self._whole(place, path, parent, name, target)
                else:
                    self._single(place, path, parent, name, target)
            finally:
                os.close(parent)

    def _single(self, place: HeldFile, path: str, parent: int, name: str, target: str) -> None:
        temporary = temporary_name()
        with removed_on_failure(parent, temporary):
            self._file(place, path, parent, temporary, target)
            with naming(target):  # a link of that name is replaced, not followed
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)

    def _whole(self, place: HeldFile, path: str, parent: int, name: str, target: str) -> None:
        temporary = temporary_name()
        with naming(target):
            _check_free(parent, name)
            os.mkdir(temporary, _directory_mode(place), dir_fd=parent)
        try:
            with naming(target):
                top = os.open(temporary, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            try:
                status = os.fstat(top)
                self._tally.top = (status.st_dev, status.st_ino)
                self._tree(place, path, top, target, depth=1)
            finally:
                os.close(top)
            with naming(target):
                _check_free(parent, name)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            remove_tree(parent, temporary)
            raise

    def _tree(self, place: HeldFile, path: str, handle: int, target: str, *, depth: int) -> None:
        for name in self._tally.enter(place, path, depth):
            here, there = f"{path}/{name}", f"{target}/{name}"
            with naming(here):
                try:
                    child = self._files.child(place, name)
                except FileNotFoundError:
                    continue
            with child:
                if child.is_fixed and not child.status.st_mode & 0o777:
                    # What hides a denied path is empty, and root could open it: a file that is not there.
                    raise OSError(errno.EACCES, os.strerror(errno.EACCES), here)
                if child.is_directory:
                    self._directory(child, here, handle, name, there, depth=depth)
                elif child.is_link:
                    self._link(child, here, handle, name, there, depth=depth)
                else:
                    self._file(child, here, handle, name, there)

    def _directory(
        self, place: HeldFile, path: str, parent: int, name: str, target: str, *, depth: int
    ) -> None:
        with naming(target):
            os.mkdir(name, _directory_mode(place), dir_fd=parent)
            # Not through a link: the sandbox may have shown one and the same name twice.
            inner = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        try:
            self._tree(place, path, inner, target, depth=depth + 1)
        finally:
            os.close(inner)

    def _link(self, place: HeldFile, path: str, parent: int, name: str, target: str, *, depth: int) -> None:
        with naming(path):
            text = place.link_text()
        if not stays_inside(text, depth - 1):
            raise refusal(
                "link-leads-out",
                f"{path} cannot be downloaded",
                why=f"it is a link to {text!r}, which on the host may lead out of the downloaded tree",
                fix="have it removed inside, or download the files that are needed one by one",
            )
        with naming(target):
            os.symlink(text, name, dir_fd=parent)

    def _file(self, place: HeldFile, path: str, parent: int, name: str, target: str) -> None:
        with naming(path):
            handle = place.open_file(os.O_RDONLY)
        try:
            with naming(target):
                copy = os.open(name, _NEW, _mode(place) | stat.S_IRUSR | stat.S_IWUSR, dir_fd=parent)
            try:
                chunks = self._tally.chunks(handle)
                while True:
                    with naming(path):
                        chunk = next(chunks, None)
                    if chunk is None:
                        return
                    with naming(target):
                        write_all(copy, chunk)
            finally:
                os.close(copy)
        finally:
            os.close(handle)


def stays_inside(text: str, depth: int) -> bool:
    """Whether a link that lies `depth` directories below the top of a tree cannot lead out of it.

    It may climb first, over real directories, at most to the top, and only descend after that. A `..` after a
    name is refused: the name may be a link that leads up, from where `..` would climb further than it seems.
    As every link of the tree is of this form, what they lead through stays inside as well.
    """
    parts = [part for part in text.split("/") if part not in {"", "."}]
    climbs = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    return bool(parts or text) and not text.startswith("/") and climbs <= depth and ".." not in parts[climbs:]


def _check_free(parent: int, name: str) -> None:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))


def _without_link(spot: Spot) -> Spot:
    """A link inside counts as nothing in the way of an upload: the file takes its name."""
    linked = spot.existing is not None and spot.existing.is_link
    return Spot(spot.parent, spot.name, None) if linked else spot


def _mode(place: HeldFile) -> int:
    return place.status.st_mode & 0o777


def _directory_mode(place: HeldFile) -> int:
    return place.status.st_mode & 0o777 | 0o700
