"""What the kernel says has not changed since it was looked at need not be looked at again.

By number and by the time of the last change, which nobody can set. Such a time is as coarse as the kernel's
tick, or a whole second: what was changed just before a look may be changed once more without another time.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from functools import lru_cache

from corral.untrusted_files.folding import GitNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Stamp = tuple[int, int, int]  # device, inode, time of the last change
    #: What one directory holds: its subdirectories, whether git finds a repository there, and what is no
    #: file, under names that git itself writes or reads. A plain tuple: there are very many to be stored.
    Listing = tuple[tuple[str, ...], bool, tuple[str, ...]]

TICK_NS = 20_000_000
#: How the kernel writes some characters in its list of mounts; the backslash is the last to be read.
_ESCAPED = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))
_SECOND_NS = 1_000_000_000
#: What makes a git directory of any directory: all of one of these.
_BARE = (frozenset({"HEAD", "objects", "refs"}), frozenset({"HEAD", "commondir"}))
_MARKS = frozenset({".git"}).union(*_BARE)
_READ = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap"})
_NAMES = GitNames(*_MARKS, *_READ)
_FIRST = frozenset("0123456789.gvGV")  # with which the names begin that matter: most need no second look
_PATCH_DIGITS = 4
#: File systems that keep these times by themselves, whatever other machines do.
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "tmpfs", "f2fs"})


def stamp_of(path: str) -> Stamp | None:
    """What something is now, a link itself; None if it is not there, or cannot be reached."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_ctime_ns)


def latest_ns(changed_ns: int) -> int:
    """The last moment that a time of change can stand for: ext4 with small inodes keeps whole seconds."""
    return changed_ns if changed_ns % _SECOND_NS else changed_ns + _SECOND_NS - 1


def is_settled(stamp: Stamp | None, looked_ns: int) -> bool:
    """Whether a look that began then has seen all that the stamp stands for."""
    return stamp is not None and latest_ns(stamp[2]) < looked_ns - TICK_NS and is_local(stamp[0])


class Memory:
    """The paths that one look has depended on."""

    def __init__(self, stamps: dict[str, Stamp | None], *, is_reliable: bool = True) -> None:
        self.stamps = stamps
        self.is_reliable = is_reliable

    def holds(self) -> bool:
        """Whether a new look would find the same."""
        if not self.is_reliable:
            return False
        lstat = os.lstat  # as `stamp_of`, without a call for each: there are very many
        try:
            for path, stamp in self.stamps.items():
                status = lstat(path)
                if stamp != (status.st_dev, status.st_ino, status.st_ctime_ns):
                    return False
        except OSError:
            return False  # a look of which a part was missing is not reliable
        return True


def memorise(paths: Iterable[str], looked_ns: int) -> Memory:
    """These as they are now, for a look that began then."""
    stamps = {path: stamp_of(path) for path in paths}
    is_reliable = all(
        is_settled(stamp, looked_ns) and stamp is not None and tells_of_mappings(stamp[0])
        for stamp in stamps.values()
    )
    return Memory(stamps, is_reliable=is_reliable)


_NOTHING: Listing = ((), False, ())


class Folders:
    """What directories hold, listed anew after a change. `open_path` opens one without following a link."""

    def __init__(self, open_path: Callable[[str], int]) -> None:
        self._open_path = open_path
        self.known: dict[str, tuple[Stamp | None, Listing]] = {}
        self.is_changed = False  # what is known
        self._fresh: dict[str, Listing] = {}
        self._closed: dict[str, Stamp | None] = {}  # by the host
        self._may_open = False
        self._is_sure = True  # of the last listing
        self.failures: dict[str, OSError] = {}  # of this search; others are looked for all the same

    def begin(self, *, may_open: bool) -> None:
        """A new search: every directory is asked for once more whether it has changed.

        What is closed before commands is the host's own. Afterwards it is opened, and looked into.
        """
        self._fresh = {}
        self._may_open, self.failures = may_open, {}
        if not may_open:
            self._closed = {}

    def subdirectories(self, path: str) -> tuple[str, ...]:
        return (self._fresh.get(path) or self.look(path))[0]

    def has_git(self, path: str) -> bool:
        return (self._fresh.get(path) or self.look(path))[1]

    def with_traps(self) -> list[str]:
        """Of the directories that this search has asked for."""
        return [path for path, listing in self._fresh.items() if listing[2]]

    def forget_others(self) -> None:
        """Keep what this search has asked for, which was everything."""
        if len(self._fresh) < len(self.known):
            self.known = {path: known for path, known in self.known.items() if path in self._fresh}
            self.is_changed = True

    def look(self, path: str) -> Listing:
        """What is in a directory now."""
        listing = self._fresh.get(path)
        if listing is None:
            listing = self._fresh[path] = self._known_still(path) or self._look_anew(path)
        return listing

    def _known_still(self, path: str) -> Listing | None:
        """As `stamp_of` would tell, without a call for each: there are very many."""
        known = self.known.get(path)
        if known is None:
            return None
        try:
            status = os.lstat(path)
        except OSError:
            return None
        return known[1] if known[0] == (status.st_dev, status.st_ino, status.st_ctime_ns) else None

    def _look_anew(self, path: str) -> Listing:
        stamp, looked_ns = stamp_of(path), time.time_ns()
        self._is_sure = True
        listing = self._list(path, stamp)
        if self._is_sure and is_settled(stamp, looked_ns):
            self.known[path] = (stamp, listing)
            self.is_changed = True
        return listing

    def _list(self, path: str, stamp: Stamp | None) -> Listing:
        try:
            return list_directory(path)
        except (FileNotFoundError, NotADirectoryError):
            return _NOTHING  # gone meanwhile
        except OSError as problem:
            self._is_sure = False
            closed: Listing = ((), os.path.lexists(f"{path}/.git"), ())
            if not self._may_open:  # the next plan is refused
                self._closed[path] = stamp
                return closed
            if stamp is not None and self._closed.get(path) == stamp:
                return closed  # as the host has left it: to open it would have changed its time
            try:
                return self._list_opened(path)
            except OSError:
                self.failures[path] = problem
                return closed

    def _list_opened(self, path: str) -> Listing:
        handle = self._open_path(path)
        if handle < 0:
            return _NOTHING
        try:
            return list_directory(handle)
        finally:
            os.close(handle)


def list_directory(place: str | int) -> Listing:
    """Names only, by path or descriptor: what is found by them is opened without following a link.

    Raises OSError.
    """
    names, marks, traps, odd = [], set(), [], []
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.name in _MARKS:
                marks.add(entry.name)
            elif _NAMES.may_be_meant(entry.name):
                odd.append(entry.name)
            if entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
            elif entry.name[:1] in _FIRST and _is_trap(entry):
                traps.append(entry.name)
    for name, status in _NAMES.found_in(place, {*odd, *marks, *traps}).items() if odd else ():
        if name in _MARKS:
            marks.add(name)
        elif not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
            traps += [name] if name == ".gitmodules" or not stat.S_ISLNK(status.st_mode) else []
    has_git = ".git" in marks or any(marks >= bare for bare in _BARE)
    return tuple(sorted(names)), has_git, tuple(traps)


def _is_trap(entry: os.DirEntry[str]) -> bool:
    """A link under a name that git writes; what is neither file nor link under one that it reads."""
    if entry.is_symlink():
        return is_written_by_git(entry.name)
    return entry.name in _READ and not entry.is_file(follow_symlinks=False)


def is_written_by_git(name: str) -> bool:
    """Whether git writes, beside `.git`, to a file of this name.

    By its beginning: a commit, which a command may have made, or a time gives the rest of the name.
    """
    if name == ".gitmodules" or name.lower().startswith("git-diagnostics-"):
        return True
    name = name.lower()  # which some file systems do as well
    number, dash, _ = (name.partition("-")[2] if name[:1] == "v" else name).partition("-")
    if dash:
        return len(number) >= _PATCH_DIGITS and number.isdecimal()
    return name.isdecimal()  # by `git format-patch --numbered-files`


def is_local(device: int) -> bool:
    """Whether a file system is one whose times of change nobody but this kernel sets."""
    return _types().get(device, "") in _LOCAL


def tells_of_mappings(device: int) -> bool:
    """Whether a file has a new time when a process changes it that has mapped it. In memory it has not."""
    return _types().get(device, "") not in {"", "tmpfs"}


def mounted_in(roots: Iterable[str]) -> set[int]:
    """The devices of the file systems that lie in these directories, and of what is mounted beneath them."""
    tops = tuple(roots)
    begins = tuple(f"{top}/" for top in tops)
    beneath = {device for device, place, _ in _mounts() if place.startswith(begins)}
    return beneath | {os.lstat(top).st_dev for top in tops if os.path.lexists(top)}


@lru_cache(maxsize=1)
def _types() -> dict[int, str]:
    """The kinds of file systems, by device. One that was mounted since is none that is known."""
    return {device: kind for device, _, kind in _mounts()}


def _mounts() -> tuple[tuple[int, str, str], ...]:
    """Device, place and kind of everything that is mounted now."""
    if sys.platform != "linux":
        return ()  # nothing tells; what is not known is not trusted
    with open("/proc/self/mountinfo", "rb", buffering=0) as file:
        return _read_mounts(file.read())


@lru_cache(maxsize=1)
def _read_mounts(content: bytes) -> tuple[tuple[int, str, str], ...]:
    """Once for all looks at the same list."""
    found = []
    for line in content.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n"):
        fields, _, rest = line.partition(" - ")
        number, place = fields.split(" ")[2:5:2]
        major, _, minor = number.partition(":")
        for code, character in _ESCAPED:
            place = place.replace(code, character)
        found.append((os.makedev(int(major), int(minor)), place, rest.partition(" ")[0]))
    return tuple(found)
