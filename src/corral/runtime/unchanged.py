"""What the kernel says has not changed since it was looked at need not be looked at again.

By number and by the time of the last change, which nobody can set. Such a time is as coarse as the kernel's
tick: what was changed just before a look may be changed once more without another time.
"""

from __future__ import annotations

import os
import time
from functools import lru_cache

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Stamp = tuple[int, int, int]  # device, inode, time of the last change

TICK_NS = 20_000_000
#: What makes a git directory of any directory: all of one of these.
_BARE = (frozenset({"HEAD", "objects", "refs"}), frozenset({"HEAD", "commondir"}))
_MARKS = frozenset({".git"}).union(*_BARE)
#: File systems that keep these times by themselves, whatever other machines do.
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "tmpfs", "f2fs"})


def stamp_of(path: str) -> Stamp | None:
    """What something is now, a link itself; None if it is not there, or cannot be reached."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_ctime_ns)


def is_settled(stamp: Stamp | None, looked_ns: int) -> bool:
    """Whether a look that began then has seen all that the stamp stands for."""
    return stamp is not None and stamp[2] < looked_ns - TICK_NS and is_local(stamp[0])


class Memory:
    """The paths that one look has depended on."""

    def __init__(self, paths: Iterable[str], looked_ns: int) -> None:
        self._stamps = {path: stamp_of(path) for path in paths}
        self._is_reliable = all(
            is_settled(stamp, looked_ns) and stamp is not None and tells_of_mappings(stamp[0])
            for stamp in self._stamps.values()
        )

    def holds(self) -> bool:
        """Whether a new look would find the same."""
        return self._is_reliable and all(stamp_of(path) == stamp for path, stamp in self._stamps.items())


class Listing(Record):
    """What one directory holds."""

    subdirectories: tuple[str, ...] = ()
    has_git: bool = False  # git finds a repository there
    patches: tuple[str, ...] = ()  # links under names that `git format-patch` gives to files


class Folders:
    """What directories hold, listed anew after a change."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Stamp | None, Listing]] = {}
        self._fresh: dict[str, Listing] = {}

    def begin(self) -> None:
        """A new search: every directory is asked for once more whether it has changed."""
        self._fresh = {}

    def subdirectories(self, path: str) -> tuple[str, ...]:
        return self._find(path).subdirectories

    def has_git(self, path: str) -> bool:
        return self._find(path).has_git

    def with_patches(self) -> list[str]:
        """Of the directories that this search has asked for."""
        return [path for path, listing in self._fresh.items() if listing.patches]

    def _find(self, path: str) -> Listing:
        if path not in self._fresh:
            stamp, looked_ns = stamp_of(path), time.time_ns()
            known = self._known.get(path)
            if known is None or known[0] != stamp:
                known = (stamp, list_directory(path))
                if is_settled(stamp, looked_ns):
                    self._known[path] = known
            self._fresh[path] = known[1]
        return self._fresh[path]


def list_directory(place: str | int) -> Listing:
    """Names only, by path or descriptor: what is found by them is opened without following a link."""
    names, marks, patches = [], set(), []
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name in _MARKS:
                    marks.add(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
                elif _is_patch(entry.name) and entry.is_symlink():
                    patches.append(entry.name)
    except OSError:  # closed: the next plan is refused
        return Listing(has_git=isinstance(place, str) and os.path.lexists(f"{place}/.git"))
    return Listing(
        tuple(sorted(names)), ".git" in marks or any(marks >= bare for bare in _BARE), tuple(patches)
    )


def _is_patch(name: str) -> bool:
    """By its beginning; a commit, which a command may have made, gives the rest of the name."""
    number = name.partition("-")[2] if name[:1] == "v" else name
    return number[:4].isdecimal() and number[4:5] == "-"


def is_local(device: int) -> bool:
    """Whether a file system is one whose times of change nobody but this kernel sets."""
    return _types().get(device, "") in _LOCAL


def tells_of_mappings(device: int) -> bool:
    """Whether a file has a new time when a process changes it that has mapped it. In memory it has not."""
    return _types().get(device, "") not in {"", "tmpfs"}


@lru_cache(maxsize=1)
def _types() -> dict[int, str]:
    """The kinds of file systems, by device."""
    found = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            major, _, minor = fields.split(" ")[2].partition(":")
            found[os.makedev(int(major), int(minor))] = rest.partition(" ")[0]
    return found
