"""Links in the workspace through which the host's git would write or remove files.

A plain run takes them away when it has ended (`git_check`). A trial keeps them: they are applied by their own
names alone.
"""

from __future__ import annotations

import os
from contextlib import suppress

from corral.git_check.around import directories_of, find_around
from corral.git_check.looked import REMOTES
from corral.git_check.pointers import Pointers
from corral.git_check.tracked import links_among
from corral.git_check.work import Work
from corral.git_formats.config import MalformedConfig, read_config
from corral.git_formats.index import MalformedIndex, read_index
from corral.git_formats.keys import hash_length
from corral.trials.git.view import open_host, open_inside
from corral.untrusted_files.unchanged import is_written_by_git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from corral.trials.git.view import GitView
    from corral.trials.record import TrialRecord

_INDEX = "index"
_MOST_INDEX, _MOST_CONFIG = 512 << 20, 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LinksOfGit:
    """Of one trial. `fold` makes one spelling of all that a file system might take for the same."""

    def __init__(self, record: TrialRecord, fold: Callable[[str], str]) -> None:
        self._record, self._fold = record, fold
        self._tops = {os.path.dirname(repository) for repository in record.repositories}
        self._brought: frozenset[str] | None = None  # directories of each index that may be brought over
        self._around: dict[str, frozenset[str]] = {}  # by worktree: of its index on the host

    def are_followed(self, path: str) -> bool:
        """Whether git would go through a link at a path, relative to the root."""
        above, name = os.path.split(path)
        if is_written_by_git(name) or (name in REMOTES and above in {"", *self._tops}):
            return True
        try:
            if self._brought is None:  # most trials make no link
                self._brought = self._ways(self._record.root, self._directories())
            return self._is_in(self._brought, path) or self._is_tracked_around(path)
        except (OSError, MalformedConfig, MalformedIndex):
            return True  # nobody can say where git goes

    def are_tracked_with(self, path: str, indexes: Mapping[str, frozenset[bytes]]) -> bool:
        """The same for a link that was the host's own, by what an index has in there.

        `indexes`: by worktree, directories of those that are about to be put back.
        """
        for worktree, directories in indexes.items():
            self._around[worktree] = self._ways(worktree, map(os.fsdecode, directories))
        try:
            return self._is_tracked_around(path)
        except (OSError, MalformedConfig, MalformedIndex):
            return True

    def _is_tracked_around(self, path: str) -> bool:
        """By the host's index of any worktree that it lies in: also a submodule, a linked or a larger one."""
        here = os.path.join(self._record.root, path)
        worktree, git = find_around(here)
        while worktree:
            if worktree not in self._around:
                self._around[worktree] = self._ways(worktree, map(os.fsdecode, directories_of(git, Work())))
            if self._fold(here) in self._around[worktree]:
                return True
            worktree, git = find_around(worktree)
        return False

    def _is_in(self, ways: frozenset[str], path: str) -> bool:
        return self._fold(os.path.join(self._record.root, path)) in ways

    def _ways(self, top: str, directories: Iterable[str]) -> frozenset[str]:
        return frozenset(
            self._fold(os.path.join(top, way)) for directory in directories for way in _ways(directory)
        )

    def _directories(self) -> Iterator[str]:
        """Relative to the root. The trial's index counts as well: it may be brought over, now or later.

        Raises OSError, MalformedConfig and MalformedIndex for what the host has.
        """
        for repository in self._record.repositories:
            top = os.path.dirname(repository)
            for path in _tracked_in(self._record, repository):
                yield os.path.join(top, os.fsdecode(path))


def _tracked_in(record: TrialRecord, repository: str) -> set[bytes]:
    try:
        host = open_host(record, repository)
    except (FileNotFoundError, NotADirectoryError):
        return set()  # by now there is none
    with host:
        length = hash_length(read_config(host.read("config", _MOST_CONFIG) or b""))
        found = _directories_of(host, length)
    # TRUST: what cannot be read there is never brought over (`plan.py`).
    with suppress(OSError, MalformedIndex), open_inside(record, repository) as inside:
        found |= _directories_of(inside, length)
    return found


def _directories_of(view: GitView, length: int) -> set[bytes]:
    found: set[bytes] = set()
    data = view.read(_INDEX, _MOST_INDEX)
    if not data:
        return found
    content = read_index(data, length, None, found)
    if content.shared:
        other = view.read(f"sharedindex.{content.shared}", _MOST_INDEX)
        content = read_index(data, length, other, found)
    return found | set(map(os.fsencode, content.gitlinks))


def _ways(path: str) -> Iterator[str]:
    while path:
        yield path
        path = os.path.dirname(path)


def find_links_before(record: TrialRecord, repository: str, directories: frozenset[bytes]) -> list[str]:
    """Those of these directories of an index that the host has, or reaches, by a link that leads out."""
    worktree = os.path.dirname(os.path.join(record.root, repository))
    handle = os.open(worktree, _DIRECTORY)
    try:
        tracked = (f"{record.root}/{repository}/{_INDEX}", worktree, directories)
        found = links_among(tracked, handle, Pointers((record.root,)), Work())
        return [hazard.place for hazard in found]
    finally:
        os.close(handle)
