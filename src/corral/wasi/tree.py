"""Tree: the files that a module sees, and what it may do with each. Paths are walked here, not by the kernel.

A path becomes a tuple of names without links in it, and that is what is judged. On the way each directory is
opened from the one above it, without following a link: what a link reads is walked in the module's own tree,
so that it leads nowhere else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque

from corral.model.feature import Feature
from corral.wasi import numbers
from corral.wasi.task import PRIVATE, READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.wasi.task import GuestPlace, HeldPaths

    Parts = tuple[str, ...]

_MOST_LINKS = 40
_WALK = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_LOOK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ModuleRefusal(Exception):
    """A module asked for what its policy does not permit."""

    def __init__(self, number: int, feature: Feature, subject: str, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.number = number  # what the module is told
        self.feature, self.subject, self.detail, self.hint = feature, subject, detail, hint


class TreeChanged(Exception):
    """A place is not what it was when the run was planned."""


class _Mount:
    """A place with its descriptor: of the directory itself, or of the one that holds the file."""

    def __init__(self, place: GuestPlace) -> None:
        self.place = place
        self.name = ""
        source = place.source
        if place.access == PRIVATE:
            with contextlib.suppress(FileExistsError):
                os.mkdir(source, 0o700)
        if place.is_file:
            source, self.name = os.path.split(source)
        self.descriptor = os.open(source, _WALK)
        self.check(os.stat(self.name, dir_fd=self.descriptor, follow_symlinks=False) if self.name else None)

    def check(self, status: os.stat_result | None) -> None:
        """Raises TreeChanged if what is there is not what was planned."""
        status = status or os.fstat(self.descriptor)
        if self.place.inode and (status.st_dev, status.st_ino) != (self.place.device, self.place.inode):
            raise TreeChanged(self.place.source)


class Tree:
    """Judges and opens. Raises ModuleRefusal, or OSError as the host says it."""

    def __init__(
        self, places: Iterable[GuestPlace], held: HeldPaths, links: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._mounts = {split(place.path): _Mount(place) for place in places}
        self._links = {split(path): text for path, text in links}
        self._denied, self._names = frozenset(held.denied), frozenset(held.names)
        self._kept = frozenset((*held.read_only, *held.absent))
        kept = (*held.denied, *held.read_only, *held.absent, *held.pinned)
        #: What must not be moved: it holds, or is, something that stays.
        self._fixed = frozenset(above for path in kept for above in _upwards(path))
        self._above = frozenset(
            parts[:length] for parts in (*self._mounts, *self._links) for length in range(len(parts) + 1)
        )

    # Walking

    def locate(self, base: Parts, path: str, *, follow: bool) -> Parts:
        """The names that a path leads to, links followed; the last one only if that is wanted."""
        if path.startswith("/"):
            raise ModuleRefusal(
                numbers.NOT_CAPABLE, Feature.FS_READ, path, "paths begin at an open directory"
            )
        done, todo, hops = list(base), deque(path.split("/")), 0
        while todo:
            name = todo.popleft()
            if name in {"", "."}:
                continue
            if name == "..":
                del done[-1:]
                continue
            text = self._link_text((*done, name)) if follow or any(todo) else None
            if text is None:
                done.append(name)
                continue
            hops += 1
            if hops > _MOST_LINKS:
                raise OSError(errno.ELOOP, "too many links")
            if text.startswith("/"):
                done.clear()
            todo.extendleft(reversed(text.split("/")))
        return tuple(done)

    def _link_text(self, parts: Parts) -> str | None:
        if parts in self._links:
            return self._links[parts]
        if parts in self._above:
            return None
        self.check_read(parts)
        with self._holding(parts) as (directory, name):
            try:
                return os.readlink(name, dir_fd=directory)
            except OSError as problem:
                if problem.errno in {errno.EINVAL, errno.ENOENT}:
                    return None
                raise

    @contextlib.contextmanager
    def _holding(self, parts: Parts) -> Iterator[tuple[int, str]]:
        """The directory of the host that holds something, and the name of it there."""
        mount = self._mounts.get(parts)
        if mount is not None:
            yield mount.descriptor, mount.name or "."
            return
        descriptor = self._walk(parts[:-1])
        try:
            yield descriptor, parts[-1]
        finally:
            os.close(descriptor)

    def _walk(self, parts: Parts) -> int:
        """A new descriptor of a directory of the host. Raises OSError."""
        length, mount = self._mount_of(parts)
        if mount is None:
            raise OSError(errno.ENOENT, "no such directory")
        if mount.name:
            raise OSError(errno.ENOTDIR, "a file")
        descriptor = os.dup(mount.descriptor)
        for name in parts[length:]:
            try:
                below = os.open(name, _WALK, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = below
        return descriptor

    # Judging

    def _mount_of(self, parts: Parts) -> tuple[int, _Mount | None]:
        for length in range(len(parts), -1, -1):
            mount = self._mounts.get(parts[:length])
            if mount is not None:
                return length, mount
        return 0, None

    def _host_path(self, parts: Parts) -> str:
        length, mount = self._mount_of(parts)
        return "" if mount is None else "/".join((mount.place.source.rstrip("/"), *parts[length:]))

    def check_read(self, parts: Parts) -> None:
        """Raise ModuleRefusal unless it may be looked at."""
        if parts in self._above:
            return
        path = self._host_path(parts)
        subject = shown(parts)
        if not path:
            hint = f"filesystem:read:{subject}"
            raise ModuleRefusal(numbers.NOT_CAPABLE, Feature.FS_READ, subject, "no rule grants it", hint)
        if not self._denied.isdisjoint(_upwards(path)):
            raise ModuleRefusal(numbers.ACCESS, Feature.FS_DENY, subject, "it is denied")

    def check_write(self, parts: Parts) -> None:
        """Raise ModuleRefusal unless it may be made or changed."""
        self.check_read(parts)
        subject = shown(parts)
        length, mount = self._mount_of(parts)
        if mount is None or mount.place.access == READ:
            hint = f"filesystem:write:{subject}"
            raise ModuleRefusal(numbers.READ_ONLY, Feature.FS_WRITE, subject, "it may only be read", hint)
        above = _upwards(self._host_path(parts))
        if not self._kept.isdisjoint(above) or not self._names.isdisjoint(parts[length:]):
            detail = "the host may run or trust it later, so commands cannot change it"
            raise ModuleRefusal(numbers.ACCESS, Feature.FS_PROTECT, subject, detail)

    def check_move(self, parts: Parts) -> None:
        """Raise ModuleRefusal unless it may be made, replaced, moved or removed as a whole."""
        self.check_write(parts)
        if parts in self._above or self._host_path(parts) in self._fixed:
            detail = "something in it stays where it is"
            raise ModuleRefusal(numbers.BUSY, Feature.FS_PROTECT, shown(parts), detail)

    def check_together(self, old: Parts, new: Parts) -> None:
        """Raise ModuleRefusal unless both lie in one place: nothing is linked or moved out of it."""
        if self._mount_of(old) != self._mount_of(new):
            detail = f"it cannot be linked or moved to {shown(new)}: that is another place"
            raise ModuleRefusal(numbers.CROSS_DEVICE, Feature.FS_WRITE, shown(old), detail)

    def check_link_text(self, link: Parts, text: str) -> None:
        """Raise ModuleRefusal for a link that would lead out of its place, wherever it is read.

        Upwards it may go at its beginning only: the way back from another link is not known here.
        """
        length, _ = self._mount_of(link)
        names = [name for name in text.split("/") if name not in {"", "."}]
        ups = next((number for number, name in enumerate(names) if name != ".."), len(names))
        if text.startswith("/") or ".." in names[ups:] or len(link) - 1 - ups < length:
            detail = f"a link to {text} would lead out of its place"
            raise ModuleRefusal(numbers.NOT_PERMITTED, Feature.FS_WRITE, shown(link), detail)

    # Opening

    @contextlib.contextmanager
    def holding(self, parts: Parts) -> Iterator[tuple[int, str]]:
        """(directory, name) of something that was judged, for calls with `dir_fd` that follow no link."""
        with self._holding(parts) as found:
            yield found

    def open(self, parts: Parts, flags: int) -> int:
        """Open a file that was judged. Raises OSError, also for what is neither a file nor a directory."""
        mount = self._mounts.get(parts)
        with self._holding(parts) as (directory, name):
            extra = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            descriptor = os.open(name, flags | extra, 0o666, dir_fd=directory)
        status = os.fstat(descriptor)
        try:
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                raise OSError(errno.EACCES, "neither a file nor a directory")
            if mount is not None:
                mount.check(status)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def is_directory(self, parts: Parts) -> bool:
        """Whether it is a directory of the module's own tree or one of the host's."""
        status = self.status(parts)
        return status is None or stat.S_ISDIR(status.st_mode)

    def status(self, parts: Parts) -> os.stat_result | None:
        """What the host says of it; None for a directory that only leads to places. Raises OSError."""
        if parts in self._above and parts not in self._mounts and not self._host_path(parts):
            return None
        with self._holding(parts) as (directory, name):
            return os.stat(name, dir_fd=directory, follow_symlinks=False)

    def names(self, parts: Parts) -> dict[str, os.stat_result | None]:
        """What lies in a directory. Raises OSError."""
        found: dict[str, os.stat_result | None] = {}
        if self._host_path(parts):
            walked = self._walk(parts)
            try:
                descriptor = os.open(".", _LOOK, dir_fd=walked)
            finally:
                os.close(walked)
            try:
                for name in os.listdir(descriptor):
                    with contextlib.suppress(FileNotFoundError):
                        found[name] = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            finally:
                os.close(descriptor)
        for above in self._above:
            if len(above) == len(parts) + 1 and above[:-1] == parts:
                found.setdefault(above[-1], None)
        return found

    def close(self) -> None:
        """Close the places; nothing can be opened any more."""
        for mount in self._mounts.values():
            os.close(mount.descriptor)
        self._mounts.clear()

    @property
    def places(self) -> tuple[Parts, ...]:
        """Directories that a module begins with: those that are granted, and those of granted files."""
        found = [parts[:-1] if mount.name else parts for parts, mount in self._mounts.items()]
        return tuple(sorted(set(found)))


def split(path: str) -> Parts:
    """An absolute path as names."""
    return tuple(name for name in path.split("/") if name)


def shown(parts: Parts) -> str:
    """Names as an absolute path."""
    return "/" + "/".join(parts)


def _upwards(path: str) -> tuple[str, ...]:
    """A path and everything above it, but the root."""
    found = []
    while path:
        found.append(path)
        path = path.rpartition("/")[0]
    return tuple(found)
