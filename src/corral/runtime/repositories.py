"""After a command: no git that the host runs may run, or write, what the command chose.

Hooks and settings of the repositories that a plan knows are held by mounts and by the guard. This is about
the rest: what a command leaves elsewhere in a git directory, and repositories that it makes. Git directories
are looked at before, since what is there then is the host's own, and afterwards; what is new and dangerous
goes to quarantine.
"""

from __future__ import annotations

import contextlib
import os
import time

from corral.git.search import find_worktrees
from corral.model.errors import SetupError
from corral.model.feature import Feature
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.model.violation import Evidence, Violation
from corral.runtime.git_directory import GitDirectory, Hazard
from corral.runtime.git_files import (
    descend,
    has_entry,
    is_whole,
    link_text,
    make_whole,
    open_directory,
    read_file,
    write_new,
)
from corral.runtime.quarantine import Quarantine
from corral.runtime.unchanged import TICK_NS, Folders, Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.plan import Plan
    from corral.runtime.git_directory import IndexCache

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Looks after the end, each but the last followed by removals: another command may work in the same place.
_ROUNDS = 4
_POINTER = "gitdir:"
_BETWEEN_GLANCES_SECONDS = 0.01
_NEVER_NS = 1 << 63
#: Besides what is looked at, what a git directory is told by.
_WHOLE = ("HEAD", "objects", "refs")
#: Of one command: more would tell nothing new.
_MOST_TOLD = 32


class _Looked:
    """A directory that was looked at, and what is wrong in it."""

    __slots__ = ("gitlinks", "handle", "hazards", "is_whole", "path")

    def __init__(
        self,
        path: str,
        handle: int,
        hazards: list[Hazard],
        gitlinks: tuple[str, ...] = (),
        *,
        is_whole: bool = False,
    ) -> None:
        self.path = path
        self.handle = handle
        self.hazards = hazards
        self.gitlinks = gitlinks
        self.is_whole = is_whole


class RepositoryCheck:
    """Of one run, or of a session. INVARIANT: it changes nothing that was there at `begin`."""

    def __init__(self, plan: Plan, quarantine: str) -> None:
        self._roots = [
            grant.target.path
            for grant in plan.ground.grants
            if grant.access is FsAccess.WRITE and grant.target.kind is PathKind.DIRECTORY
        ]
        # Where there is no repository at the top of a root, a command may make one.
        self._tops = {
            f"{watch.directory}": f"{watch.directory}/.git" for watch in plan.watches if watch.is_repository
        }
        self._planned = frozenset(plan.worktrees) - self._tops.keys()
        self._looks_at = 0.0
        self.found_at_the_top = 0
        self._own: dict[str, bytes] = {}
        self._heads: dict[str, bytes] = {}  # of git directories that are whole
        self._indexes: dict[str, IndexCache] = {}
        self._folders = Folders()
        self._memories: dict[str, tuple[Memory, list[Hazard], tuple[str, ...], bool]] = {}
        self._began_ns = _NEVER_NS
        self._quarantine = Quarantine(os.path.join(quarantine, "git") if quarantine else "")
        self._violations: list[Violation] = []

    def begin(self) -> None:
        """Nothing runs: what is here now is the host's own. Raises SetupError if it cannot be looked at."""
        own: dict[str, bytes] = {}
        self._heads, self._began_ns = {}, _NEVER_NS
        try:
            for looked in self._look():
                own.update(
                    (os.path.join(looked.path, hazard.place), hazard.content) for hazard in looked.hazards
                )
                if looked.is_whole:
                    self._heads[looked.path] = read_file(looked.handle, "HEAD") or b""
        except OSError as problem:
            raise _unreadable(problem, ran=False) from problem
        self._own, self._began_ns = own, time.time_ns() - TICK_NS

    def sweep(self, *, is_at_work: bool = False) -> tuple[str, ...]:
        """Take away what is dangerous and new; returns the paths of what could not be taken away.

        While another command is at work, a rebase that it has begun, with steps to run, is left to it.
        """
        found: tuple[str, ...] = ()
        try:
            for _ in range(_ROUNDS):
                found = tuple(self._remove_new(is_at_work=is_at_work))
                if not found:
                    break
        except OSError as problem:
            raise _unreadable(problem, ran=True) from problem
        return found

    def is_made_at_the_top(self) -> bool:
        """Whether there is a repository where there was none."""
        return any(map(os.path.lexists, self._tops.values()))

    def glance(self) -> None:
        """While commands run: such a repository is what a prompt of the user's would look at, if it can."""
        now = time.monotonic()
        if now < self._looks_at or not self.is_made_at_the_top():
            return
        self._looks_at = now + _BETWEEN_GLANCES_SECONDS
        with contextlib.suppress(OSError):  # it changes meanwhile; the sweep looks again
            for top in self._tops:
                for looked in self._look_at(top):
                    self.found_at_the_top += len(list(self._remove_from(looked, is_at_work=True)))

    def take_violations(self) -> tuple[Violation, ...]:
        """What was found since the last time."""
        taken, self._violations = self._violations, []
        return tuple(taken)

    def _remove_new(self, *, is_at_work: bool) -> Iterator[str]:
        for looked in self._look():
            yield from self._remove_from(looked, is_at_work=is_at_work)
            if looked.path in self._heads and not looked.is_whole:
                make_whole(looked.handle, self._heads[looked.path])
                self._tell(looked.path, "git would have worked in a repository further up; it was made whole")
                yield looked.path

    def _remove_from(self, looked: _Looked, *, is_at_work: bool) -> Iterator[str]:
        for hazard in looked.hazards:
            path = f"{looked.path}/{hazard.place}"
            if not self._is_own(path, hazard) and not (is_at_work and hazard.is_unfinished):
                self._remove(looked.handle, path, hazard)
                yield path

    def _is_own(self, path: str, hazard: Hazard) -> bool:
        """Whether it was there before; or fewer steps of a rebase, with which a command has gone on."""
        own = self._own.get(path)
        if own is None or own == hazard.content:
            return own is not None
        return hazard.is_unfinished and {*hazard.content.split(b"\n")} <= {*own.split(b"\n")}

    def _remove(self, handle: int, path: str, hazard: Hazard) -> None:
        above, name = os.path.split(hazard.place)
        parent = descend(handle, above)
        if parent < 0:
            return  # gone by itself
        try:
            fate = self._quarantine.take(parent, name)
            if hazard.instead is not None:
                write_new(parent, name, hazard.instead)
                fate = f"its other settings were kept; {fate}"
            self._quarantine.clear()
        except OSError:
            return  # the next look finds it again, or finds it gone
        finally:
            os.close(parent)
        self._tell(path, f"{hazard.why}; {fate}")

    def _tell(self, path: str, why: str) -> None:
        if len(self._violations) < _MOST_TOLD:
            self._violations.append(Violation(Feature.FS_PROTECT, path, Evidence.OBSERVED, why))

    def _look(self) -> Iterator[_Looked]:
        """Every git directory of the plan, of what was made since, and of what git would visit from there."""
        queue, seen = [*self._planned, *self._tops], set()
        self._folders.begin()
        for root in self._roots:
            queue += find_worktrees(root, self._folders.subdirectories, self._folders.has_git)
        for worktree in queue:  # grows while it is gone through
            if worktree in seen:
                continue
            seen.add(worktree)
            for looked in self._look_at(worktree):
                yield looked
                queue += [os.path.join(worktree, gitlink) for gitlink in looked.gitlinks]

    def _look_at(self, worktree: str) -> Iterator[_Looked]:
        handle = self._open_worktree(worktree)
        if handle < 0:
            return
        try:
            if worktree in self._planned:
                yield from self._look_at_planned(worktree, handle)
            else:
                yield from self._look_at_made(worktree, handle)
        finally:
            os.close(handle)

    def _look_at_planned(self, worktree: str, handle: int) -> Iterator[_Looked]:
        """Its hooks and settings are held. Where `.git` is a file, that is held, and so is what it names."""
        yield _Looked(worktree, handle, list(_patches(handle)))
        git = open_directory(handle, ".git")
        if git >= 0:
            try:
                yield self._inspect(os.path.join(worktree, ".git"), git, is_held=True)
            finally:
                os.close(git)
        elif has_entry(handle, "HEAD") and has_entry(handle, "objects"):
            yield self._inspect(worktree, handle, is_held=True)

    def _look_at_made(self, worktree: str, handle: int) -> Iterator[_Looked]:
        """One that a command has made, or that lies where the planner does not look."""
        git = open_directory(handle, ".git")
        if git < 0:
            hazard, target = self._pointer(worktree, handle)
            yield _Looked(worktree, handle, [hazard] if hazard is not None else [])
            git, path = self._open_worktree(target) if target else -1, target
        else:
            path = os.path.join(worktree, ".git")
        if git >= 0:
            try:
                yield self._inspect(path, git, is_held=False)
            finally:
                os.close(git)

    def _inspect(self, path: str, handle: int, *, is_held: bool) -> _Looked:
        known = self._memories.get(path)
        if known is None or not known[0].holds():
            known = self._inspect_anew(path, handle, is_held=is_held)
        _, hazards, gitlinks, whole = known
        return _Looked(path, handle, hazards, gitlinks, is_whole=whole)

    def _inspect_anew(
        self, path: str, handle: int, *, is_held: bool
    ) -> tuple[Memory, list[Hazard], tuple[str, ...], bool]:
        looked_ns, indexes = time.time_ns(), self._indexes.setdefault(path, {})
        directory = GitDirectory(path, handle, self._is_inside, indexes, self._began_ns, is_held=is_held)
        hazards, whole = directory.hazards(), is_whole(handle)
        # Git looks for submodules in its worktree, which is not where a git directory lies that a file names.
        gitlinks = directory.gitlinks if path.endswith("/.git") else ()
        memory = Memory([f"{path}/{place}".rstrip("/") for place in (*directory.seen, *_WHOLE)], looked_ns)
        found = (memory, hazards, gitlinks, whole)
        if directory.depends_on_others:
            self._memories.pop(path, None)
        else:
            self._memories[path] = found
        return found

    def _pointer(self, worktree: str, handle: int) -> tuple[Hazard | None, str]:
        """A `.git` that is no directory: what is wrong with it, or the git directory that it names.

        A repository that the plan knows holds those of its own submodules and worktrees.
        """
        text = link_text(handle, ".git")
        if text:
            return Hazard(".git", f"git would follow this link, to {os.fsdecode(text)!r}", text), ""
        data = read_file(handle, ".git")
        if data is None:
            return (Hazard(".git", "it is not a file"), "") if has_entry(handle, ".git") else (None, "")
        word, _, named = os.fsdecode(data).strip().partition(":")
        target = os.path.normpath(os.path.join(worktree, named.strip()))
        if f"{word}:" == _POINTER and named and self._is_inside(target):
            held = (f"{known}/.git/{name}" for known in self._planned for name in ("modules", "worktrees"))
            return None, "" if any(_is_beneath(target, place) for place in held) else target
        return Hazard(".git", f"it would lead git to {named.strip()!r}", data), ""

    def _is_inside(self, path: str) -> bool:
        """Whether a path leads, without a link, to where commands write; it is looked at there."""
        return any(_is_beneath(path, root) for root in self._roots) and os.path.realpath(path) == path

    def _open_worktree(self, path: str) -> int:
        """A descriptor, reached without following a link; -1 if there is no such directory."""
        root = max((root for root in self._roots if _is_beneath(path, root)), key=len, default="")
        if not root:
            return -1
        handle = os.open(root, _DIRECTORY)
        try:
            return descend(handle, path[len(root) + 1 :])
        finally:
            os.close(handle)


def _patches(handle: int) -> Iterator[Hazard]:
    """Links under the names that `git format-patch` gives to files; its commits give the rest of the name."""
    with os.scandir(handle) as entries:
        names = [entry.name for entry in entries if entry.is_symlink()]
    for name in names:
        if name[:4].isdecimal() and name[4:5] == "-":
            text = link_text(handle, name)
            yield Hazard(
                name, f"git format-patch would write through this link, to {os.fsdecode(text)!r}", text
            )


def _unreadable(problem: OSError, *, ran: bool) -> SetupError:
    return SetupError(
        "guard",
        "a git directory could not be checked" + (" after the command" if ran else ""),
        why=str(problem),
        fix="look at it before you use git there" if ran else "make it readable for its owner",
        ran=ran,
    )


def _is_beneath(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}/")
