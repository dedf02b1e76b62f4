"""Links that are moved: one that stays inside its place may lead out of it from nearer to the top."""

from __future__ import annotations

import os
import stat

from corral.model.feature import Feature
from corral.wasi import numbers
from corral.wasi.tree import ModuleRefusal, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.wasi.tree import Parts, Tree

#: A directory with more in it is not moved towards the top: to look takes too long.
_MOST_ENTRIES = 100_000


def check_moved(tree: Tree, old: Parts, new: Parts) -> None:
    """Raise ModuleRefusal if a link would lead out from where it is moved to. Raises OSError."""
    if len(new) >= len(old):  # as deep as before: its text leads no further up
        return
    for link, text in _links_in(tree, old):
        if not text.startswith("/"):  # which leads where it always has
            tree.check_link_text((*new, *link[len(old) :]), text)


def _links_in(tree: Tree, parts: Parts) -> Iterator[tuple[Parts, str]]:
    """The link itself, or all that lie in a directory, with their texts."""
    status, looked = tree.status(parts), 0
    todo = [parts] if status is not None and stat.S_ISDIR(status.st_mode) else []
    if status is not None and stat.S_ISLNK(status.st_mode):
        yield parts, _text(tree, parts)
    while todo:
        here = todo.pop()
        for name, each in tree.names(here).items():
            looked += 1
            if looked > _MOST_ENTRIES:
                detail = f"it has more than {_MOST_ENTRIES} entries, any of which may be a link"
                raise ModuleRefusal(numbers.NOT_PERMITTED, Feature.FS_WRITE, shown(parts), detail)
            found = (*here, name)
            if each is not None and stat.S_ISLNK(each.st_mode):
                yield found, _text(tree, found)
            elif each is not None and stat.S_ISDIR(each.st_mode):
                todo.append(found)


def _text(tree: Tree, link: Parts) -> str:
    with tree.holding(link) as (directory, name):
        return os.readlink(name, dir_fd=directory)
