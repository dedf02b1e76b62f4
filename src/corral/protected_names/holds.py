"""Holds: whether what a kept sandbox protects is still the same, for as long as it is kept.

TRUST: a file that is replaced takes the mount on it along, and its number is used again, maybe by the next
file. As long as it is held open, whatever takes its place has another number. Where there are very many, a
process has not enough descriptors: of the others the kernel tells when one is gone.
"""

from __future__ import annotations

import errno
import os
import struct

from corral.model.errors import SetupError
from corral.model.policy import FsAccess
from corral.untrusted_files.stamps import is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.model.plan import Plan

    Identity = tuple[int, int]

#: Descriptors of one sandbox.
MOST_HELD = 128
#: It is not what it was when the run was planned.
CHANGED = frozenset({errno.ESTALE, errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
#: On macOS what tells of events holds as well, and asks for no right to read.
_HELD = getattr(os, "O_PATH", 0) or getattr(os, "O_EVTONLY", os.O_RDONLY)
_IN_DELETE_SELF, _IN_DONT_FOLLOW = 0x400, 0x02000000
_IN_Q_OVERFLOW = 0x4000
_MASK = _IN_DELETE_SELF | _IN_DONT_FOLLOW
_EVENT = struct.Struct("iIII")


class Holds:
    """Of one kept sandbox. Not for several threads at once."""

    def __init__(self, identities: Iterable[tuple[str, Identity]]) -> None:
        """Raises SetupError if they cannot be held; what has been replaced is found by `changed`."""
        self._identities = tuple(identities)
        self._held: list[int] = []
        self._teller = -1  # inotify
        self._by_number: dict[int, str] = {}
        self._lost: set[str] = set()
        try:
            for path, _ in self._identities[:MOST_HELD]:
                self._hold(path)
            if len(self._identities) > MOST_HELD:
                self._listen([path for path, _ in self._identities[MOST_HELD:]])
        except OSError as problem:
            self.close()
            raise _not_held(problem) from problem

    def changed(self) -> list[str]:
        """Those that are not there any more, or are others."""
        self._hear()
        lost = self._lost
        return [path for path, planned in self._identities if path in lost or identity_of(path) != planned]

    def close(self) -> None:
        """Give the descriptors back."""
        if self._teller >= 0:
            os.close(self._teller)
            self._teller = -1
        while self._held:
            os.close(self._held.pop())

    def _hold(self, path: str) -> None:
        try:
            self._held.append(os.open(path, _HELD | os.O_NOFOLLOW | os.O_CLOEXEC))
        except OSError as problem:
            if problem.errno not in CHANGED:  # which the next look will find
                raise

    def _listen(self, paths: Iterable[str]) -> None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        self._teller = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._teller < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "inotify")
        for path in paths:
            number = libc.inotify_add_watch(self._teller, os.fsencode(path), _MASK)
            if number >= 0:
                self._by_number[number] = path
            elif ctypes.get_errno() in CHANGED:
                self._lost.add(path)
            else:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)

    def _hear(self) -> None:
        """INVARIANT: whatever the kernel could not tell counts as lost."""
        while self._teller >= 0:
            try:
                raw = os.read(self._teller, 65_536)
            except BlockingIOError:
                return
            at = 0
            while at < len(raw):
                number, mask, _cookie, length = _EVENT.unpack_from(raw, at)
                at += _EVENT.size + length
                told = self._by_number.values() if mask & _IN_Q_OVERFLOW else (self._by_number.get(number),)
                self._lost.update(path for path in told if path is not None)


def covered(plan: Plan) -> Iterator[tuple[str, Identity]]:
    """All that mounts keep from commands inside writable paths, and what is there: what takes its place is
    as writable as everything around it.

    What a private area hides was not looked at for the plan: it is what is there now.
    """
    resolved = plan.resolved
    writable = {grant.target.path for grant in resolved.grants if grant.access is FsAccess.WRITE}
    read = (
        grant.target
        for grant in resolved.grants
        if grant.access is FsAccess.READ and is_inside(grant.target.path, writable)
    )
    for target in (*(shield.target for shield in plan.shields), *plan.pins, *resolved.denied, *read):
        if target.inode:
            yield target.path, (target.device, target.inode)
    hidden = dict.fromkeys(place for path in resolved.private for place in (path, os.path.realpath(path)))
    for place in hidden:
        identity = identity_of(place)
        if identity is not None and is_inside(place, writable):
            yield place, identity


def identity_of(path: str) -> Identity | None:
    """What is at a path now, a link itself; None if nothing is."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _not_held(problem: OSError) -> SetupError:
    return SetupError(
        "guard",
        f"{problem.filename or 'what is protected'} cannot be held",
        why=problem.strerror or str(problem),
        fix="raise the limit on open files, or on what is watched (`sysctl fs.inotify.max_user_watches`), or "
        "close sessions that are no longer used",
    )
