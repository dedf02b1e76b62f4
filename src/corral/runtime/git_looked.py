"""A directory after a look at it: a git directory, or one beside which git writes and reads files."""

from __future__ import annotations

import os

from corral.runtime.git_files import identity_of, link_text
from corral.runtime.git_hazard import Hazard
from corral.runtime.unchanged import list_directory

_WAIT = "git would wait for it: it is not a file"


class Looked:
    """A directory that was looked at, and what is wrong in it."""

    __slots__ = ("elsewhere", "gitlinks", "handle", "hazards", "is_whole", "path")

    def __init__(
        self,
        path: str,
        handle: int,
        hazards: list[Hazard],
        gitlinks: tuple[str, ...] = (),
        *,
        is_whole: bool | None = None,  # of a git directory
    ) -> None:
        self.path = path
        self.handle = handle
        self.hazards = hazards
        self.gitlinks = gitlinks
        self.is_whole = is_whole
        self.elsewhere = ""  # the worktree, if the plan does not look there


def traps_in(handle: int) -> list[Hazard]:
    """What waits beside `.git`, under names that git itself writes or reads."""
    found = []
    for name in list_directory(handle)[2]:
        text = link_text(handle, name)
        why = (
            f"git would write through this link, to {os.fsdecode(text)!r}"
            if text
            else "git would wait for it"
        )
        found.append(Hazard(name, why, text or identity_of(handle, name)))
    return found
