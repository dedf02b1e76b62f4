"""NotedRun: lets the user's other processes see a run while it lasts (`corral top`)."""

from __future__ import annotations

import os

from corral.host.real import open_runs_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from corral.cli.request import Request
    from corral.cli.run import EventLines
    from corral.live_runs.live_run import LiveRun
    from corral.model.event import Event
    from corral.model.network.traffic import NetEvent
    from corral.model.plan import Command
    from corral.model.result import Result
    from corral.pipeline.planned_run import PlannedRun
    from corral.sandbox import Sandbox


def facts_of(sandbox: Sandbox, backend: str, options: Mapping[str, Any]) -> dict[str, str]:
    """What others are told of a run besides its command."""
    return {
        "backend": backend,
        "policy": sandbox.policy.name,
        "workspace": sandbox.workspace,
        "agent": options["agent"] or "",
        "net": sandbox.policy.net.mode.value,
    }


class NotedRun:
    """One run, seen from when its command has begun.

    Nobody waits for that: what it takes is imported and written while the command runs already.
    """

    def __init__(self, request: Request, prepared: Command, options: Mapping[str, Any]) -> None:
        self._place = open_runs_directory()
        self._request, self._prepared, self._options = request, prepared, options
        self._live: LiveRun | None = None
        self.planned: PlannedRun | None = None
        self.lines: EventLines | None = None  # who else hears of events

    def begin(self) -> None:
        if self._place < 0 or self._live is not None or self.planned is None:
            return
        from corral.live_runs.live_run import LiveRun

        self._live, self._place = LiveRun(self._place), -1
        facts = facts_of(self._request.sandbox, self.planned.backend, self._options)
        self._live.begin(self.planned.run_id, self._prepared.argv, **facts)

    def note_started(self) -> None:
        self.begin()
        if self._live is not None:
            self._live.note_started()

    def note_event(self, event: Event) -> None:
        if self._live is not None:
            self._live.note_event(event)
        if self.lines is not None:
            self.lines(event)

    def note_network(self, event: NetEvent) -> None:
        if self._live is not None:
            self._live.note_network(event)

    def end(self, result: Result) -> None:
        if self._live is not None:
            self._live.end(result.exit_status, result.describe())

    def close(self) -> None:
        if self._live is not None:
            self._live.close()
        elif self._place >= 0:
            os.close(self._place)
