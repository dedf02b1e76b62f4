"""Look at every git directory of a scope, one after the other.

INVARIANT: whatever ends the look at one of them ends nothing else. What was not looked at is named.
"""

from __future__ import annotations

import os
import time

from corral.git_check.around import Around
from corral.git_check.directory import GitDirectory
from corral.git_check.everywhere import Elsewhere
from corral.git_check.files import is_git_directory, is_whole, open_directory
from corral.git_check.hazard import Hazard
from corral.git_check.hooks import WorktreeHooks
from corral.git_check.looked import Looked, remotes_in, traps_in
from corral.git_check.pointers import Pointers
from corral.git_check.remembered import Memories, Remembered
from corral.git_check.tracked import links_among
from corral.git_check.work import Budget, TooMuchWork, Work
from corral.git_formats.search import MOST_DIRECTORIES, find_worktrees
from corral.untrusted_files.unchanged import Folders, memorise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from corral.git_check.remembered import Found, Identity
    from corral.git_check.scope import CheckScope
    from corral.git_check.tracked import Tracked

_EXCERPT = 80
NEVER_NS = 1 << 63
#: Besides what is looked at, what a git directory is told by.
_WHOLE = ("HEAD", "objects", "refs")


class Look:
    """Of one check. `tell` is told what was left out, and why; `memory` is as for `RepositoryCheck`."""

    def __init__(self, scope: CheckScope, tell: Callable[[str, str], None], memory: str) -> None:
        self._scope, self._tell = scope, tell
        self.since_ns = NEVER_NS  # when commands began
        self.pointers = Pointers(scope.roots)
        self._hooks = WorktreeHooks(scope.hook_directories, scope.planned, self.pointers)
        self._folders = Folders(self.pointers.open)
        self.elsewhere = Elsewhere(scope.roots, self._folders, tell)
        self._memories = Memories()
        self._around = Around(scope.roots, self._memories)
        self._remembered = Remembered(memory, (scope.roots, scope.hook_directories))
        self._is_too_much = False  # for the search, which was told
        self.unplanned: set[str] = set()  # where the next plan will find a repository
        self.left_out: set[str] = set()
        self.objects: dict[str, Identity] = {}  # directories of objects, before commands
        self._begin({}, float("inf"))
        self._resume()

    def _begin(self, usual: dict[str, int], most_more: float) -> None:
        self.budget = Budget(usual, most_more)
        self.failures: dict[str, Exception] = {}  # by what was not looked at, or not to its end
        self.heavy: list[Work] = []  # of the parts that took too much
        self.part = ""  # which is going on
        self._failure: Exception | None = None  # in that one
        self._work = Work()

    def _resume(self) -> None:
        """Go on with what an earlier run has found."""
        stored = self._remembered.load()
        if stored is not None:
            self._folders.known, repositories = stored
            self._memories.resume(repositories)
            self.elsewhere.resume(path for path, (_, found) in self._folders.known.items() if found[1])

    def save(self) -> None:
        """Keep what was found for the next run."""
        if self.elsewhere.has_searched and (self._folders.is_changed or self._memories.is_changed):
            self._remembered.save(self._folders.known, self._memories.to_store())

    def before(self) -> Iterator[Looked]:
        """What is here now is the host's own."""
        self._begin({}, float("inf"))
        self.since_ns, self._is_too_much, self.objects = NEVER_NS, False, {}
        yield from self._everything()

    def afterwards(self, usual: dict[str, int], most_more: int) -> Iterator[Looked]:
        """What commands have left is in it as well; it may take what it took before, and so much more."""
        self._begin(usual, most_more)
        yield from self._everything()

    def at(self, tops: Iterable[str], usual: dict[str, int], most_more: int) -> Iterator[Looked]:
        """These alone, while commands run."""
        self._begin(usual, most_more)
        for top in tops:
            yield from self._part(top, self._look_at(top))

    def _part(self, name: str, looked: Iterator[Looked]) -> Iterator[Looked]:
        """With the steps that it may take. Whatever a command has left there ends this part alone."""
        self.part, self._failure = name, None
        try:
            self._work = self.budget.begin(name)
        except TooMuchWork as problem:
            self.failures[name] = problem
            return
        try:
            yield from looked
            self._work.check()
        except TooMuchWork as problem:
            self.heavy.append(self._work)
            self._failure = problem
        except Exception as problem:
            self._failure = problem
        if self._failure is not None:
            self.failures[name] = self._failure
        self.budget.end(name, self._work)

    def _everything(self) -> Iterator[Looked]:
        """Every git directory of the plan, of what was made since, and of what git would visit from there."""
        queue, seen = [*self._scope.planned, *self._scope.tops], set()
        is_afterwards = self.since_ns != NEVER_NS
        self.pointers.begin(may_open=is_afterwards)
        self._folders.begin(may_open=is_afterwards)
        for root in self._scope.roots:
            queue += find_worktrees(root, self._folders.subdirectories, self._folders.has_git, self._give_up)
        self.unplanned = {*queue} - {*self._scope.planned}
        for path in self._folders.with_traps():
            yield from self._part(path, self._look_for_traps(path))
        for around in self._around.places():
            yield from self._part(f"{around[2]}/index", self._look_around(around))
        for worktree in queue:  # grows while it is gone through
            if worktree in seen:
                continue
            seen.add(worktree)
            for looked in self._part(worktree, self._look_at(worktree)):
                yield looked
                # A link on the way to a submodule: some commands follow it.
                queue += [path for link in looked.gitlinks for path in (link, os.path.realpath(link))]
        yield from self._look_elsewhere(seen, is_afterwards=is_afterwards)

    def _look_elsewhere(self, seen: set[str], *, is_afterwards: bool) -> Iterator[Looked]:
        """ORDER: at last. Afterwards all directories have been asked for, as far as there is room."""
        for worktree in self.elsewhere.find(is_afterwards=is_afterwards):
            if worktree not in seen:
                for looked in self._part(worktree, self._look_into(worktree)):
                    looked.elsewhere = worktree
                    yield looked
        self.failures |= self._folders.failures
        if is_afterwards:
            self._folders.forget_others()

    def _look_into(self, worktree: str) -> Iterator[Looked]:
        self._work.look_into(worktree)  # there may be very many
        yield from self._look_at(worktree)

    def _give_up(self, directory: str) -> None:
        """The plan says so of what was there before; a command that makes as many is told of."""
        if self.since_ns == NEVER_NS:
            self._is_too_much = True
        elif not self._is_too_much:
            self._is_too_much = True
            why = f"there are more than {MOST_DIRECTORIES} directories now"
            self._tell(directory, f"{why}: what was left for git in here, and further on, was not looked for")

    def _look_for_traps(self, path: str) -> Iterator[Looked]:
        """Beside worktrees: wherever `git format-patch` is typed, it writes there."""
        handle = self.pointers.open(path)
        if handle >= 0:
            try:
                yield Looked(path, handle, traps_in(handle))
            finally:
                os.close(handle)

    def _look_around(self, around: tuple[str, str, str]) -> Iterator[Looked]:
        for part in self._around.tracked(around, self._work):
            yield from self._look_for_links(part)

    def _look_at(self, worktree: str) -> Iterator[Looked]:
        handle = self.pointers.open(worktree)
        if handle < 0:
            return
        is_planned = worktree in self._scope.planned and worktree not in self._scope.tops
        try:
            yield Looked(worktree, handle, [*traps_in(handle), *remotes_in(handle)])
            yield from self._look_at_git(worktree, handle, is_planned=is_planned)
            if is_git_directory(handle) and not self.pointers.is_part(worktree):  # bare
                yield from self._inspect(worktree, handle, "")
            if not is_planned:
                yield Looked(worktree, handle, list(self._hooks.hazards(worktree, handle, self._work)))
        finally:
            os.close(handle)

    def _look_at_git(self, worktree: str, handle: int, *, is_planned: bool) -> Iterator[Looked]:
        """What `.git` is in a worktree; where the plan knows one it is held, whatever it is."""
        git = open_directory(handle, ".git", may_open=self.pointers.may_open)
        path = f"{worktree}/.git"
        if git < 0:
            data, path = self.pointers.read(worktree, handle, may_be_link=is_planned)
            if data and not is_planned and not self.pointers.is_agreed(worktree, path):
                shown = repr(data[:_EXCERPT].decode("utf-8", "replace"))
                yield Looked(
                    worktree, handle, [Hazard(".git", f"it would lead git elsewhere: {shown}", data)]
                )
            # What has been found to agree was looked at as a part of its repository. Elsewhere, what lies in
            # the worktree is found by the index, also when `.git` is gone: the user may add it to another.
            if path and not self.pointers.is_part(path):
                git = self.pointers.open(path)
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
        found = self._memories.find((path, worktree, path in self._scope.held))
        if found is None:
            found = self._inspect_anew(path, handle, worktree)
        elif self.since_ns == NEVER_NS:
            self._work.add(found[-1])
        hazards, gitlinks, tracked, whole, objects, _ = found
        if self.since_ns == NEVER_NS:
            self.objects |= objects
        yield Looked(path, handle, hazards, gitlinks, is_whole=whole)
        for part in tracked:
            yield from self._look_for_links(part)

    def _look_for_links(self, tracked: Tracked) -> Iterator[Looked]:
        """Anew each time, also where the index has not changed."""
        worktree = tracked[1]
        handle = self.pointers.open(worktree)
        if handle >= 0:
            try:
                found = links_among(tracked, handle, self.pointers, self._work)
                yield Looked(worktree, handle, list(found))
            finally:
                os.close(handle)

    def _inspect_anew(self, path: str, handle: int, worktree: str) -> Found:
        looked_ns, work = time.time_ns(), self._work.part()
        is_first = self.since_ns == NEVER_NS
        directory = GitDirectory(
            *(path, handle, worktree, self.pointers, self.since_ns),
            work=work,
            hooks=self._hooks,
            left_out=self.left_out,
            objects=None if is_first else self.objects,
            is_held=path in self._scope.held,
        )
        key = (path, worktree, path in self._scope.held)
        self._memories.forget(key)
        hazards = directory.hazards()
        self._work.add(work.spent)
        whole = is_whole(handle)
        found = (hazards, directory.gitlinks, directory.tracked, whole, directory.objects, work.spent)
        self._failure = self._failure or directory.failure
        if is_first and not directory.depends_on_others and directory.failure is None:
            places = (*directory.seen, *_WHOLE)
            memory = memorise([f"{path}/{place}".rstrip("/") for place in places], looked_ns)
            self._memories.keep(key, memory, found)
        return found
