"""Repositories anywhere in what commands may write: also among packages, or deeper than the plan looks.

Git enters one that a commit names, or that `git add .` finds. The plan shields none of them, so what commands
do there is told by time: no command can set the time of the last change.
"""

from __future__ import annotations

import os

from corral.untrusted_files.unchanged import is_local, latest_ns, mounted_in, tells_of_mappings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from corral.untrusted_files.unchanged import Folders

#: A directory is a step, and one that is too far down for the kernel's paths as many as it has above it.
MOST_STEPS = 1 << 17
_MOST_PATH_BYTES = 4095
#: What a repository says of the rest: its index and settings, where it is one with a worktree, or a bare one.
_TELLING = (".git/index", ".git/config", ".git/HEAD", "index", "config", "HEAD")


def find_everywhere(roots: Iterable[str], folders: Folders, give_up: Callable[[str], None]) -> Iterator[str]:
    """Directories that git finds a repository in, level by level.

    `give_up` is called with the first one that is not looked into because there are too many.
    """
    tops = dict.fromkeys(roots)
    waiting, left = [(root, folders.look(root)[0]) for root in tops], MOST_STEPS
    for directory, names in waiting:  # grows while it is gone through
        is_short = len(directory) < _MOST_PATH_BYTES // 4 or len(os.fsencode(directory)) <= _MOST_PATH_BYTES
        left -= 1 if is_short else directory.count("/")
        if left < 0:
            give_up(directory)
            return
        for name in names:
            path = f"{directory}/{name}"
            if name != ".git" and path not in tops:  # one root may lie in another
                inner, has_git, _ = folders.look(path)
                if has_git:
                    yield path
                waiting.append((path, inner))


def is_changed_since(root: str, path: str, began_ns: int) -> bool:
    """Whether anything on the way from a root, which stays where it is, to a path was changed or moved since.

    What moves along with a directory keeps its own time; the directory has a new one. It also has one when
    something beside was made in it: nobody can tell these apart.
    """
    here = root
    for part in path[len(root) :].split("/"):
        if not part:
            continue
        here = f"{here}/{part}"
        try:
            status = os.lstat(here)
            if latest_ns(status.st_ctime_ns) >= began_ns or not tells_of_mappings(status.st_dev):
                return True
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # nobody can say
    return False


def _ignore(_: str) -> None:
    """Before commands: the search after them tells."""


class Elsewhere:
    """Repositories beyond the plan's search, of one check. `tell` is told what was left out, and why."""

    def __init__(self, roots: Sequence[str], folders: Folders, tell: Callable[[str, str], None]) -> None:
        self._roots, self._folders, self._tell = roots, folders, tell
        self._found: tuple[str, ...] | None = None
        self.begun: frozenset[str] = frozenset()  # which were looked at before commands
        self._since_ns = 0
        self._is_told = False
        self.has_searched = False  # since commands ran
        self._tells: bool | None = None  # whether times do, as found by the last search

    def resume(self, found: Iterable[str]) -> None:
        """What a search of an earlier run has found. What the host has made since is told by its time."""
        self._found = tuple(found)

    def find(self, *, is_afterwards: bool) -> tuple[str, ...]:
        """Anew when commands have run, or where times tell nothing; before them what is known will do."""
        self._tells = None  # something may have been mounted
        if is_afterwards or self._found is None or not self._are_times_kept():
            give_up = self._give_up if is_afterwards else _ignore
            self._found = tuple(find_everywhere(self._roots, self._folders, give_up))
            self.has_searched |= is_afterwards
        return self._found

    def begin(self, looked_at: Iterable[str], began_ns: int) -> None:
        """Commands are about to start, and these have been looked at: what is in them is the host's own."""
        self.begun, self._since_ns, self._is_told = frozenset(looked_at), began_ns, False

    def is_hosts(self, worktree: str, path: str, place: str) -> bool:
        """Whether what is at a place was there before, in a repository that was not looked at then."""
        if worktree in self.begun or not self._are_times_kept():
            return False
        roots = [root for root in self._roots if f"{path}/".startswith(f"{root}/")]
        if not roots or os.path.isfile(f"{worktree}/.git"):
            return False  # which leads elsewhere
        # What was harmless before may be a hazard by what the repository says of it since.
        telling = (f"{worktree}/{name}" for name in _TELLING) if worktree else ()
        root = max(roots, key=len)
        return not any(is_changed_since(root, one, self._since_ns) for one in (f"{path}/{place}", *telling))

    def is_unknown(self, path: str) -> bool:
        """Whether it lies in such a repository."""
        return any(path.startswith(f"{worktree}/") for worktree in {*(self._found or ())} - self.begun)

    def _are_times_kept(self) -> bool:
        """Whether each change of a file gives it a new time, also that by a process which has mapped it."""
        if self._tells is None:
            devices = mounted_in(self._roots)
            self._tells = all(is_local(device) and tells_of_mappings(device) for device in devices)
        return self._tells

    def _give_up(self, directory: str) -> None:
        if not self._is_told:
            self._is_told = True
            why = f"there are more than {MOST_STEPS} directories: repositories in here, and further on,"
            self._tell(directory, f"{why} were not looked for; do not let git enter them")
