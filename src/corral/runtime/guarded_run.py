"""GuardedRun: the guard over protected names, from before a run until what its command left is swept."""

from __future__ import annotations

from corral.runtime.awaited import is_looked_at
from corral.runtime.supervision import Supervision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.model.plan import Plan
    from corral.protected_names.guard import Guard


class GuardedRun(Supervision):
    """What of a `Run` is about its guard."""

    _guard: Guard | None
    _plan: Plan
    _launch: Launch
    _quarantine: str  # where planted files go
    is_checking = False  # what a command left that has ended

    def _open_guard(self) -> Guard | None:
        if not is_looked_at(self._plan):
            return None
        from corral.protected_names.session_guard import open_guard

        return open_guard(self._plan, self._quarantine, by_launcher=self._is_guarded_by_launcher)

    @property
    def _is_guarded_by_launcher(self) -> bool:
        """Whether the launcher watches over names, on the host. INVARIANT: then nobody else does."""
        plan = self._plan
        return self._launch.guards_names and bool(plan.watches) and not plan.searches

    def _hear_guarded(self) -> None:
        """What the launcher has found at protected names."""
        lines, self._status.guarded = self._status.guarded, []
        if self._guard is not None and lines:
            self._guard.hear(lines)

    def _close_guard(self) -> None:
        """INVARIANT: whatever happened, nothing planted is left when the caller gets the answer."""
        if self._guard is None:
            return
        # Only a launcher that said so has surely run nothing; a silent one may have been killed later.
        nothing_ran = self._status.failure is not None
        self.is_checking = not nothing_ran
        self._hear_guarded()
        self._blocked |= self._guard.has_ended_it
        try:
            if nothing_ran:
                self._guard.acquit()
            left = () if nothing_ran else self._guard.sweep()
        finally:
            self.is_checking = False
            self._guard.close()
        if left:
            from corral.protected_names.session_guard import left_behind

            raise left_behind(left)
