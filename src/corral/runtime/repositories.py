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

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Looks after the end, each but the last followed by removals: another command may work in the same place.
_ROUNDS = 4
_POINTER = "gitdir: "
_BETWEEN_GLANCES_SECONDS = 0.01
_NEVER_NS = 1 << 63
_FAILURES = (OSError, ValueError, RecursionError)
_NO_MEMORY = Memory([], 0)
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
        is_whole: bool | None = None,  # of a git directory
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
        self._planned = frozenset(plan.worktrees)
        self._hooks = plan.hook_directories
        self._has_failed = False
        self._looks_at = 0.0
        self.found_at_the_top = 0
        self._own: dict[str, bytes] = {}
        self._heads: dict[str, bytes] = {}  # of git directories that are whole
        self._folders = Folders()
        self._memories: dict[str, tuple[Memory, list[Hazard], tuple[str, ...], bool]] = {}
        self._began_ns = _NEVER_NS
        self._quarantine = Quarantine(os.path.join(quarantine, "git") if quarantine else "")
        self._violations: list[Violation] = []

    def begin(self) -> None:
        """Nothing runs: what is here now is the host's own. Raises SetupError if it cannot be looked at."""
        own: dict[str, bytes] = {}
        heads: dict[str, bytes] = {}
        self._began_ns = _NEVER_NS
        try:
            for looked in self._look():
                own.update(
                    (os.path.join(looked.path, hazard.place), hazard.content) for hazard in looked.hazards
                )
                if looked.is_whole:
                    heads[looked.path] = read_file(looked.handle, "HEAD") or b""
        except _FAILURES as problem:
            raise _unreadable(problem, ran=False) from problem
        self._began_ns = time.time_ns() - TICK_NS
        if not self._has_failed:  # else some of it may be what a command has left
            self._own, self._heads = own, heads

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
        except _FAILURES as problem:
            self._has_failed = True
            raise _unreadable(problem, ran=True) from problem
        self._has_failed = bool(found)
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
            if looked.is_whole is False and looked.path in self._heads:
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
                # A link on the way to a submodule: some commands follow it.
                queue += [path for link in looked.gitlinks for path in (link, os.path.realpath(link))]

    def _look_at(self, worktree: str) -> Iterator[_Looked]:
        handle = self._open_worktree(worktree)
        if handle < 0:
            return
        is_planned = worktree in self._planned and worktree not in self._tops
        try:
            yield _Looked(worktree, handle, list(_patches(handle)))
            yield from self._look_at_git(worktree, handle, is_planned=is_planned)
            if all(has_entry(handle, name) for name in _WHOLE):  # bare, or of a linked worktree
                yield self._inspect(worktree, handle, "", is_held=worktree in self._planned)
            if not is_planned:
                yield _Looked(worktree, handle, list(self._own_hooks(handle)))
        finally:
            os.close(handle)

    def _look_at_git(self, worktree: str, handle: int, *, is_planned: bool) -> Iterator[_Looked]:
        """What `.git` is in a worktree. Of one that is planned it is held, with its hooks and settings."""
        git, path, is_module = open_directory(handle, ".git"), f"{worktree}/.git", False
        if git < 0:
            hazard, path = self._pointer(worktree, handle)
            if hazard is not None and not is_planned:
                yield _Looked(worktree, handle, [hazard])
            git = self._open_worktree(path) if path and hazard is None else -1
            is_module = "/modules/" in path
        if git >= 0:
            try:
                yield self._inspect(path, git, worktree, is_held=is_planned, is_module=is_module)
            finally:
                os.close(git)

    def _own_hooks(self, handle: int) -> Iterator[Hazard]:
        """Hooks where the user's own configuration says that every worktree has them."""
        for place in self._hooks:
            directory = descend(handle, place)
            if directory >= 0:
                try:
                    for name in os.listdir(directory):
                        content = read_file(directory, name) or link_text(directory, name)
                        yield Hazard(
                            f"{place}/{name}", "git would run it, because of core.hooksPath", content
                        )
                finally:
                    os.close(directory)

    def _inspect(
        self, path: str, handle: int, worktree: str, *, is_held: bool, is_module: bool = False
    ) -> _Looked:
        """INVARIANT: only a look before commands is remembered.

        A file that a process has mapped can be changed without a new time; but the first change by a process
        that began after the look has one.
        """
        known = self._memories.get(path)
        if known is None or not known[0].holds():
            known = self._inspect_anew(path, handle, worktree, is_held=is_held, is_module=is_module)
        _, hazards, gitlinks, whole = known
        return _Looked(path, handle, hazards, gitlinks, is_whole=whole)

    def _inspect_anew(
        self, path: str, handle: int, worktree: str, *, is_held: bool, is_module: bool
    ) -> tuple[Memory, list[Hazard], tuple[str, ...], bool]:
        looked_ns = time.time_ns()
        directory = GitDirectory(
            *(path, handle, worktree, self._is_inside, self._began_ns), is_held=is_held, is_module=is_module
        )
        hazards, whole = directory.hazards(), is_whole(handle)
        self._memories.pop(path, None)
        memory = _NO_MEMORY
        if self._began_ns == _NEVER_NS and not directory.depends_on_others:
            places = (*directory.seen, *_WHOLE)
            memory = Memory([f"{path}/{place}".rstrip("/") for place in places], looked_ns)
            self._memories[path] = (memory, hazards, directory.gitlinks, whole)
        return memory, hazards, directory.gitlinks, whole

    def _pointer(self, worktree: str, handle: int) -> tuple[Hazard | None, str]:
        """A `.git` that is no directory: what is wrong with it, or the git directory to look at instead.

        That of a linked worktree is a part of its repository, and looked at with it.
        """
        text = link_text(handle, ".git")
        if text:
            return Hazard(".git", f"git would follow this link, to {os.fsdecode(text)!r}", text), ""
        data = read_file(handle, ".git")
        if data is None:
            return (Hazard(".git", "it is not a file"), "") if has_entry(handle, ".git") else (None, "")
        named = os.fsdecode(data).rstrip("\r\n")
        target = os.path.join(worktree, named.removeprefix(_POINTER))
        if not named.startswith(_POINTER) or not self._is_inside(target):
            return Hazard(".git", f"it would lead git to {named!r}", data), ""
        target = os.path.normpath(target)
        above, name = os.path.split(os.path.dirname(target))
        if name == "worktrees" and above.endswith("/.git"):
            return None, "" if os.path.dirname(above) in self._planned else above
        held = (f"{known}/.git/modules" for known in self._planned)
        return None, "" if any(_is_beneath(target, place) for place in held) else target

    def _is_inside(self, path: str) -> bool:
        """Whether a path leads, without a link, to where commands write; it is looked at there.

        `..` behind a link leads elsewhere than it seems: so the path is resolved as it is written.
        """
        plain = os.path.normpath(path)
        is_beneath = any(_is_beneath(plain, root) for root in self._roots)
        return "\0" not in path and is_beneath and os.path.realpath(path) == plain

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
        number = name.partition("-")[2] if name[:1] == "v" else name
        if number[:4].isdecimal() and number[4:5] == "-":
            text = link_text(handle, name)
            yield Hazard(
                name, f"git format-patch would write through this link, to {os.fsdecode(text)!r}", text
            )


def _unreadable(problem: Exception, *, ran: bool) -> SetupError:
    return SetupError(
        "guard",
        "a git directory could not be checked"
        + (", and what the command left there is there" if ran else ""),
        why=str(problem),
        fix="do not use git there before you have looked at it" if ran else "make it readable for its owner",
        ran=ran,
    )


def _is_beneath(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}/")
