"""SessionGuard: the guard of a kept sandbox, on duty for as long as anything runs in it.

What the host itself makes or replaces while nothing runs is the host's own business, but the mounts of a
kept sandbox were made before it: a protected file that has been replaced since is not protected inside any
more, nor is what a git configuration has named since. So everything that is protected is looked at before a
command starts, and so is what says what has to be. After a change nothing starts there: the session makes a
successor that fits the host.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from corral.model.errors import RESET, SetupError, path_changed
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.protected_names.guard import PATIENCE, Guard
from corral.protected_names.holds import CHANGED, Holds, covered
from corral.protected_names.pattern_trees import PatternTrees
from corral.protected_names.watched import NoRepositories, safe_quarantine
from corral.untrusted_files.stamps import Stamps, is_inside
from corral.untrusted_files.unchanged import is_local

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select
    from collections.abc import Callable, Sequence

    from corral.git_check.check import RepositoryCheck
    from corral.git_check.copies import Copies
    from corral.model.plan import Plan
    from corral.model.violation import Violation


class SessionGuard:
    """Shared by the commands of one sandbox, which may run at the same time, in several threads."""

    def __init__(
        self,
        plan: Plan,
        quarantine: str,
        copies: Copies | None = None,
        untold: tuple[Violation, ...] = (),
        find_uncovered: Callable[[], list[str]] = list,
    ) -> None:
        """`copies` are made here, and removed by `close`; `untold` is what a sandbox before it has left.

        `find_uncovered` tells what a plan that is made now would deny, and this one does not.
        """
        self._find_uncovered = find_uncovered
        self._plan = plan
        self._copies = copies
        self._refused = [*untold]  # settings, and what was found before, that are in no result yet
        self._quarantine = quarantine
        self._guard: Guard | None = None
        self._on_duty = 0
        self._commands = 0  # among these; what commands have left running is on duty as well
        self._attended = 0  # among these, those that somebody waits for
        self._is_retired = False
        self._unremoved: SetupError | None = None  # what the last command left, and could not be removed
        self._told = 0  # how much of what was found is in a result
        self._lock = allocate_lock()
        watched = {
            os.path.join(watch.directory, watch.name) for watch in plan.watches
        }  # the guard sees to these
        self._absent = tuple(
            target.path
            for target in plan.resolved.denied
            if target.kind is PathKind.MISSING and target.path not in watched
        )
        self._stamps = Stamps(plan)
        try:
            self._by_host = PatternTrees(plan.host_searches)
        except OSError as problem:
            raise path_changed(str(problem)) from problem
        self._holds = Holds(covered(plan))
        try:
            if copies is not None:
                copies.__enter__()
        except SetupError:
            self.close()
            raise

    def begin(self, *, is_attended: bool = True) -> int:
        """A command is about to start. Raises SetupError if the sandbox does not fit the host any more."""
        with self._lock:
            self._look()
            self._on_duty += 1
            self._commands += 1
            self._attended += is_attended
            return self.mark()

    def check(self) -> None:
        """Corral itself is about to read or write inside, for a caller. Raises SetupError as `begin` does."""
        with self._lock:
            self._look()

    def _look(self) -> None:
        if self._is_retired:
            raise _stale([])
        changed = self._holds.changed()
        changed += self._stamps.changed(is_idle=self._on_duty == 0)
        changed += filter(os.path.lexists, self._absent)
        changed += self._by_host.find_changes()
        changed += self._find_uncovered()
        if self._on_duty == 0:
            changed += self._resume()
            if not changed and self._copies is not None:
                self._take_settings(self._copies)  # the caller may have written a file meanwhile
                changed += self._copies.refresh()
        if changed:
            raise _stale(changed)

    def retire(self) -> bool:
        """Let no command start any more; False if somebody waits for one that still runs.

        Raises SetupError if a command has left what nobody could remove: a new plan would take it for the
        host's own.
        """
        with self._lock:
            if self._unremoved is not None:
                raise _unremoved(self._unremoved)
            self._is_retired = not self._attended
            return self._is_retired

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs that has to be watched."""
        return self._on_duty == 0

    def stay(self) -> None:
        """Something goes on that a command has left; `end` is called for it as well."""
        with self._lock:
            self._on_duty += 1

    def mark(self) -> int:
        """How much was found until now."""
        return len(self._guard.violations) if self._guard is not None else 0

    @property
    def violations(self) -> Sequence[Violation]:
        """All that was removed until now."""
        return self._guard.violations if self._guard is not None else ()

    def _resume(self) -> tuple[str, ...]:
        """Go on duty; returns the names that the host has made meanwhile."""
        plan = self._plan
        if (plan.watches or plan.worktrees or plan.searches) and self._guard is None:
            self._guard = open_guard(self._plan, self._quarantine)
            self._guard.trust_times(is_local)
        return self._guard.resume() if self._guard is not None else ()

    def end(self, mark: int, *, is_leftover: bool = False, is_attended: bool = True) -> tuple[Violation, ...]:
        """A command has ended; what was found since `mark`. Raises SetupError if it could not be removed.

        What a leftover did while no command ran is in no result yet: the next command's tells it.
        """
        guard = self._guard
        with self._lock:
            self._on_duty -= 1
            self._commands -= not is_leftover
            self._attended -= is_attended and not is_leftover
            refused = self._take_over(is_leftover=is_leftover)
            left = self._sweep(guard) if guard is not None else ()
            if self._on_duty == 0:
                self._stamps.settle()  # ORDER: after the sweep, which may write
            if guard is None:
                return refused
            found = tuple(guard.violations[min(mark, self._told) :])
            if not is_leftover:
                found += guard.take_findings()
                self._told = len(guard.violations)
        if left:
            raise left_behind(left)
        return (*found, *refused)

    def end_writing(self, mark: int) -> tuple[Violation, ...]:
        """As `end`, where corral itself has written. What may be a command's doing is told by a result."""
        found = self.end(mark)
        with self._lock:
            if not self._commands:
                return found
            self._refused += found
        return ()

    def _sweep(self, guard: Guard) -> tuple[str, ...]:
        try:
            left = guard.sweep(is_at_work=self._commands > 0, is_over=self._on_duty == 0)
        except SetupError as problem:
            self._unremoved = problem
            raise
        self._unremoved = left_behind(left) if left else None
        return left

    def _take_over(self, *, is_leftover: bool) -> tuple[Violation, ...]:
        """Settings that commands have changed in their copies; those that are refused, each told once."""
        if self._copies is not None:
            self._take_settings(self._copies)
        if is_leftover:
            return ()
        refused, self._refused = tuple(self._refused), []
        return refused

    def _take_settings(self, copies: Copies) -> None:
        self._refused += copies.take_over()
        self._stamps.renew(copies.written())

    def prepare(self, poller: select.poll) -> float | None:
        """Say what is to be waited for, and for how many milliseconds at most.

        INVARIANT: asked before every wait. The descriptor comes with whichever command is the first to run
        for long, and then nobody looks by himself any more.
        """
        guard = self._guard
        if guard is None:
            return None
        with self._lock:
            return guard.prepare(poller)

    @property
    def descriptor(self) -> int:
        """Where the kernel tells of changes; -1 as long as there is none."""
        return self._guard.descriptor if self._guard is not None else -1

    def react(self) -> None:
        """The descriptor is ready."""
        with self._lock:
            if self._guard is not None:
                self._guard.react()

    def attend(self, mark: int) -> bool:
        """Look, if it is time to; True if a command that began at `mark` has tried too often."""
        guard = self._guard
        if guard is None:
            return False
        with self._lock:
            if guard.patience_ms is not None:
                guard.glance()
            return len(guard.violations) - mark >= PATIENCE

    def close(self) -> tuple[Violation, ...]:
        """Give the descriptors back; returns what is in no result yet.

        Nothing runs any more; what was changed last is taken over.
        """
        with self._lock:
            if self._copies is not None:
                self._refused += self._copies.take_over()
                self._copies.__exit__(None, None, None)
            self._holds.close()
            if self._guard is not None:
                self._refused += (*self._guard.violations[self._told :], *self._guard.take_findings())
                if self._on_duty == 0:
                    self._guard.acquit()  # who was on duty at last, has looked at last
                self._guard.close()
                self._guard = None
            untold, self._refused = tuple(self._refused), []
            return untold


def _stale(changed: list[str]) -> SetupError:
    names = ", ".join(changed[:5]) + (f" and {len(changed) - 5} others" if len(changed) > 5 else "")
    return SetupError(
        "session-stale",
        "the kept sandbox does not protect what is there now",
        why=f"made, replaced or changed on the host since it began: {names or 'something protected'}",
        fix="run it again",
    )


def _unremoved(problem: SetupError) -> SetupError:
    return SetupError(
        "session-stale",
        "the kept sandbox cannot be recreated",
        why=f"{problem.what}: {problem.why}",
        fix=f"{problem.fix}; then {RESET}",
    )


def open_guard(plan: Plan, quarantine: str, *, by_launcher: bool = False) -> Guard:
    """The guard of a plan. Raises SetupError if the directories cannot be watched, or are others by now.

    `by_launcher`: the launcher watches over the names, and tells.
    """
    if by_launcher:
        from corral.protected_names.launcher_guard import LauncherGuard

        return LauncherGuard(plan, quarantine, _repositories(plan, quarantine))
    try:
        place = safe_quarantine(plan, quarantine)
        guard = Guard(plan.watches, place, _repositories(plan, quarantine), plan.searches)
    except OSError as problem:
        if problem.errno in CHANGED:
            raise path_changed(str(problem)) from problem
        raise SetupError(
            "guard",
            "the protected paths cannot be watched",
            why=str(problem),
            fix="make the directory readable, or raise the limit on open files",
        ) from problem
    return guard


def _repositories(plan: Plan, quarantine: str) -> RepositoryCheck | NoRepositories:
    if not plan.worktrees:
        return NoRepositories()
    from corral.git_check.check import open_check

    return open_check(plan, safe_quarantine(plan, quarantine), memory_of(plan, quarantine))


def resume_repositories(
    plan: Plan, quarantine: str, path: str, lock: int
) -> RepositoryCheck | NoRepositories:
    """The check of a run that the entry program has begun, by the mark that it has set. Raises SetupError."""
    if not plan.worktrees:
        return NoRepositories()
    from corral.git_check.check import resume_check
    from corral.git_check.scope import scope_of
    from corral.git_check.unchecked import Mark

    mark = Mark(os.path.dirname(path), path, lock)
    return resume_check(scope_of(plan), safe_quarantine(plan, quarantine), mark)


def memory_of(plan: Plan, quarantine: str) -> str:
    """Where to remember what was found; nowhere if a command could write or plant corral's directory."""
    state = os.path.dirname(os.path.dirname(quarantine))
    roots = {grant.target.path for grant in plan.resolved.grants if grant.access is FsAccess.WRITE}
    if not state or (is_inside(state, roots) and not is_inside(state, {s.target.path for s in plan.shields})):
        return ""
    return os.path.join(state, "searched")


def left_behind(paths: tuple[str, ...]) -> SetupError:
    """Something planted is there although everything has ended."""
    return SetupError(
        "guard",
        f"something protected was planted and could not be removed: {', '.join(paths)}",
        why="the command left it in a state that this user may not change",
        fix="remove it by hand before anything on the host reads it",
        ran=True,
    )
