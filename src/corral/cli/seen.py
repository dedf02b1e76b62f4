"""NotedRun: lets the user's other processes see a run while it lasts (`corral top`)."""

from __future__ import annotations

import os
from _thread import allocate_lock

from corral.host.real import open_runs_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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


#: What is kept of a command that is refused something before its run can be seen.
_MOST_EARLY = 1024


class NotedRun:
    """One run, seen from when its command has begun.

    Nobody waits for that: what it takes is imported and written while the command runs already. Other threads
    may have something to tell before that, which is told then.
    """

    def __init__(self, request: Request, prepared: Command, options: Mapping[str, Any]) -> None:
        self._place = open_runs_directory()
        self._request, self._prepared, self._options = request, prepared, options
        self._live: LiveRun | None = None
        self._early: list[Callable[[LiveRun], None]] = []
        self._lock = allocate_lock()  # one event at a time, in their order
        self.planned: PlannedRun | None = None
        self.lines: EventLines | None = None  # who else hears of events

    def begin(self) -> None:
        if self._place < 0 or self._live is not None or self.planned is None:
            return
        from corral.live_runs.live_run import LiveRun

        live = LiveRun(self._place)
        facts = facts_of(self._request.sandbox, self.planned.backend, self._options)
        live.begin(self.planned.run_id, self._prepared.argv, **facts)
        with self._lock:
            self._live, self._place = live, -1
            for write in self._early:
                write(live)
            self._early.clear()

    def note_started(self) -> None:
        self.begin()
        if self._live is not None:
            self._live.note_started()

    def note_event(self, event: Event) -> None:
        self._write(lambda live: live.note_event(event))
        if self.lines is not None:
            self.lines(event)

    def note_network(self, event: NetEvent) -> None:
        self._write(lambda live: live.note_network(event))

    def _write(self, write: Callable[[LiveRun], None]) -> None:
        with self._lock:
            if self._live is not None:
                write(self._live)
            elif self._place >= 0 and len(self._early) < _MOST_EARLY:
                self._early.append(write)

    def end(self, result: Result) -> None:
        if self._live is not None:
            self._live.end(result.exit_status, result.describe())

    def close(self) -> None:
        if self._live is not None:
            self._live.close()
        elif self._place >= 0:
            os.close(self._place)
