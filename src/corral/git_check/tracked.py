"""Links where git has a directory of its own: `git rm` and others remove through them what is at their end.

Git itself puts no link there: it would take the files out of the index first.
"""

from __future__ import annotations

import errno
import os
import stat

from corral.git_check.files import descend, link_text
from corral.git_check.hazard import Hazard
from corral.git_check.pointers import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.git_check.pointers import Pointers
    from corral.git_check.work import Work

    # An index, the worktree that it belongs to, and the directories there that its entries are in.
    Tracked = tuple[str, str, frozenset[bytes]]

_EXCERPT = 60
_BYTES_PER_STEP = 64


def links_among(tracked: Tracked, handle: int, pointers: Pointers, work: Work) -> Iterator[Hazard]:
    """Those in a worktree, by descriptor, that lead out of it, or into a git directory.

    Their content has also where they lead by now: a link of the host's may lead through another one.
    """
    index, worktree, directories = tracked
    is_known: dict[bytes, bool] = {b"": True}  # whether it is a directory
    for directory in directories:
        for place in _new_ways(directory, is_known):
            if not is_known[place.rpartition(b"/")[0]]:
                is_known[place] = False
                continue
            work.spend(index, 1 + len(place) // _BYTES_PER_STEP)
            mode = _mode_of(handle, place, may_open=pointers.may_open)
            is_known[place] = stat.S_ISDIR(mode)
            if stat.S_ISLNK(mode) and not _stays_inside(worktree, os.fsdecode(place), handle, pointers):
                yield _hazard(worktree, os.fsdecode(place), handle)


def way_to(worktree: str, named_in: str, pointers: Pointers) -> tuple[Tracked, ...]:
    """As if an index had a directory where a linked worktree is registered: git writes and removes there."""
    top = pointers.top_of(worktree)
    is_below = bool(top) and worktree != top
    return ((named_in, top, frozenset({os.fsencode(worktree[len(top) + 1 :])})),) if is_below else ()


def _new_ways(path: bytes, known: dict[bytes, bool]) -> Iterator[bytes]:
    """What is on the way to a directory and not known yet, and it itself, from above."""
    at = path.find(b"/")
    while at >= 0:
        if path[:at] not in known:
            yield path[:at]
        at = path.find(b"/", at + 1)
    if path not in known:
        yield path


def _mode_of(handle: int, path: bytes, *, may_open: bool) -> int:
    """What is there; 0 if nothing is. It is reached through directories alone."""
    try:
        return os.stat(path, dir_fd=handle, follow_symlinks=False).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as problem:
        if problem.errno == errno.ENAMETOOLONG:
            return 0  # for git as well, which begins at the same directory
        if problem.errno != errno.EACCES or not may_open:
            raise
        return _mode_behind(handle, *os.path.split(os.fsdecode(path)))


def _mode_behind(handle: int, above: str, name: str) -> int:
    """The same, where a command has taken its owner's rights away."""
    directory = descend(handle, above)
    if directory < 0:
        return 0
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0
    finally:
        os.close(directory)


def _stays_inside(worktree: str, place: str, handle: int, pointers: Pointers) -> bool:
    text = os.fsdecode(link_text(handle, place))
    path = os.path.join(worktree, os.path.dirname(place), text)
    plain = os.path.normpath(path)
    inside = plain[len(worktree) :].lower().split("/")
    is_inside = is_beneath(plain, worktree) and ".git" not in inside
    return is_inside and pointers.lead_inside(path)


def _hazard(worktree: str, place: str, handle: int) -> Hazard:
    text = link_text(handle, place)
    end = os.fsencode(os.path.realpath(f"{worktree}/{place}"))
    shown = os.fsdecode(text)[:_EXCERPT]
    why = f"git would change files through this link, to {shown!r}: it treats it as its own directory"
    return Hazard(place, why, text + b"\0" + end)
