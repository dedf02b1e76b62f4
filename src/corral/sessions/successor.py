"""Successor: a kept sandbox is made for a session, or made anew when it does not fit the host any more.

What the session had goes along: its private areas, where the backend can hand them on, and its border, with
what was permitted and counted there.
"""

from __future__ import annotations

import os
from functools import partial
from typing import cast

from corral.attempt import quarantine_for
from corral.crossing import open_crossing
from corral.model.errors import SetupError
from corral.model.plan import Command
from corral.runtime.kept import Kept
from corral.runtime.lookout import Lookout
from corral.runtime.scratch import copies_of
from corral.runtime.status import RESET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.crossing import Crossing
    from corral.model.violation import Violation
    from corral.network.border import Border
    from corral.planner import Explanation
    from corral.sandbox import Sandbox

    Standing = tuple[Kept, Lookout | None]

#: Failures of a start that no private area can be the reason for.
_NOT_THE_AREAS = frozenset({"path-changed", "exec", "streams", "scratch", "copies"})


class Legacy:
    """What a successor gets. It is held until there is one, however often that fails."""

    def __init__(self) -> None:
        self.areas = -1  # the private areas, by `Kept.take_areas`
        self.private: tuple[str, ...] = ()  # where they are
        self.border: Border | None = None
        self.backend = ""  # that the border is for
        self.untold: tuple[Violation, ...] = ()
        self._notes: list[str] = []

    def take(self, kept: Kept, *, ended: int) -> None:
        """Take it from a sandbox that is about to be closed, with so much that still runs in it."""
        self.areas, self.private = kept.take_areas(), tuple(kept.plan.ground.private)
        self.border, self.backend = cast("Border | None", kept.give_border()), kept.launch.backend
        if self.border is not None:
            self.border.detach()
        if ended:
            self._notes.append(f"what still ran in the background was ended ({ended})")

    def take_notes(self) -> tuple[str, ...]:
        """What the first result of the successor has to say."""
        notes, self._notes = tuple(self._notes), []
        return tuple(f"the host has changed, and the sandbox was made anew: {note}" for note in notes)

    def lose_areas(self) -> None:
        """The successor begins with empty ones, and says so."""
        if self.areas >= 0:
            os.close(self.areas)
            self.areas = -1
        if self.private:
            self._notes.append(_lost(self.private))
            self.private = ()

    def keep_areas(self, areas: int, private: tuple[str, ...]) -> None:
        """There is no successor that begins with empty ones: they are not lost after all."""
        self.areas, self.private = areas, private
        self._notes = [note for note in self._notes if note != _lost(private)]

    def lose_border(self) -> None:
        """The successor has another network."""
        if self.border is not None:
            self.border.close()
            self.border = None
            self._notes.append("what was permitted on the network since it began is not any more")

    def drop(self) -> None:
        """There will be no successor."""
        self.lose_areas()
        self.lose_border()
        self.untold, self._notes = (), []


def _lost(private: tuple[str, ...]) -> str:
    return f"what commands had left in {', '.join(private)} was lost"


def make_kept(sandbox: Sandbox, legacy: Legacy) -> Standing:
    """A kept sandbox that fits the host as it is now, with the legacy of the one before it."""
    try:
        return _planned_twice(sandbox, legacy)
    except SetupError as problem:
        if legacy.areas < 0 or problem.code in _NOT_THE_AREAS:
            raise
    # Commands had their say about what lies in the areas, and can make them unfit to mount upon or to enter.
    areas, private, legacy.areas = legacy.areas, legacy.private, -1
    try:
        standing = _planned_twice(sandbox, legacy)
    except BaseException:  # it is not for them that it fails
        legacy.keep_areas(areas, private)
        raise
    os.close(areas)
    return standing


def _planned_twice(sandbox: Sandbox, legacy: Legacy) -> Standing:
    explanation = _explained(sandbox, legacy)
    try:
        return _made(sandbox, explanation, legacy)
    except SetupError as problem:
        had_areas = legacy.areas >= 0 and problem.code not in _NOT_THE_AREAS  # which may be the reason
        if had_areas or not sandbox.planner.note_failure(problem, explanation.launch):
            raise
    return _made(sandbox, _explained(sandbox, legacy), legacy)


def _explained(sandbox: Sandbox, legacy: Legacy) -> Explanation:
    """The launch that fits the host now; what of the legacy does not fit to it is given up."""
    explanation = sandbox.planner.explain(Command((), sandbox.workspace, keeps=True))
    is_same_backend = explanation.launch.backend == legacy.backend
    is_same_place = tuple(explanation.plan.ground.private) == legacy.private
    if legacy.areas < 0 or not is_same_backend or not is_same_place:
        legacy.lose_areas()
    if not is_same_backend:
        legacy.lose_border()
    return explanation


def _made(sandbox: Sandbox, explanation: Explanation, legacy: Legacy) -> Standing:
    crossing = open_crossing(explanation, sandbox.network, legacy.border)
    try:
        standing = _started(sandbox, crossing, legacy)
    except BaseException:
        if crossing.border is not None:
            (crossing.border.close if legacy.border is None else crossing.border.detach)()
        raise
    legacy.areas, legacy.private, legacy.border, legacy.untold = -1, (), None, ()
    return standing


def _started(sandbox: Sandbox, crossing: Crossing, legacy: Legacy) -> Standing:
    plan = crossing.plan
    copies = copies_of(plan, crossing.launch)
    border, areas = crossing.border, legacy.areas
    kept = Kept(plan, crossing.launch, within=sandbox.within, border=border, copies=copies, areas=areas)
    # ORDER: before the mounts are made, so that what they cover is held from then on. There is always
    # something to look for: a home may be made in any granted directory.
    find_uncovered = partial(sandbox.planner.newly_uncovered, plan.ground)
    lookout = Lookout(plan, quarantine_for(plan.run_id), copies, legacy.untold, find_uncovered)
    try:
        kept.start()
    except BaseException:
        lookout.close()
        if (back := kept.take_areas()) >= 0:
            # The launcher has used the others up, see mount_fs.c there; the first sandbox had none to lose.
            os.close(areas if areas >= 0 else back)
            legacy.areas = back if areas >= 0 else -1
        raise
    if areas >= 0:
        os.close(areas)
    return kept, lookout


def busy(stale: SetupError) -> SetupError:
    """The error of a command that finds an old sandbox which has to go on for a while."""
    return SetupError(
        "session-stale",
        stale.what,
        why=f"{stale.why}; another command still runs in it",
        fix=f"wait until it has ended: then the sandbox is made anew. Or end it: {RESET}",
    )
