"""Hooks in a worktree: where the configuration says that every worktree has them.

The plan holds them in the worktrees that it knows. A command can make another one.
"""

from __future__ import annotations

import os

from corral.git_check.files import descend, is_there, link_text, read_file
from corral.git_check.hazard import Hazard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from corral.git_check.pointers import Pointers
    from corral.git_check.work import Work
    from corral.git_formats.config import ConfigEntry


#: Above the git directory, or the repository's own: not taken for hooks, whatever a setting says.
_NO_HOOKS = frozenset({".", "..", "objects", "refs", "logs"})


class WorktreeHooks:
    """Of one check. The places are relative to a worktree; `planned` are those that are held."""

    def __init__(self, places: Sequence[str], planned: Iterable[str], pointers: Pointers) -> None:
        self._places, self._planned, self._pointers = places, planned, pointers

    def hazards(self, worktree: str, handle: int, work: Work, more: tuple[str, ...] = ()) -> Iterator[Hazard]:
        """What git would run in a worktree, but for what is the same in one that the plan knows.

        A git directory is asked for like a worktree: git is in it when it receives what is pushed. `more` are
        places that its own configuration names.
        """
        why = "git would run it, because of core.hooksPath"
        for place in (*self._places, *more):
            link = _find_link(handle, place)
            if link:
                yield Hazard(link, why, link_text(handle, link))
                continue
            directory = descend(handle, place, may_open=self._pointers.may_open)
            if directory >= 0:
                try:
                    for name, _, _ in work.list(directory, f"{worktree}/{place}"):
                        content = work.read(directory, f"{worktree}/{place}", name)
                        if content is None or not self._is_known_hook(f"{place}/{name}", content):
                            content = content or link_text(directory, name)
                            content = content or work.identity(directory, f"{worktree}/{place}/{name}")
                            yield Hazard(f"{place}/{name}", why, content)
                finally:
                    os.close(directory)

    def are_in(self, handle: int) -> bool:
        """Whether there is anything at one of the places."""
        return any(is_there(handle, place) for place in self._places)

    def _is_known_hook(self, place: str, content: bytes) -> bool:
        """Whether the same is held in one of the plan's worktrees: it has been checked out, as a rule."""
        above, name = os.path.split(place)
        for worktree in self._planned:
            handle = self._pointers.open(f"{worktree}/{above}")
            if handle >= 0:
                try:
                    if read_file(handle, name) == content:
                        return True
                finally:
                    os.close(handle)
        return False


def named_places(entries: Iterable[ConfigEntry]) -> tuple[str, ...]:
    """Where a configuration that the plan does not hold has git look for hooks, inside the git directory.

    INVARIANT: never above it. A command may have written this, and what is there is removed.
    """
    values = (text for entry in entries if entry.name == "core.hookspath" for text in entry.readings)
    places = (os.path.normpath(value) for value in values if value and not value.startswith("/"))
    return tuple(dict.fromkeys(place for place in places if place.partition("/")[0] not in _NO_HOOKS))


def _find_link(handle: int, path: str) -> str:
    """The first part of a path that is a link; empty if there is none."""
    parts = path.split("/")
    ways = ("/".join(parts[: number + 1]) for number in range(len(parts)))
    return next((way for way in ways if link_text(handle, way)), "")
