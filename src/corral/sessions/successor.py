"""Successor: a kept sandbox is made for a session, or made anew when it does not fit the host any more.

What the session had goes along: its private areas, where the backend can hand them on, and its network, with
what was permitted and counted there.
"""

from __future__ import annotations

import os
from functools import partial
from typing import cast

from corral.model.errors import RESET, SetupError
from corral.model.plan import Command
from corral.pipeline.networked_launch import Opening
from corral.pipeline.planned_run import quarantine_for
from corral.protected_names.session_guard import SessionGuard
from corral.runtime.launcher.server import SandboxServer
from corral.runtime.scratch import copies_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.event import Event
    from corral.model.violation import Violation
    from corral.network.sandbox_network import GatewayNetwork
    from corral.pipeline.networked_launch import NetworkedLaunch
    from corral.sandbox import Sandbox

    Standing = tuple[SandboxServer, SessionGuard | None]

#: Failures of a start that no private area can be the reason for.
_NOT_THE_AREAS = frozenset({"path-changed", "exec", "streams", "scratch", "copies"})


class Handover:
    """What a successor gets. It is held until there is one, however often that fails."""

    def __init__(self) -> None:
        self.areas = -1  # the private areas, by `SandboxServer.take_areas`
        self.private: tuple[str, ...] = ()  # where they are
        self.network: GatewayNetwork | None = None
        self.backend = ""  # that the network is for
        self.untold: tuple[Violation, ...] = ()
        self._notes: list[str] = []

    def take(self, kept: SandboxServer, *, ended: int) -> None:
        """Take it from a sandbox that is about to be closed, with so much that still runs in it."""
        self.areas, self.private = kept.take_areas(), tuple(kept.plan.resolved.private)
        self.network, self.backend = cast("GatewayNetwork | None", kept.give_network()), kept.launch.backend
        if self.network is not None:
            self.network.detach()
        if ended:
            self._notes.append(f"what still ran in the background was ended ({ended})")

    def take_notes(self) -> tuple[str, ...]:
        """What the first result of the successor has to say."""
        notes, self._notes = tuple(self._notes), []
        return tuple(f"the host has changed, and the sandbox was recreated: {note}" for note in notes)

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

    def lose_network(self) -> None:
        """The successor has another network."""
        if self.network is not None:
            self.network.close()
            self.network = None
            self._notes.append("what was permitted on the network since it began is not any more")

    def drop(self) -> None:
        """There will be no successor."""
        self.lose_areas()
        self.lose_network()
        self.untold, self._notes = (), []


def _lost(private: tuple[str, ...]) -> str:
    return f"what commands had left in {', '.join(private)} was lost"


def make_server(sandbox: Sandbox, handover: Handover) -> Standing:
    """A kept sandbox that fits the host as it is now, with the handover of the one before it."""
    if sandbox.planner.renew_trial is not None:  # ORDER: the one before it has ended
        sandbox.planner.trial = sandbox.planner.renew_trial()
    try:
        return _planned_twice(sandbox, handover)
    except SetupError as problem:
        if handover.areas < 0 or problem.code in _NOT_THE_AREAS:
            raise
    # Commands had their say about what lies in the areas, and can make them unfit to mount upon or to enter.
    areas, private, handover.areas = handover.areas, handover.private, -1
    try:
        standing = _planned_twice(sandbox, handover)
    except BaseException:  # it is not for them that it fails
        handover.keep_areas(areas, private)
        raise
    os.close(areas)
    return standing


def _planned_twice(sandbox: Sandbox, handover: Handover) -> Standing:
    networked = _networked(sandbox, handover)
    try:
        return _made(sandbox, networked, handover)
    except SetupError as problem:
        had_areas = handover.areas >= 0 and problem.code not in _NOT_THE_AREAS  # which may be the reason
        if had_areas or not sandbox.planner.note_failure(problem, networked.launch):
            raise
    return _made(sandbox, _networked(sandbox, handover), handover)


def _networked(sandbox: Sandbox, handover: Handover) -> NetworkedLaunch:
    """The launch that fits the host now; what of the handover does not fit to it is given up."""
    opening = Opening(sandbox.network, handover.network, handover.backend)
    try:
        command = Command((), sandbox.workspace, keeps=True)
        explanation = sandbox.planner.explain(command, opening)
        networked = opening.finish(explanation)
    except BaseException:
        opening.abandon()
        raise
    is_same_backend = explanation.launch.backend == handover.backend
    is_same_place = tuple(explanation.plan.resolved.private) == handover.private
    if handover.areas < 0 or not is_same_backend or not is_same_place:
        handover.lose_areas()
    if not is_same_backend:
        handover.lose_network()
    return networked


def _made(sandbox: Sandbox, networked: NetworkedLaunch, handover: Handover) -> Standing:
    try:
        standing = _started(sandbox, networked, handover)
    except BaseException:
        if networked.network is not None:
            (networked.network.close if handover.network is None else networked.network.detach)()
        raise
    handover.areas, handover.private, handover.network, handover.untold = -1, (), None, ()
    return standing


def _started(sandbox: Sandbox, networked: NetworkedLaunch, handover: Handover) -> Standing:
    plan = networked.plan
    copies = copies_of(plan, networked.launch)
    network, areas = networked.network, handover.areas
    kept = SandboxServer(
        plan, networked.launch, within=sandbox.within, network=network, copies=copies, areas=areas
    )
    # ORDER: before the mounts are made, so that what they cover is held from then on. There is always
    # something to look for: a home may be made in any granted directory.
    find_uncovered = partial(sandbox.planner.newly_uncovered, plan.resolved)
    guard = SessionGuard(plan, quarantine_for(plan.run_id), copies, handover.untold, find_uncovered)
    try:
        kept.start()
    except BaseException:
        guard.close()
        if (back := kept.take_areas()) >= 0:
            # The launcher has used the others up, see mount_fs.c there; the first sandbox had none to lose.
            os.close(areas if areas >= 0 else back)
            handover.areas = back if areas >= 0 else -1
        raise
    if areas >= 0:
        os.close(areas)
    return kept, guard


def busy(stale: SetupError) -> SetupError:
    """The error of a command that finds an old sandbox which has to go on for a while."""
    return SetupError(
        "session-stale",
        stale.what,
        why=f"{stale.why}; another command still runs in it",
        fix=f"wait until it has ended: then the sandbox is recreated. Or end it: {RESET}",
    )


def quarantined(event: Event) -> SetupError:
    """The error of a command that comes after everything in the session was frozen."""
    return SetupError(
        "session-quarantined",
        "this session is frozen, and accepts no more commands",
        why=f"its policy has refusal:quarantine, and this was refused: {event.describe()}",
        fix=f"look at its files and processes, then end them: {RESET}",
    )
