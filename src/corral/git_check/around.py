"""A workspace inside a larger repository: the index of that one has directories in here as well.

Its git directory is out of reach for commands, unless it is granted as well. But `git rm`, typed in the
workspace, works with that index, and follows a link that a command has put in the place of one of its
directories.
"""

from __future__ import annotations

import os
import time

from corral.git_check.files import read_file
from corral.git_check.index import read_whole_index
from corral.git_check.pointers import is_beneath
from corral.git_formats.config import MalformedConfig, read_config
from corral.git_formats.keys import hash_length
from corral.git_formats.pointer import read_path, read_pointer
from corral.untrusted_files.unchanged import memorise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.git_check.remembered import Memories
    from corral.git_check.tracked import Tracked
    from corral.git_check.work import Work

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_BYTES = 1 << 13
#: No such git directory, or none that git itself could read.
_NONE = (FileNotFoundError, NotADirectoryError, PermissionError)


class Around:
    """Of one check, whose commands write beneath these roots."""

    def __init__(self, roots: Sequence[str], memories: Memories) -> None:
        found = ((root, *find_around(root)) for root in roots)
        # What lies beneath another root is looked at itself; in a git directory no index has anything.
        self._found = [
            (root, worktree, git)
            for root, worktree, git in found
            if worktree and not is_beneath(root, git) and not any(is_beneath(worktree, top) for top in roots)
        ]
        self._memories = memories

    def places(self) -> list[tuple[str, str, str]]:
        """Each root in a larger worktree, with that and its git directory."""
        return self._found

    def tracked(self, found_at: tuple[str, str, str], work: Work) -> tuple[Tracked, ...]:
        """Raises MalformedIndex for an index that is not understood, and TooMuchWork."""
        root, worktree, git = found_at
        key = (git, root, True)
        found = self._memories.find(key)
        if found is None:
            self._memories.forget(key)
            looked_ns, part = time.time_ns(), work.part()
            try:
                tracked = _tracked_in(root, worktree, git, part)
            finally:
                work.add(part.spent)
            found = ([], (), tracked, True, {}, part.spent)
            self._memories.keep(key, memorise([git, f"{git}/index"], looked_ns), found)
        else:
            work.add(found[-1])
        return found[2]


def find_around(root: str) -> tuple[str, str]:
    """The worktree above a directory, and its git directory; empty if there is none."""
    above = root
    while above != "/":
        above = os.path.dirname(above)
        git = os.path.join(above, ".git")
        if os.path.isfile(git):
            with open(git, "rb") as file:
                git = os.path.normpath(os.path.join(above, read_pointer(file.read(_MOST_BYTES)) or "."))
        if os.path.lexists(f"{git}/HEAD"):
            return above, git
    return "", ""


def _tracked_in(root: str, worktree: str, git: str, work: Work) -> tuple[Tracked, ...]:
    """As if a directory were a worktree of its own: what the index around it has in there."""
    start = os.fsencode(os.path.relpath(root, worktree)) + b"/"
    directories = directories_of(git, work)
    inside = frozenset(path[len(start) :] for path in directories if path.startswith(start))
    return ((f"{git}/index", root, inside),) if inside else ()


def directories_of(git: str, work: Work) -> frozenset[bytes]:
    """The directories that the index of a git directory has, which is the host's own.

    Raises MalformedIndex for one that is not understood, and TooMuchWork.
    """
    try:
        handle = os.open(git, _DIRECTORY)
    except _NONE:
        return frozenset()
    try:
        if not os.path.lexists(f"{git}/index"):
            return frozenset()
        length = hash_length_of(handle, git)
        return read_whole_index(work, handle, git, length, may_have_names=True)[1]
    finally:
        os.close(handle)


def hash_length_of(handle: int, git: str) -> int:
    """How many bytes the names of objects have in a git directory."""
    common = read_path(read_file(handle, "commondir") or b"")
    shared = os.open(os.path.join(git, common or "."), _DIRECTORY)
    try:
        return hash_length(read_config(read_file(shared, "config") or b""))
    except MalformedConfig:
        return hash_length(())
    finally:
        os.close(shared)
