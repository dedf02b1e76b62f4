"""The index of a git directory, with the other part that a split one names."""

from __future__ import annotations

import os

from corral.git_check.files import has_entry, is_there, names_of
from corral.git_check.work import MOST_INDEX_BYTES
from corral.git_formats.index import MalformedIndex, read_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.git_check.pointers import Pointers
    from corral.git_check.work import Work
    from corral.git_formats.index import IndexContent

SECOND_NAME = "it has a second name, by which git would write it as another file"
TOO_LARGE = "it is too large to be looked at"


def read_whole_index(
    work: Work, handle: int, directory: str, length: int, *, may_have_names: bool = False
) -> tuple[IndexContent, frozenset[bytes]]:
    """By the descriptor and the path of its directory; names of objects have so many bytes.

    Also the directories that its entries are in. Raises MalformedIndex, also for a second name of the file
    unless no command could write it by that.
    """
    directories: set[bytes] = set()
    data = _read(work, handle, directory, "index", may_have_names=may_have_names)
    content = read_index(data, length, None, directories)
    if content.shared:
        name = f"sharedindex.{content.shared}"
        is_there = has_entry(handle, name)
        other = _read(work, handle, directory, name, may_have_names=may_have_names) if is_there else None
        content = read_index(data, length, other, directories)
    return content, frozenset((*directories, *map(os.fsencode, content.gitlinks))) - {b""}


def _read(work: Work, handle: int, directory: str, name: str, *, may_have_names: bool) -> bytes:
    data = work.read(handle, directory, name, MOST_INDEX_BYTES)
    if data is None:
        raise MalformedIndex(TOO_LARGE)
    if not may_have_names and names_of(handle, name) != 1:
        raise MalformedIndex(SECOND_NAME)
    return data


def filled(worktree: str, sparse: tuple[str, ...], pointers: Pointers) -> list[str]:
    """Those of the directories that git says it has left out of the worktree, and that are there."""
    top = pointers.open(worktree) if worktree and sparse else -1
    if top < 0:
        return []
    try:
        return [path for path in sparse if is_there(top, path)]
    finally:
        os.close(top)
