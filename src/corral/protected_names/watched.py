"""A directory with watched names: held open, or opened for each look where there are very many of them."""

from __future__ import annotations

import contextlib
import errno
import os

from corral.model.policy import FsAccess
from corral.untrusted_files.stamps import is_inside
from corral.untrusted_files.steps import open_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.plan import Plan, WatchedName
    from corral.model.violation import Violation

#: In the place of a time: it is not there any more, or something else is.
GONE = -1
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})


def safe_quarantine(plan: Plan, quarantine: str) -> str:
    """The quarantine; nothing if a command may write around it, and then what is taken is removed.

    TRUST: whoever is in a directory goes along when that is moved. If the place lies in the same mount, `..`
    leads from there to corral's own files, beneath the mounts that hold them.
    """
    writable = {grant.target.path for grant in plan.resolved.grants if grant.access is FsAccess.WRITE}
    return "" if not quarantine or is_inside(os.path.realpath(quarantine), writable) else quarantine


class WatchedDirectory:
    """One of a guard's. INVARIANT: whatever is looked at is the planned directory, or nothing is."""

    __slots__ = ("_handle", "_identity", "_root", "path", "watches")

    def __init__(self, watch: WatchedName, *, is_held: bool) -> None:
        """Raises OSError if it cannot be opened, or has been replaced."""
        self.path, self._root = watch.directory, watch.root
        self._identity = (watch.device, watch.inode)
        self.watches: dict[str, WatchedName] = {}
        # Held open, a rename of it does not lead the guard elsewhere.
        self._handle = self._open()
        if not is_held:
            self.close()

    @property
    def device(self) -> int:
        """The number of its file system."""
        return self._identity[0]

    def stamp(self) -> int:
        """When something was last made, renamed or removed in it: the one time that nobody can set."""
        if self._handle >= 0:
            return os.fstat(self._handle).st_ctime_ns
        try:
            status = os.lstat(self.path)
        except OSError:
            return GONE
        return status.st_ctime_ns if (status.st_dev, status.st_ino) == self._identity else GONE

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """A descriptor of it, or -1 if it is not there any more. Raises OSError if it cannot be opened."""
        if self._handle >= 0:
            yield self._handle
            return
        try:
            handle = self._open()
        except OSError as problem:
            if problem.errno not in _GONE:
                raise
            yield -1
            return
        try:
            yield handle
        finally:
            os.close(handle)

    def close(self) -> None:
        """Give the descriptor back, if it is held."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _open(self) -> int:
        handle = open_beneath(self._root, self.path)
        status = os.fstat(handle)
        if (status.st_dev, status.st_ino) != self._identity:
            os.close(handle)
            raise OSError(errno.ESTALE, "changed since it was planned", self.path)
        return handle


class NoRepositories:
    """Where the policy protects nothing of git's."""

    found_at_the_top = 0
    configured: tuple[str, ...] = ()

    def begin(self) -> None: ...

    def glance(self) -> None: ...

    def is_made_at_the_top(self) -> bool:
        return False

    def sweep(self, *, is_at_work: bool, is_over: bool) -> tuple[str, ...]:
        return ()

    def acquit(self) -> None: ...

    def close(self) -> None: ...

    def take_violations(self) -> tuple[Violation, ...]:
        return ()
