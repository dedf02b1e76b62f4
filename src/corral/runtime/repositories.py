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

from corral.git.pointer import is_head
from corral.git.search import MOST_DIRECTORIES, find_worktrees
from corral.model.feature import Feature
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.model.violation import Evidence, Violation
from corral.runtime.git_around import Around
from corral.runtime.git_directory import GitDirectory
from corral.runtime.git_everywhere import Elsewhere
from corral.runtime.git_files import (
    descend,
    has_entry,
    is_git_directory,
    is_whole,
    make_whole,
    open_directory,
    read_file,
    write_new,
)
from corral.runtime.git_hazard import Hazard
from corral.runtime.git_hooks import WorktreeHooks
from corral.runtime.git_looked import Looked, remotes_in, traps_in, unreadable
from corral.runtime.git_pointers import Pointers
from corral.runtime.git_remembered import Memories, Remembered
from corral.runtime.git_tracked import links_among
from corral.runtime.git_work import MOST_MORE_STEPS, TooMuch, Work
from corral.runtime.holds import ancestors, held_git_directories
from corral.runtime.quarantine import Quarantine
from corral.runtime.unchanged import TICK_NS, Folders, memorise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.plan import Plan
    from corral.runtime.git_remembered import Found
    from corral.runtime.git_tracked import Tracked

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Looks after the end, each but the last followed by removals: another command may work in the same place.
_ROUNDS = 4
_EXCERPT = 80
_BETWEEN_GLANCES_SECONDS = 0.01
_NEVER_NS = 1 << 63
_FAILURES = (OSError, ValueError, RecursionError)
#: Besides what is looked at, what a git directory is told by.
_WHOLE = ("HEAD", "objects", "refs")
#: Of one command: more would tell nothing new.
_MOST_TOLD = 32


class RepositoryCheck:
    """Of one run, or of a session. INVARIANT: it changes nothing that was there at `begin`."""

    def __init__(self, plan: Plan, quarantine: str, memory: str = "") -> None:
        """`memory` is a directory of corral's own, to remember what was found in."""
        self._roots = [
            grant.target.path
            for grant in plan.ground.grants
            if grant.access is FsAccess.WRITE and grant.target.kind is PathKind.DIRECTORY
        ]
        # Where there is no repository at the top of a root, a command may make one.
        self._tops = {
            f"{watch.directory}": f"{watch.directory}/.git" for watch in plan.watches if watch.is_repository
        }
        self._planned = dict.fromkeys(sorted(plan.worktrees, key=lambda path: path.count("/")))
        self._pointers = Pointers(self._roots)
        self._held = held_git_directories(plan)
        self._shielded = frozenset(shield.target.path for shield in plan.shields)
        self._above = ancestors((*self._shielded, *(pin.path for pin in plan.pins)))
        self._hooks = WorktreeHooks(plan.hook_directories, self._planned, self._pointers)
        self._has_failed = False
        self._is_too_much = False  # for the search, which was told
        self._looks_at = 0.0
        self._failure: Exception | None = None  # of the look that is going on
        self.found_at_the_top = 0
        self._unplanned: set[str] = set()  # where the next plan will find a repository
        self.configured: tuple[str, ...] = ()  # what the host has put there since the look before
        self._own: dict[str, bytes] = {}
        self._heads: dict[str, bytes] = {}  # of git directories that are whole
        self._folders = Folders(self._pointers.open)
        self._elsewhere = Elsewhere(self._roots, self._folders, self._tell)
        self._memories = Memories()
        self._around = Around(self._roots, self._memories)
        self._remembered = Remembered(memory, (tuple(self._roots), tuple(plan.hook_directories)))
        self._resume()
        self._usual: dict[str, int] = {}  # the steps that what is the host's own takes
        self._left_out: set[str] = set()
        self._work = Work()  # of the look that is going on
        self._began_ns = _NEVER_NS
        self._quarantine = Quarantine(os.path.join(quarantine, "git") if quarantine else "")
        self._violations: list[Violation] = []

    def _resume(self) -> None:
        """Go on with what an earlier run has found."""
        stored = self._remembered.load()
        if stored is not None:
            self._folders.known, repositories = stored
            self._memories.resume(repositories)
            self._elsewhere.resume(path for path, (_, found) in self._folders.known.items() if found[1])

    def close(self) -> None:
        """Keep what was found for the next run."""
        if self._elsewhere.has_searched and (self._folders.is_changed or self._memories.is_changed):
            self._remembered.save(self._folders.known, self._memories.to_store())

    def begin(self) -> None:
        """Nothing runs: what is here now is the host's own. Raises SetupError if it cannot be looked at."""
        own: dict[str, bytes] = {}
        looked_at: set[str] = set()
        heads: dict[str, bytes] = {}
        is_first, self.configured = self._began_ns == _NEVER_NS, ()
        self._began_ns, self._is_too_much = _NEVER_NS, False
        self._work = Work()
        try:
            for looked in self._look():
                looked_at.add(looked.elsewhere)
                own.update(
                    (os.path.join(looked.path, hazard.place), hazard.content) for hazard in looked.hazards
                )
                if looked.is_whole:
                    heads[looked.path] = read_file(looked.handle, "HEAD") or b""
        except _FAILURES as problem:
            raise unreadable(problem, ran=False) from problem
        self._began_ns, self._pointers.may_open = time.time_ns() - TICK_NS, True
        if not self._has_failed:  # else some of it may be what a command has left
            if not is_first:
                new = (path for path, content in own.items() if self._own.get(path) != content)
                self.configured = tuple(
                    path for path in new if path.partition("/.git/")[0] in self._unplanned
                )
            self._own, self._heads, self._usual = own, heads, self._work.spent
            self._elsewhere.begin(looked_at, self._began_ns)

    def sweep(self, *, is_at_work: bool = False) -> tuple[str, ...]:
        """Take away what is dangerous and new; returns the paths of what could not be taken away.

        While another command is at work, a rebase that it has begun, with steps to run, is left to it.
        """
        found: tuple[str, ...] = ()
        self._left_out.clear()
        try:
            for _ in range(_ROUNDS):
                found = tuple(self._remove_new(is_at_work=is_at_work))
                if not found:
                    break
        except _FAILURES as problem:
            self._has_failed = True
            raise unreadable(problem, ran=True) from problem
        found = tuple(dict.fromkeys((*found, *self._left_out)))
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
            self.found_at_the_top += len(list(self._remove_at_the_top()))

    def _remove_at_the_top(self) -> Iterator[str]:
        self._work = self._bounded_work()
        try:
            for top in self._tops:
                for looked in self._look_at(top):
                    yield from self._remove_from(looked, is_at_work=True)
                    self._work.check()
        except TooMuch:
            yield self._remove_largest()

    def take_violations(self) -> tuple[Violation, ...]:
        """What was found since the last time."""
        taken, self._violations = self._violations, []
        return tuple(taken)

    def _bounded_work(self) -> Work:
        return Work(sum(self._usual.values()) + MOST_MORE_STEPS)

    def _remove_new(self, *, is_at_work: bool) -> Iterator[str]:
        self._work = self._bounded_work()
        try:
            for looked in self._look():
                yield from self._remove_from(looked, is_at_work=is_at_work)
                if looked.is_whole is False and looked.path in self._heads:
                    self._make_whole(looked)
                    why = "git would have worked in a repository further up; it was made whole"
                    self._tell(looked.path, why)
                    yield looked.path
                self._work.check()
        except TooMuch:
            yield self._remove_largest()

    def _make_whole(self, looked: Looked) -> None:
        head = self._heads[looked.path]
        if has_entry(looked.handle, "HEAD") and not is_head(read_file(looked.handle, "HEAD") or b""):
            self._remove(looked.handle, f"{looked.path}/HEAD", Hazard("HEAD", "it is no HEAD"))
        make_whole(looked.handle, head)

    def _remove_largest(self) -> str:
        """A look has taken more steps than it may: what took most of them is too large to be looked at.

        A directory that was there before has the host's own in it as well. It stays, and is left out of the
        next look, which sees the rest; the sweep returns it.
        """
        path = self._work.largest(self._usual)
        above, name = os.path.split(path)
        is_hosts = self._elsewhere.is_unknown(path) and self._elsewhere.is_hosts("", above, name)
        if path in self._above or is_hosts or (path in self._usual and os.path.isdir(path)):
            self._left_out.add(path)
            return path
        handle = self._pointers.open(above)
        if handle >= 0:
            try:
                self._remove(handle, path, Hazard(name, "it is too large to be looked at"))
            finally:
                os.close(handle)
        return path

    def _remove_from(self, looked: Looked, *, is_at_work: bool) -> Iterator[str]:
        for hazard in looked.hazards:
            path = f"{looked.path}/{hazard.place}"
            if self._is_shielded(path):
                continue
            if looked.elsewhere and self._elsewhere.is_hosts(looked.elsewhere, looked.path, hazard.place):
                continue
            if not self._is_own(path, hazard) and not (is_at_work and hazard.is_unfinished):
                self._remove(looked.handle, path, hazard)
                yield path

    def _is_shielded(self, path: str) -> bool:
        """Whether no command can have changed it, whatever it looks like from here.

        INVARIANT: nothing that the plan holds in its place is moved: the mount on it would go as well.
        """
        while path and path not in self._shielded and path not in self._held:
            path = path.rpartition("/")[0]
        return path in self._shielded

    def _is_own(self, path: str, hazard: Hazard) -> bool:
        """Whether it was there before; or fewer steps of a rebase, with which a command has gone on."""
        own = self._own.get(path)
        if own is None or own == hazard.content:
            return own is not None
        return hazard.is_unfinished and {*hazard.content.split(b"\n")} <= {*own.split(b"\n")}

    def _remove(self, handle: int, path: str, hazard: Hazard) -> None:
        above, name = os.path.split(hazard.place)
        parent = descend(handle, above) if path not in self._above else -1
        if parent < 0:
            return  # gone by itself; or it holds what the plan protects, and is told of as left
        try:
            fate = self._take(parent, name)
            if hazard.instead is not None:
                write_new(parent, name, hazard.instead)
                fate = f"its other settings were kept; {fate}"
            self._quarantine.clear()
        except OSError:
            return  # the next look finds it again, or finds it gone
        finally:
            os.close(parent)
        self._tell(path, f"{hazard.why}; {fate}")

    def _take(self, parent: int, name: str) -> str:
        try:
            return self._quarantine.take(parent, name)
        except PermissionError:  # a command may have taken its owner's rights away
            os.fchmod(parent, 0o700)
            return self._quarantine.take(parent, name)

    def _tell(self, path: str, why: str) -> None:
        if len(self._violations) < _MOST_TOLD:
            self._violations.append(Violation(Feature.FS_PROTECT, path, Evidence.OBSERVED, why))

    def _look(self) -> Iterator[Looked]:
        """Every git directory of the plan, of what was made since, and of what git would visit from there."""
        queue, seen = [*self._planned, *self._tops], set()
        is_afterwards = self._began_ns != _NEVER_NS
        self._folders.begin(may_open=is_afterwards)
        self._pointers.begin(may_open=is_afterwards)
        for root in self._roots:
            queue += find_worktrees(root, self._folders.subdirectories, self._folders.has_git, self._give_up)
        self._unplanned = {*queue} - {*self._planned}
        self._failure = self._folders.failure
        yield from self._look_for_traps()
        for part in self._around.tracked():
            yield from self._look_for_links(part)
        for worktree in queue:  # grows while it is gone through
            if worktree in seen:
                continue
            seen.add(worktree)
            try:
                for looked in self._look_at(worktree):
                    yield looked
                    # A link on the way to a submodule: some commands follow it.
                    queue += [path for link in looked.gitlinks for path in (link, os.path.realpath(link))]
            except _FAILURES as problem:  # the others are looked at all the same
                self._failure = self._failure or problem
        yield from self._look_elsewhere(seen, is_afterwards=is_afterwards)
        if self._failure is not None:
            raise self._failure

    def _look_elsewhere(self, seen: set[str], *, is_afterwards: bool) -> Iterator[Looked]:
        """ORDER: at last. Afterwards all directories have been asked for, as far as there is room."""
        for worktree in self._elsewhere.find(is_afterwards=is_afterwards):
            if worktree in seen:
                continue
            self._work.look_into(worktree)  # there may be very many
            try:
                for looked in self._look_at(worktree):
                    looked.elsewhere = worktree
                    yield looked
            except _FAILURES as problem:
                self._failure = self._failure or problem
        self._failure = self._failure or self._folders.failure
        if is_afterwards:
            self._folders.forget_others()

    def _give_up(self, directory: str) -> None:
        """The plan says so of what was there before; a command that makes as many is told of."""
        if self._began_ns == _NEVER_NS:
            self._is_too_much = True
        elif not self._is_too_much:
            self._is_too_much = True
            why = f"there are more than {MOST_DIRECTORIES} directories now"
            self._tell(directory, f"{why}: what was left for git in here, and further on, was not looked for")

    def _look_for_traps(self) -> Iterator[Looked]:
        """Beside worktrees: wherever `git format-patch` is typed, it writes there."""
        for path in self._folders.with_traps():
            handle = self._pointers.open(path)
            if handle >= 0:
                try:
                    yield Looked(path, handle, traps_in(handle))
                finally:
                    os.close(handle)

    def _look_at(self, worktree: str) -> Iterator[Looked]:
        handle = self._pointers.open(worktree)
        if handle < 0:
            return
        is_planned = worktree in self._planned and worktree not in self._tops
        try:
            yield Looked(worktree, handle, [*traps_in(handle), *remotes_in(handle)])
            yield from self._look_at_git(worktree, handle, is_planned=is_planned)
            if is_git_directory(handle) and not self._pointers.is_part(worktree):  # bare
                yield from self._inspect(worktree, handle, "")
            if not is_planned:
                yield Looked(worktree, handle, list(self._hooks.hazards(worktree, handle, self._work)))
        finally:
            os.close(handle)

    def _look_at_git(self, worktree: str, handle: int, *, is_planned: bool) -> Iterator[Looked]:
        """What `.git` is in a worktree; where the plan knows one it is held, whatever it is."""
        git = open_directory(handle, ".git", may_open=self._pointers.may_open)
        path = f"{worktree}/.git"
        if git < 0:
            data, path = self._pointers.read(worktree, handle, may_be_link=is_planned)
            if data and not is_planned and not self._pointers.is_agreed(worktree, path):
                shown = repr(data[:_EXCERPT].decode("utf-8", "replace"))
                yield Looked(
                    worktree, handle, [Hazard(".git", f"it would lead git elsewhere: {shown}", data)]
                )
            # What has been found to agree was looked at as a part of its repository. Elsewhere, what lies in
            # the worktree is found by the index, also when `.git` is gone: the user may add it to another.
            if path and not self._pointers.is_part(path):
                git = self._pointers.open(path)
        if git >= 0:
            try:
                yield from self._inspect(path, git, worktree)
            finally:
                os.close(git)

    def _inspect(self, path: str, handle: int, worktree: str) -> Iterator[Looked]:
        """INVARIANT: only a look before commands is remembered.

        A file that a process has mapped can be changed without a new time; but the first change by a process
        that began after the look has one.
        """
        found = self._memories.find((path, worktree, path in self._held))
        if found is None:
            found = self._inspect_anew(path, handle, worktree)
        elif self._began_ns == _NEVER_NS:
            self._work.add(found[-1])
        hazards, gitlinks, tracked, whole, _ = found
        yield Looked(path, handle, hazards, gitlinks, is_whole=whole)
        for part in tracked:
            yield from self._look_for_links(part)

    def _look_for_links(self, tracked: Tracked) -> Iterator[Looked]:
        """Anew each time, also where the index has not changed."""
        worktree = tracked[1]
        handle = self._pointers.open(worktree)
        if handle >= 0:
            try:
                found = links_among(tracked, handle, self._pointers, self._work)
                yield Looked(worktree, handle, list(found))
            finally:
                os.close(handle)

    def _inspect_anew(self, path: str, handle: int, worktree: str) -> Found:
        looked_ns, work = time.time_ns(), self._work.part()
        directory = GitDirectory(
            *(path, handle, worktree, self._pointers, self._began_ns),
            work=work,
            hooks=self._hooks,
            left_out=self._left_out,
            is_held=path in self._held,
        )
        key = (path, worktree, path in self._held)
        self._memories.forget(key)
        hazards = directory.hazards()
        self._work.add(work.spent)
        found = (hazards, directory.gitlinks, directory.tracked, is_whole(handle), work.spent)
        self._failure = self._failure or directory.failure
        if self._began_ns == _NEVER_NS and not directory.depends_on_others and directory.failure is None:
            places = (*directory.seen, *_WHOLE)
            memory = memorise([f"{path}/{place}".rstrip("/") for place in places], looked_ns)
            self._memories.keep(key, memory, found)
        return found
