"""Trees in which patterns are held: what fulfils one and was not there when the run was planned is found.

A look goes through all directories, and lists those that have changed since the last one. As soon as the
kernel tells of changes, only what it tells of is looked at.
"""

from __future__ import annotations

import errno
import os
import sys
import time

from corral.model.errors import SetupError
from corral.model.record import Record
from corral.model.rules.pattern import node_of
from corral.untrusted_files.removal import open_up
from corral.untrusted_files.steps import open_beneath
from corral.untrusted_files.unchanged import is_settled, stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from corral.model.plan import Search
    from corral.model.rules.pattern import Node
    from corral.untrusted_files.unchanged import Stamp

    #: Has the kernel tell of a directory, by its descriptor; returns the number that it uses for it.
    Tell = Callable[[int], int]

_PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)
_IN_ISDIR = 0x40000000
#: Work of one look: a command that makes more directories than this is not looked after any further.
MOST_WORK = 2_000_000
_REST_FOR_LOOK = 4
_MANY = 256
_LEAST_REST_SECONDS = 0.002
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class Planted(Record):
    """Something that a pattern forbids, where it was found."""

    root: str
    directory: str
    name: str
    text: str  # of the pattern

    @property
    def path(self) -> str:
        return os.path.join(self.directory, self.name)


class _Folder(Record):
    node: Node
    stamp: Stamp | None  # None: it has to be listed again
    inside: tuple[tuple[str, Node], ...]  # directories in which a pattern may be fulfilled


class _Tree:
    """One search. INVARIANT: no link is followed, whatever commands put in the place of directories."""

    def __init__(self, search: Search) -> None:
        """Raises OSError if the directory has been replaced."""
        self._search = search
        self._top = node_of(search.globs)
        self._folders: dict[str, _Folder] = {}
        self._numbers: dict[int, str] = {}
        self._dirty: set[str] = set()
        self._renewed: set[str] = set()  # directories that may be others than those of that name before
        self._tell: Tell | None = None
        self.may_open = False
        self.work = 0
        self.unseen: list[str] = []
        stamp = stamp_of(search.path)
        if stamp is None or stamp[:2] != (search.device, search.inode):
            raise OSError(errno.ESTALE, "changed since it was planned", search.path)

    def look(self) -> Iterator[Planted]:
        """Go through everything."""
        self._dirty.clear()
        self.unseen.clear()
        known, self._folders = self._folders, {}
        yield from self._walk([(self._search.path, self._top)], known)

    def look_at_changes(self) -> Iterator[Planted]:
        """Go through what the kernel has told of."""
        changed = [(path, self._folders[path].node) for path in self._dirty]
        self._dirty.clear()
        yield from self._walk(changed, {}, only_new=True)
        self._renewed.clear()

    def hear(self, number: int, name: str, mask: int) -> None:
        """The kernel tells of a name in a directory."""
        path = self._numbers.get(number, "")
        folder = self._folders.get(path)
        if folder is not None:
            hit, hit_inside, left = folder.node.step(name)
            if hit or hit_inside or (left and mask & _IN_ISDIR):
                self._dirty.add(path)
            if mask & _IN_ISDIR:
                self._renewed.add(f"{path.rstrip('/')}/{name}")

    def listen(self, tell: Tell | None) -> None:
        """Every directory is listed once more, and told of from then on."""
        self._tell = tell
        self._numbers.clear()
        self._folders.clear()

    @property
    def size(self) -> int:
        return len(self._folders)

    @property
    def has_changes(self) -> bool:
        return bool(self._dirty)

    def _walk(
        self, pending: list[tuple[str, Node]], known: dict[str, _Folder], *, only_new: bool = False
    ) -> Iterator[Planted]:
        while pending:
            path, node = pending.pop()
            if self.work > MOST_WORK:
                self.unseen.append(path)
                return
            folder = known.get(path)
            self.work += 1
            if (
                folder is None
                or folder.node is not node
                or folder.stamp is None
                or folder.stamp != stamp_of(path)
            ):
                before = self._folders.get(path) if only_new else None
                found: list[Planted] = []
                folder = self._list(path, node, found)
                yield from found
                if folder is None:
                    self._folders.pop(path, None)
                    continue
                if before is not None and path not in self._renewed:
                    self._folders[path] = folder
                    # Those that were known are told of by themselves.
                    known_ones = {each for each in before.inside if each[0] not in self._renewed}
                    pending += set(folder.inside) - known_ones
                    continue
            self._folders[path] = folder
            pending += folder.inside

    def _list(self, path: str, node: Node, found: list[Planted]) -> _Folder | None:
        """What a directory holds; None if it is not there any more, or nobody can look into it."""
        began = time.time_ns()
        try:
            handle = self._open(path)
        except OSError as problem:
            if problem.errno not in _GONE and not _is_shut(path):
                self.unseen.append(path)
            return None
        try:
            if self._tell is not None:  # ORDER: before it is listed, so that nothing is missed
                self._numbers[self._tell(handle)] = path
            status = os.fstat(handle)
            inside = self._enter(handle, path, node, found)
        finally:
            os.close(handle)
        stamp = (status.st_dev, status.st_ino, status.st_ctime_ns)
        return _Folder(node, None if found or not is_settled(stamp, began) else stamp, tuple(inside))

    def _enter(self, handle: int, path: str, node: Node, found: list[Planted]) -> Iterable[tuple[str, Node]]:
        """Look at each name in a directory; returns those to look into."""
        inside = []
        search, prefix = self._search, f"{path.rstrip('/')}/"
        with os.scandir(handle) as entries:
            for entry in entries:
                self.work += 1
                name = entry.name
                hit, hit_inside, left = node.step(name)
                if not hit_inside and not left:
                    continue
                is_directory = entry.is_dir(follow_symlinks=False)
                if (hit_inside and is_directory) or hit or (hit_inside and entry.is_symlink()):
                    if f"{prefix}{name}" not in search.known:
                        found.append(Planted(search.path, path, name, hit_inside[0]))
                elif left and is_directory and f"{prefix}{name}" not in search.closed:
                    inside.append((f"{prefix}{name}", node_of(left)))
        return inside

    def _open(self, path: str) -> int:
        self.work += path.count("/")
        try:
            return open_beneath(self._search.path, path)
        except PermissionError:
            if not self.may_open or _is_others(path):
                raise
        # A command has closed it, so that nobody can say what lies in it.
        if path == self._search.path:
            return self._open_top()
        above, name = os.path.split(path)
        parent = open_beneath(self._search.path, above)
        try:
            return open_up(parent, name)
        finally:
            os.close(parent)

    def _open_top(self) -> int:
        """Open the directory itself once more, if it is still the one that was planned."""
        held = os.open(self._search.path, _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            status = os.fstat(held)
            if (status.st_dev, status.st_ino) != (self._search.device, self._search.inode):
                raise OSError(errno.ESTALE, "changed since it was planned", self._search.path)
            mode = status.st_mode & 0o7777 | 0o700
            (os.chmod(f"/proc/self/fd/{held}", mode) if sys.platform == "linux" else os.fchmod(held, mode))
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=held)
        finally:
            os.close(held)


def _is_others(path: str) -> bool:
    """Whether a directory that cannot be opened is somebody else's, so that no command opens it up."""
    try:
        return os.lstat(path).st_uid != os.geteuid()
    except OSError:
        return False


def _is_shut(path: str) -> bool:
    """Whether no command can enter a directory that cannot be listed: it is somebody else's, and shut.

    In one that can be entered, what has a known name can be opened: `planning.patterns` refuses it too.
    """
    if not _is_others(path):
        return False
    try:
        os.lstat(f"{path}/.")
    except PermissionError:
        return True
    except OSError:
        return False
    return False


class PatternTrees:
    """All searches of one sandbox."""

    def __init__(self, searches: Iterable[Search]) -> None:
        """Raises OSError if a directory has been replaced."""
        self._trees = [_Tree(search) for search in searches]
        self._look_at = 0.0

    def find(self, *, may_open: bool = False) -> list[Planted]:
        """Look everywhere. Raises SetupError if that cannot be done.

        `may_open`: directories that a command has closed to their owner are opened again.
        """
        found: list[Planted] = []
        for tree in self._trees:
            tree.work, tree.may_open = 0, may_open
            found += tree.look()
            if may_open and tree.unseen:
                raise _unseen(tree.unseen[0])
        return found

    def find_changes(self) -> list[str]:
        """What the host has made meanwhile, and directories that it has closed, where it may have."""
        found = [planted.path for planted in self.find()]
        return found + [path for tree in self._trees for path in tree.unseen]

    def glance(self) -> list[Planted]:
        """Look, if it is time to: to look at very much takes a while, and others get a turn."""
        began = time.monotonic()
        if not self._trees or began < self._look_at:
            return []
        found = self.find()
        now = time.monotonic()
        self._look_at = now + max(_LEAST_REST_SECONDS, _REST_FOR_LOOK * (now - began))
        return found

    @property
    def is_used(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._trees)

    @property
    def is_large(self) -> bool:
        """Whether to look at everything takes so long that the kernel had better tell soon."""
        return sum(tree.size for tree in self._trees) > _MANY

    def listen(self, tell: Tell | None) -> None:
        """From now on the kernel tells of changes; None: it does not any more."""
        for tree in self._trees:
            tree.listen(tell)

    def hear(self, number: int, name: str, mask: int) -> None:
        """The kernel tells of a name in a directory."""
        for tree in self._trees:
            tree.hear(number, name, mask)

    def heard(self) -> list[Planted]:
        """What has come of it. Raises OSError if the kernel will not tell of more directories."""
        found: list[Planted] = []
        for tree in self._trees:
            while tree.has_changes:
                tree.work = 0
                found += tree.look_at_changes()
        return found


def _unseen(path: str) -> SetupError:
    return SetupError(
        "pattern-unseen",
        f"corral cannot tell whether something that patterns forbid is in {path}",
        why="there are more directories than are looked at, or this one can be entered and not listed",
        fix="look there yourself, and remove it, before anything on the host uses it",
        ran=True,
    )
