"""Links in the workspace through which the host's git would write or remove files.

A plain run takes them away when it has ended (`git_check`). A trial keeps them: they are applied by their own
names alone.
"""

from __future__ import annotations

import os
from contextlib import suppress

from corral.git_check.around import Around
from corral.git_check.looked import REMOTES
from corral.git_check.pointers import Pointers
from corral.git_check.remembered import Memories
from corral.git_check.tracked import links_among
from corral.git_check.work import Work
from corral.git_formats.config import MalformedConfig, read_config
from corral.git_formats.index import MalformedIndex, read_index
from corral.git_formats.keys import hash_length
from corral.trials.git.view import open_host, open_inside
from corral.untrusted_files.unchanged import is_written_by_git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        self._ways: frozenset[str] | None = None  # directories of every index, and those above them

    def are_followed(self, path: str) -> bool:
        """Whether git would go through a link at a path, relative to the root."""
        above, name = os.path.split(path)
        if is_written_by_git(name) or (name in REMOTES and above in {"", *self._tops}):
            return True
        if self._ways is None:  # most trials make no link
            try:
                self._ways = frozenset(self._fold(way) for each in self._directories() for way in _ways(each))
            except (OSError, MalformedConfig, MalformedIndex):
                return True  # nobody can say where git goes
        return self._fold(path) in self._ways

    def _directories(self) -> Iterator[str]:
        """Relative to the root. The trial's index counts as well: it may be brought over, now or later.

        Raises OSError, MalformedConfig and MalformedIndex for what the host has.
        """
        for repository in self._record.repositories:
            top = os.path.dirname(repository)
            for path in _tracked_in(self._record, repository):
                yield os.path.join(top, os.fsdecode(path))
        around = Around((self._record.root,), Memories())
        for place in around.places():
            for _, _, directories in around.tracked(place, Work()):
                yield from map(os.fsdecode, directories)


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


def find_link_before(record: TrialRecord, repository: str, directories: frozenset[bytes]) -> str:
    """The first of these directories of an index that the host has, or reaches, by a link that leads out.

    Empty if there is none.
    """
    worktree = os.path.dirname(os.path.join(record.root, repository))
    handle = os.open(worktree, _DIRECTORY)
    try:
        tracked = (f"{record.root}/{repository}/{_INDEX}", worktree, directories)
        found = links_among(tracked, handle, Pointers((record.root,)), Work())
        return next((hazard.place for hazard in found), "")
    finally:
        os.close(handle)
