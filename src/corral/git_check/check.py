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

from corral.git_check.around import hash_length_of
from corral.git_check.files import descend, in_the_way, make_whole, read_file, write_new
from corral.git_check.hazard import Hazard
from corral.git_check.look import NEVER_NS, Look
from corral.git_check.looked import taken_away_now, unchecked_before, unreadable
from corral.git_check.scope import CheckScope, scope_of
from corral.git_check.unchecked import Mark, find_abandoned, marked
from corral.git_check.work import MOST_MORE_STEPS, TooMuchWork
from corral.model.errors import SetupError
from corral.model.feature import Feature
from corral.model.violation import Evidence, Violation
from corral.untrusted_files.quarantine import Quarantine
from corral.untrusted_files.unchanged import TICK_NS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from corral.git_check.looked import Looked
    from corral.git_check.work import Work
    from corral.model.plan import Plan

#: Looks after the end, each but the last followed by removals: another command may work in the same place.
_ROUNDS = 4
#: As long as each finds more than it may look at, and takes that away.
_MOST_ROUNDS = 32
_BETWEEN_GLANCES_SECONDS = 0.01
#: Of one command; of more only the number is told.
_MOST_TOLD = 32


class RepositoryCheck:
    """Of one run, or of a session. INVARIANT: it changes nothing that was there at `begin`."""

    def __init__(
        self, scope: CheckScope, quarantine: str, memory: str = "", mark: Mark | None = None
    ) -> None:
        """`memory` is a directory of corral's own, to remember what was found in.

        `mark` stands from `begin` until all was checked.
        """
        self._scope = scope
        self._mark = mark or Mark("")
        self._look = Look(scope, self._tell, memory)
        self._has_failed = False
        self._looks_at = 0.0
        self.found_at_the_top = 0
        self.configured: tuple[str, ...] = ()  # what the host has put there since the look before
        self._own: dict[str, bytes] = {}
        self._heads: dict[str, bytes] = {}  # of git directories that are whole
        self._usual: dict[str, int] = {}  # the steps that what is the host's own takes, by part of the look
        self._usual_at: dict[str, int] = {}  # and by path
        self._quarantine = Quarantine(os.path.join(quarantine, "git") if quarantine else "")
        self._violations: list[Violation] = []
        self._untold = 0  # more of these

    def close(self) -> None:
        """Keep what was found for the next run; and the mark, if anything was not checked."""
        self._look.save()
        self._mark.close()

    def begin(self) -> None:
        """Nothing runs: what is here now is the host's own. Raises SetupError if it cannot be looked at."""
        look, own, looked_at = self._look, dict[str, bytes](), set[str]()
        heads: dict[str, bytes] = {}
        is_first, self.configured = look.since_ns == NEVER_NS, ()
        try:
            for looked in look.before():
                looked_at.add(looked.elsewhere)
                own.update(
                    (os.path.join(looked.path, hazard.place), hazard.content) for hazard in looked.hazards
                )
                if looked.is_whole:
                    heads[looked.path] = read_file(looked.handle, "HEAD") or b""
        except (OSError, ValueError) as problem:
            raise unreadable({"": problem}, ran=False) from problem
        if look.failures:
            raise unreadable(look.failures, ran=False)
        look.since_ns, look.pointers.may_open = time.time_ns() - TICK_NS, True
        if self._has_failed:
            return  # some of it may be what a command has left
        if not is_first:
            new = (path for path, content in own.items() if self._own.get(path) != content)
            self.configured = tuple(path for path in new if path.partition("/.git/")[0] in look.unplanned)
        self._own, self._heads = own, heads
        self._usual, self._usual_at = look.budget.by_part, look.budget.by_path
        look.elsewhere.begin(looked_at, look.since_ns)
        self._mark.set(self._scope.roots, self._to_store())

    def _to_store(self) -> tuple[Any, ...]:
        """How everything was before commands."""
        look = self._look
        begun = (look.since_ns, look.pointers.modes, look.objects, look.elsewhere.begun)
        values = tuple(getattr(self._scope, name) for name in CheckScope._fields)
        return values, begun, (self._own, self._heads, self._usual, self._usual_at)

    def resume(self, stored: tuple[Any, ...]) -> None:
        """Go on as the one that has stored this would have done."""
        look = self._look
        _, (look.since_ns, look.pointers.modes, look.objects, begun), own = stored
        self._own, self._heads, self._usual, self._usual_at = own
        look.pointers.may_open = True
        look.elsewhere.begin(begun, look.since_ns)

    def sweep(self, *, is_at_work: bool = False, is_over: bool = True) -> tuple[str, ...]:
        """Remove what is dangerous and new; returns the paths of what could not be removed.

        While another command is at work, a rebase that it has begun, with steps to run, is left to it.
        `is_over`: nothing runs any more. Raises SetupError for what could not be looked at.
        """
        self._look.left_out.clear()
        self._has_failed, rounds = True, 0  # until it has come to its end
        for number in range(_MOST_ROUNDS):
            found = tuple(self._remove_new(number, is_at_work=is_at_work))
            rounds += not self._look.heavy
            if not found or rounds == _ROUNDS:
                break
        found = tuple(dict.fromkeys((*found, *self._look.left_out)))
        if self._look.failures:
            left = tuple(filter(os.path.lexists, found))
            raise unreadable(self._look.failures, ran=True, left=left)
        self._has_failed = bool(found)
        if is_over and not found:
            self._mark.remove()
        return found

    def acquit(self) -> None:
        """Nothing has run since `begin`."""
        if not self._has_failed:
            self._mark.remove()

    def is_made_at_the_top(self) -> bool:
        """Whether there is a repository where there was none."""
        return any(os.path.lexists(f"{top}/.git") for top in self._scope.tops)

    def glance(self) -> None:
        """While commands run: such a repository is what a prompt of the user's would look at, if it can."""
        now = time.monotonic()
        if now < self._looks_at or not self.is_made_at_the_top():
            return
        self._looks_at = now + _BETWEEN_GLANCES_SECONDS
        with contextlib.suppress(OSError):  # it changes meanwhile; the sweep looks again
            looked = self._look.at(self._scope.tops, self._usual, MOST_MORE_STEPS)
            self.found_at_the_top += len(list(self._remove_from_all(looked, is_at_work=True)))
            self.found_at_the_top += len(list(self._lighten(self._look.heavy)))

    def take_violations(self) -> tuple[Violation, ...]:
        """What was found since the last time."""
        taken, self._violations = self._violations, []
        if self._untold:
            why = f"{self._untold} more findings of this kind were treated the same way"
            taken.append(Violation(Feature.FS_PROTECT, "git directories", Evidence.OBSERVED, why))
        self._untold = 0
        return tuple(taken)

    def _remove_new(self, number: int, *, is_at_work: bool) -> Iterator[str]:
        """One round. What has failed in it, and is the command's own, goes as a whole."""
        look = self._look
        try:
            looked = look.afterwards(self._usual, MOST_MORE_STEPS)
            yield from self._remove_from_all(looked, is_at_work=is_at_work)
        except (OSError, ValueError) as problem:  # of the search: no part of it
            look.failures[", ".join(self._scope.roots)] = problem
        yield from self._lighten(look.heavy)
        for path, failure in [*look.failures.items()]:
            if number or not isinstance(failure, TooMuchWork):
                yield from self._remove_whole(path, failure)

    def _remove_from_all(self, every: Iterable[Looked], *, is_at_work: bool) -> Iterator[str]:
        for looked in every:
            try:
                yield from self._remove_from(looked, is_at_work=is_at_work)
                if looked.is_whole is False and looked.path in self._heads:
                    self._make_whole(looked)
                    why = "git would have worked in a repository further up; it was made whole"
                    self._tell(looked.path, why)
                    yield looked.path
            except (OSError, ValueError) as problem:  # the others are seen to all the same
                self._look.failures[self._look.part] = problem

    def _make_whole(self, looked: Looked) -> None:
        for name in in_the_way(looked.handle):
            self._remove(looked.handle, f"{looked.path}/{name}", Hazard(name, "git has something else there"))
        make_whole(looked.handle, self._heads[looked.path])

    def _lighten(self, heavy: list[Work]) -> Iterator[str]:
        """Looks have taken more steps than they may: what took most of them is too large to be looked at.

        A directory that was there before has the host's own in it as well. It stays, and is left out of the
        next look, which sees the rest; the sweep returns it.
        """
        look = self._look
        for path in dict.fromkeys(path for work in heavy for path in work.heaviest(self._usual_at)):
            above, name = os.path.split(path)
            is_hosts = look.elsewhere.is_unknown(path) and look.elsewhere.is_hosts("", above, name)
            is_hosts |= path in self._usual_at and os.path.isdir(path)
            if path in self._scope.above or is_hosts:
                look.left_out.add(path)
            else:
                self._remove_path(path, "it is too large to be looked at")
            yield path

    def _remove_whole(self, worktree: str, problem: Exception) -> Iterator[str]:
        """A repository that cannot be judged, where there was none before: git finds none there any more."""
        elsewhere = self._look.elsewhere
        if {worktree, f"{worktree}/.git"} & {*self._usual, *self._heads}:
            return  # and is told
        if elsewhere.is_hosts(worktree, worktree, ".git"):
            return
        names = [".git"] if os.path.lexists(f"{worktree}/.git") else ["HEAD"]
        for path in (f"{worktree}/{name}" for name in names):
            if os.path.lexists(path) and not self._scope.is_shielded(path):
                self._remove_path(path, f"it could not be looked at: {problem}")
                yield path

    def _remove_path(self, path: str, why: str) -> None:
        above, name = os.path.split(path)
        with contextlib.suppress(OSError):  # the next look fails again, and is told
            handle = self._look.pointers.open(above)
            if handle >= 0:
                try:
                    self._remove(handle, path, Hazard(name, why))
                finally:
                    os.close(handle)

    def _remove_from(self, looked: Looked, *, is_at_work: bool) -> Iterator[str]:
        elsewhere = self._look.elsewhere
        for hazard in looked.hazards:
            path = f"{looked.path}/{hazard.place}"
            if self._scope.is_shielded(path):
                continue
            if looked.elsewhere and elsewhere.is_hosts(looked.elsewhere, looked.path, hazard.place):
                continue
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
        parent = descend(handle, above) if path not in self._scope.above else -1
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
        else:
            self._untold += 1


def open_check(plan: Plan, quarantine: str, memory: str = "") -> RepositoryCheck:
    """The check of a plan, begun. Raises SetupError if something cannot be looked at.

    What an earlier run has left unchecked is checked first. If any of it had to be removed, the plan was
    made of what is there no more.
    """
    scope = scope_of(plan)
    marks = os.path.join(os.path.dirname(memory), "unchecked") if memory else ""
    for mark, stored in find_abandoned(marks, scope.roots):
        _finish(mark, stored, quarantine)
    check = RepositoryCheck(scope, quarantine, memory, Mark(marks))
    check.begin()
    return check


def begin_for_others(scope: CheckScope) -> tuple[bytes, dict[str, bytes]] | None:
    """What a mark holds where nothing of the host's own has to be known apart: the entry program goes by it.

    Also the HEADs of the git directories. None if there is anything that a later check would have to spare,
    or that the entry program does not know.
    """
    check = RepositoryCheck(scope, "")
    try:
        check.begin()
    except SetupError:
        return None
    is_plain = not check._own and not check._look.elsewhere.begun - {""} and not check._look.unplanned
    is_known = is_plain and all(map(_has_sha1, check._heads))
    state = check._to_store()
    return (marked(scope.roots, state), dict(check._heads)) if is_known else None


def _has_sha1(git: str) -> bool:
    """The entry program knows no other index: with longer names git would find other entries in it."""
    handle = os.open(git, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return hash_length_of(handle, git) == 20
    finally:
        os.close(handle)


def resume_check(scope: CheckScope, quarantine: str, mark: Mark) -> RepositoryCheck:
    """Go on with the check of a run that the entry program has begun. Raises SetupError."""
    stored = mark.read()
    if stored is None:
        raise unchecked_before(mark.path, "what was there before it cannot be read")
    check = RepositoryCheck(scope, quarantine, mark=mark)
    check.resume(stored)
    return check


def _finish(mark: Mark, stored: tuple[Any, ...], quarantine: str) -> None:
    scope = CheckScope(*stored[0])
    scope = scope.replace(roots=tuple(filter(os.path.isdir, scope.roots)))
    check = RepositoryCheck(scope, quarantine, mark=mark)
    check.resume(stored)
    path = mark.path
    try:
        left = check.sweep()
    except SetupError as problem:
        raise unchecked_before(path, problem.why) from problem
    if left:
        raise unchecked_before(path, f"these could not be removed: {', '.join(left)}")
    found = check.take_violations()
    if found:
        raise taken_away_now(found)
