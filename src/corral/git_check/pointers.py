"""Where git is led from one directory to another: by `.git` files, and by what git directories name.

A `.git` file may lead to the git directory of a linked worktree or of a submodule: to one that has been
looked at as a part of its repository, and that names this very worktree. Git itself writes nothing else there
inside a workspace, and readers could disagree on what it means. A link can lead each reader elsewhere, by
way of `/proc/self`: so nothing is believed that leads through one.
"""

from __future__ import annotations

import os

from corral.git_check.files import (
    descend,
    has_entry,
    has_no_link,
    link_text,
    names_of,
    read_file,
    reopen,
)
from corral.git_formats.pointer import read_pointer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Pointers:
    """Of one check, whose commands write beneath these roots."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._worktrees: dict[str, str] = {}  # of git directories inside others, as far as both agree
        self.may_open = False  # what its owner has no rights in: afterwards that is a command's doing
        self.modes: dict[str, int] = {}  # of the roots, before commands

    def begin(self, *, may_open: bool) -> None:
        """A new look: what the last one has found may have been removed."""
        self._worktrees.clear()
        self.may_open = may_open
        if may_open:
            for root in sorted(self._roots, key=len):
                reopen(root, self.modes.get(root, 0))
        else:
            self.modes = {root: os.stat(root).st_mode for root in self._roots}

    def agree(self, worktree: str, git_directory: str) -> bool:
        """Whether a worktree leads to the git directory that names it; then `.git` may stay there."""
        handle = self.open(worktree)
        if handle < 0:
            return False
        try:
            _, target = self.read(worktree, handle)
        finally:
            os.close(handle)
        if target == git_directory:
            self._worktrees[git_directory] = worktree
        return target == git_directory

    def is_agreed(self, worktree: str, git_directory: str) -> bool:
        """Whether the two have been found to agree."""
        return self._worktrees.get(git_directory) == worktree

    def is_part(self, path: str) -> bool:
        """Whether it is a git directory that was looked at with the one that it is in."""
        return path in self._worktrees

    def read(self, worktree: str, handle: int, *, may_be_link: bool = False) -> tuple[bytes, str]:
        """What a `.git` that is no directory holds, and where inside it leads; empty if there is none.

        TRUST: a link is followed only where the plan holds it, and so is the user's own.
        """
        text = link_text(handle, ".git")
        if text:
            return text, os.path.realpath(f"{worktree}/.git") if may_be_link else ""
        data = read_file(handle, ".git")
        if data is None:
            return (b"no file", "") if has_entry(handle, ".git") else (b"", "")
        target = os.path.join(worktree, read_pointer(data) or "\0")
        is_fine = names_of(handle, ".git") == 1 and self.lead_inside(target)
        return data or b"nothing", os.path.normpath(target) if is_fine else ""

    def lead_inside(self, path: str) -> bool:
        """Whether a path leads, without a link, to where commands write; it is looked at there.

        As it is written: `..` behind a link leads elsewhere than it seems.
        """
        if "\0" in path:
            return False
        plain = os.path.normpath(path)
        return any(is_beneath(plain, root) for root in self._roots) and has_no_link(path)

    def top_of(self, path: str) -> str:
        """The root that a path lies in, by its name; empty if there is none."""
        return max((root for root in self._roots if is_beneath(path, root)), key=len, default="")

    def open(self, path: str) -> int:
        """A descriptor, reached without following a link; -1 if there is no such directory inside."""
        root = self.top_of(path)
        if not root:
            return -1
        try:
            handle = os.open(root, _DIRECTORY)
        except FileNotFoundError:
            return -1
        try:
            return descend(handle, path[len(root) + 1 :], may_open=self.may_open)
        finally:
            os.close(handle)


def is_beneath(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}/")


def is_in_modules(place: str) -> bool:
    """Whether a place in a git directory is that of a submodule's."""
    return "/modules/" in f"/{place}"
