"""LauncherGuard: the guard of a run whose launcher watches over the protected names itself.

The launcher's supervisor is told by the kernel, from before there is a command until everything has ended,
and also when corral is killed (`launcher/guard.c`). What is left to do here is to put its lines into words,
and what only corral does: repositories. If the supervisor itself was killed, the last look is made here.
"""

from __future__ import annotations

import os

from corral.model.feature import Feature
from corral.model.last_made import LastMade
from corral.model.violation import Evidence, Violation
from corral.protected_names.guard import Guard
from corral.protected_names.watched import NoRepositories, safe_quarantine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.git_check.check import RepositoryCheck
    from corral.linux.spec import Guarded, NameGuard
    from corral.model.plan import Plan, WatchedName

_GLANCE_AT_MADE_MS = 20
#: Below the quarantine, for what is found when the launcher can take nothing away any more.
_AFTERWARDS = "afterwards"
_GONE = "it was moved or removed during the run, so its protected names were no longer watched"
#: As long as a plan watches the same names: by directory, and as the launcher is told.
_GROUPS, _GUARDED = LastMade(), LastMade()


class LauncherGuard(Guard):
    """Of one run. INVARIANT: it watches over no name itself."""

    def __init__(
        self, plan: Plan, quarantine: str, repositories: RepositoryCheck | NoRepositories | None = None
    ) -> None:
        self._kept_at = safe_quarantine(plan, quarantine)
        super().__init__((), self._kept_at, repositories or NoRepositories())
        self._plan = plan
        self._groups = by_directory(plan)
        self._names = [watch for group in self._groups for watch in group]
        self._unremoved: list[str] = []
        self._is_swept = self._was_blocked = False

    @property
    def patience_ms(self) -> float | None:
        """The launcher's words wake whoever waits; nobody tells of changes inside a repository."""
        return _GLANCE_AT_MADE_MS if self._repositories.is_made_at_the_top() else None

    @property
    def has_ended_it(self) -> bool:
        return self._was_blocked

    def attend(self, mark: int = 0) -> bool:
        return super().attend(mark) or self._was_blocked

    def hear(self, lines: Iterable[str]) -> None:
        for line in lines:
            word, _, rest = line.partition(" ")
            number, _, fate = rest.partition(" ")
            if word == "swept":
                self._is_swept = True
            elif word == "blocked":
                self._was_blocked = True
            elif word == "gone" and _is_below(number, len(self._groups)):
                path = self._groups[int(number)][0].directory
                self._told.append(Violation(Feature.FS_PROTECT, path, Evidence.OBSERVED, _GONE))
            elif _is_below(number, len(self._names)):
                self._hear_of(word, self._names[int(number)], fate)

    def _hear_of(self, word: str, watch: WatchedName, fate: str) -> None:
        path = os.path.join(watch.directory, watch.name)
        if word == "unremoved":
            self._unremoved.append(path)
        elif word == "planted":
            kept = os.path.join(self._kept_at, f"{fate}-{watch.name}")
            end = f"it was moved to {kept}" if fate.isdigit() else "it was removed"
            detail = f"{watch.label} is protected and must not be made by the command; {end}"
            self.violations.append(Violation(Feature.FS_PROTECT, path, Evidence.OBSERVED, detail))

    def sweep(self, *, is_at_work: bool = False, is_over: bool = True) -> tuple[str, ...]:
        left = (*self._unremoved, *(() if self._is_swept else self._sweep_instead()))
        return left + super().sweep(is_at_work=is_at_work, is_over=is_over)

    def _sweep_instead(self) -> tuple[str, ...]:
        """The launcher has not: it was killed."""
        place = os.path.join(self._kept_at, _AFTERWARDS) if self._kept_at else ""
        try:
            guard = Guard(self._plan.watches, place)
        except OSError as problem:
            return (str(problem.filename or self._plan.resolved.workspace),)
        try:
            left = guard.sweep()
            self.violations += guard.violations
        finally:
            guard.close()
        return left


def _is_below(number: str, count: int) -> bool:
    return number.isascii() and number.isdigit() and len(number) < 10 and int(number) < count


def by_directory(plan: Plan) -> tuple[tuple[WatchedName, ...], ...]:
    """Watched names in the order in which the launcher gets them: directory by directory."""
    return _GROUPS.get((plan.watches,), lambda: _by_directory(plan))


def _by_directory(plan: Plan) -> tuple[tuple[WatchedName, ...], ...]:
    groups: dict[str, list[WatchedName]] = {}
    for watch in plan.watches:
        groups.setdefault(watch.directory, []).append(watch)
    return tuple(map(tuple, groups.values()))


def name_guard(plan: Plan, quarantine: str) -> NameGuard:
    """What the launcher is told of it."""
    from corral.linux.spec import NameGuard

    groups = by_directory(plan)
    place = _plain(safe_quarantine(plan, quarantine))
    return NameGuard(place, _GUARDED.get((groups,), lambda: _guarded(groups)))


def _guarded(groups: tuple[tuple[WatchedName, ...], ...]) -> tuple[Guarded, ...]:
    from corral.linux.spec import Guarded, NameFlag, ProtectedName

    return tuple(
        Guarded(
            group[0].directory,
            group[0].device,
            group[0].inode,
            tuple(
                ProtectedName(
                    watch.name,
                    NameFlag.REPOSITORY if watch.is_repository else NameFlag(0),
                    watch.link_text,
                    watch.label,
                )
                for watch in group
            ),
        )
        for group in groups
    )


def _plain(path: str) -> str:
    return "/" + os.path.abspath(path).strip("/") if path else ""
