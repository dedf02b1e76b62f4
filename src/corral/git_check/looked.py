"""A directory after a look at it: a git directory, or one beside which git writes and reads files."""

from __future__ import annotations

import os

from corral.model.errors import SetupError
from corral.runtime.git_files import identity_of, link_text, read_file
from corral.runtime.git_hazard import Hazard
from corral.runtime.unchanged import list_directory

_WAIT = "git would wait for it: it is not a file"
_EXCERPT = 60
#: `git push origin`, where no remote has that name, takes it for a path, and follows what is there.
_REMOTES = tuple(f"{name}{end}" for name in ("origin", "upstream") for end in ("", ".git"))
_MOST_POINTER_BYTES = 1 << 14


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


def remotes_in(handle: int) -> list[Hazard]:
    """What stands at the top of a worktree under the name of a remote, and leads elsewhere."""
    found = []
    for name in _REMOTES:
        text = link_text(handle, name) or (read_file(handle, name, _MOST_POINTER_BYTES) or b"")
        if link_text(handle, name) or text.startswith(b"gitdir:"):
            shown = os.fsdecode(text)[:_EXCERPT]
            found.append(Hazard(name, f"git would take it for a repository to push to: {shown!r}", text))
    return found


def unreadable(problem: Exception, *, ran: bool) -> SetupError:
    """A look that failed."""
    return SetupError(
        "guard",
        "a git directory could not be checked"
        + (", and what the command left there is there" if ran else ""),
        why=str(problem),
        fix="do not use git there before you have looked at it"
        if ran
        else "look at what is in it, which a command may have left; then make it readable for its owner",
        ran=ran,
    )
