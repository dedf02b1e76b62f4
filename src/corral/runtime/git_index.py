"""The index of a git directory, with the other part that a split one names."""

from __future__ import annotations

import os

from corral.git.index import MalformedIndex, read_index
from corral.runtime.git_files import has_entry, names_of
from corral.runtime.git_work import MOST_INDEX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.git.index import IndexContent
    from corral.runtime.git_work import Work

SECOND_NAME = "it has a second name, by which git would write it as another file"
TOO_LARGE = "it is too large to be looked at"


def read_whole_index(
    work: Work, handle: int, directory: str, length: int
) -> tuple[IndexContent, frozenset[bytes]]:
    """By the descriptor and the path of its directory; names of objects have so many bytes.

    Also the directories that its entries are in. Raises MalformedIndex.
    """
    directories: set[bytes] = set()
    content = read_index(_read(work, handle, directory, "index"), length, None, directories)
    if content.shared:
        name = f"sharedindex.{content.shared}"
        other = _read(work, handle, directory, name) if has_entry(handle, name) else None
        content = read_index(_read(work, handle, directory, "index"), length, other, directories)
    return content, frozenset((*directories, *map(os.fsencode, content.gitlinks))) - {b""}


def _read(work: Work, handle: int, directory: str, name: str) -> bytes:
    data = work.read(handle, directory, name, MOST_INDEX_BYTES)
    if data is None:
        raise MalformedIndex(TOO_LARGE)
    if names_of(handle, name) != 1:
        raise MalformedIndex(SECOND_NAME)
    return data
