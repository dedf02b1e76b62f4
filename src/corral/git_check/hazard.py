"""What must not be left for git, as one finding."""

from __future__ import annotations

import os

from corral.git_check.files import link_text
from corral.model.record import Record

_EXCERPT = 60
#: By such a link `git init` finds out whether there can be links; it removes it at once.
_PROBE, _PROBE_NAME = b"testing", 7


class Hazard(Record):
    """Something that must not be left. What the host itself had there, with the same content, may stay."""

    place: str  # inside the git directory
    why: str
    content: bytes = b""  # what makes it one: a file, the text of a link, steps of a list
    instead: bytes | None = None  # what may stay in its place
    is_unfinished: bool = False  # git itself would remove it at the end of what it is doing


def not_a_file(handle: int, place: str, name: str) -> Hazard:
    """Something that is neither a file nor a directory."""
    text = link_text(handle, name)
    if text:
        shown = os.fsdecode(text)[:_EXCERPT]
        is_probe = text == _PROBE and len(name) == _PROBE_NAME and name.startswith("t")
        return Hazard(place, f"git would follow this link, to {shown!r}", text, is_unfinished=is_probe)
    return Hazard(place, "git would wait for it: it is not a file")


def inner_repository(handle: int, place: str) -> Hazard:
    """A `.git` inside a git directory. No index leads there; but trees can, and some merges follow them."""
    status = os.stat(".git", dir_fd=handle, follow_symlinks=False)
    why = "git would take the directory for a submodule, if a commit says so"
    return Hazard(place, why, f"{status.st_dev} {status.st_ino}".encode())
