"""A directory after a look at it: a git directory, or one beside which git writes and reads files."""

from __future__ import annotations

import os

from corral.git_check.files import has_entry, identity_of, link_text, read_file
from corral.git_check.hazard import Hazard
from corral.model.errors import SetupError
from corral.untrusted_files.unchanged import list_directory

_WAIT = "git would wait for it: it is not a file"
_EXCERPT = 60
#: `git push origin`, where no remote has that name, takes it for a path, and follows what is there.
REMOTES = tuple(f"{name}{end}" for name in ("origin", "upstream") for end in ("", ".git"))
_MOST_POINTER_BYTES = 1 << 14
_MOST_NAMED = 5

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from corral.model.violation import Violation


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
    for name in REMOTES:
        if not has_entry(handle, name):
            continue  # most have none of them
        text = link_text(handle, name) or (read_file(handle, name, _MOST_POINTER_BYTES) or b"")
        if link_text(handle, name) or text.startswith(b"gitdir:"):
            shown = os.fsdecode(text)[:_EXCERPT]
            found.append(Hazard(name, f"git would take it for a repository to push to: {shown!r}", text))
    return found


def unreadable(failures: Mapping[str, Exception], *, ran: bool, left: tuple[str, ...] = ()) -> SetupError:
    """Looks that failed, by what was not looked at; and what else could not be removed."""
    why = [f"{path}: {problem}".removeprefix(": ") for path, problem in failures.items()]
    more = f"; and {len(why) - _MOST_NAMED} others" if len(why) > _MOST_NAMED else ""
    others = f"; not removed: {', '.join(left[:_MOST_NAMED])}" if left else ""
    return SetupError(
        "guard",
        "a git directory could not be checked"
        + (", and what the command left there is there" if ran else ""),
        why=f"not looked at: {'; '.join(why[:_MOST_NAMED])}{more}{others}",
        fix="do not use git there before you have looked at it; the next run checks it first"
        if ran
        else "look at what is in it, which a command may have left; then make it readable for its owner",
        ran=ran,
    )


def unchecked_before(mark: str, why: str) -> SetupError:
    """An earlier run ended before its check did, and the check fails now as well."""
    return SetupError(
        "guard",
        "what an earlier command left for git has not been checked",
        why=why,
        fix=f"remove what it left there; if all of it is your own, remove {mark}",
    )


def taken_away_now(found: tuple[Violation, ...]) -> SetupError:
    """An earlier run ended before its check did; what it left was found now."""
    told = [f"{violation.subject} ({violation.detail})" for violation in found[:_MOST_NAMED]]
    more = f" and {len(found) - _MOST_NAMED} others" if len(found) > _MOST_NAMED else ""
    return SetupError(
        "guard",
        "what an earlier command left for git was not checked when it ended, and is removed now",
        why=f"found: {', '.join(told)}{more}",
        fix="look at quarantine if some of it was yours, and run it again",
    )
