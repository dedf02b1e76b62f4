"""ContinuedRun: a run that the entry program has begun, and that is Python's from the first thing to tell on.

The entry program has executed Python in its own place: the launcher's supervisor is a child of this process,
the caller's descriptors are its own. What was read so far comes along.
"""

from __future__ import annotations

import contextlib
import os
import select

from corral.limits.group import Group, GroupRecords
from corral.model.record import Record
from corral.model.result import GroupUsage
from corral.runtime.run import Run
from corral.runtime.starter import Process, Starter
from corral.runtime.status import Status
from corral.streams.callers_outputs import leads_past_corral
from corral.streams.continued import ContinuedStreams
from corral.streams.streams import InheritedStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.git_check.copies import ResumedCopies
    from corral.model.launch import Launch
    from corral.model.network.sandbox_network import Observer
    from corral.model.plan import Plan
    from corral.model.result import Result
    from corral.protected_names.guard import Guard
    from corral.streams.continued import ContinuedStream


class BegunRun(Record):
    """What the entry program hands over."""

    process: Process
    said: bytes  # by the supervisor, until now
    given: tuple[int, ...]  # sockets in the sandbox's network
    areas: int  # a descriptor of its private areas; -1 if there is none
    streams: tuple[ContinuedStream, ...]  # both, or none where the command has the caller's own
    mark: tuple[
        str, int
    ]  # the path and the locked descriptor of what says that repositories were not checked
    copies: int  # the locked directory of copies; -1
    originals: tuple[bytes, ...]  # of which they were made
    room: int | None = None  # how much more it may print


class ToldStatus(Status):
    """The launcher has made the control group, and tells at the end what that has counted."""

    is_out_of_memory = is_out_of_processes = False

    def _take(self, line: str) -> None:
        if self.usage is None:
            super()._take(line)
        elif line == "limit memory":
            self.is_out_of_memory = True
        elif line == "limit processes":
            self.is_out_of_processes = True
        else:
            super()._take(line)


class ToldGroup(Group):
    """A group that the launcher has made, and removes."""

    def __init__(self, status: ToldStatus) -> None:
        self._status = status

    def records(self, grace_ms: int) -> GroupRecords:
        return GroupRecords()

    def troubles(self) -> tuple[int, int]:
        return int(self._status.is_out_of_memory), int(self._status.is_out_of_processes)

    def usage(self) -> GroupUsage:
        return GroupUsage()

    def kill(self) -> None:
        """The launcher does."""

    def remove(self) -> None:
        """The launcher does."""


class _Started(Starter):
    """It is there already."""

    def __init__(self, launch: Launch, group: Group, process: Process) -> None:
        super().__init__(launch, group)
        self._process = process

    def start(self, stdio: tuple[int, int, int], *, is_unwanted: bool = False) -> Process:
        return self._process


class ContinuedRun(Run):
    """From the moment on when there is something to tell."""

    def __init__(
        self, plan: Plan, launch: Launch, begun: BegunRun, *, quarantine: str, observer: Observer | None
    ) -> None:
        super().__init__(plan, launch, quarantine=quarantine, observer=observer)
        self._begun = begun
        self._told = self._status = ToldStatus(is_socket=True)
        self._status.given = [*begun.given]
        self._status.areas = [begun.areas] if begun.areas >= 0 else []

    @property
    def planned(self) -> tuple[Plan, Launch]:
        """What is run."""
        return self._plan, self._launch

    def run(self) -> Result:
        """Watch over it until its end. Raises as `Run.run` does."""
        begun, reads_errors = self._begun, not self._plan.hears and not leads_past_corral()
        streams = InheritedStreams()
        if begun.streams:
            streams = ContinuedStreams(begun.streams, begun.room, reads_errors=reads_errors)
        with streams, self._resume_copies() or contextlib.nullcontext() as self._copies:
            self._group = ToldGroup(self._told)
            self._starter = _Started(self._launch, self._group, self._begun.process)
            try:
                result = self._tell(streams, self._run_guarded(streams))
            finally:
                if self._observer is not None:
                    self._observer.close()
            streams.flush(self._is_enough)
            return result

    @property
    def _is_awaited(self) -> bool:
        """The command runs already."""
        return False

    def _resume_copies(self) -> ResumedCopies | None:
        if self._begun.copies < 0:
            return None
        from corral.git_check.copies import ResumedCopies

        return ResumedCopies(self._plan, self._launch, self._begun.copies, self._begun.originals)

    def _open_guard(self) -> Guard | None:
        if not self._plan.watches and not self._plan.worktrees:
            return None
        from corral.protected_names.launcher_guard import LauncherGuard
        from corral.protected_names.session_guard import resume_repositories

        repositories = resume_repositories(self._plan, self._quarantine, *self._begun.mark)
        return LauncherGuard(self._plan, self._quarantine, repositories)

    def _loop(self, streams: InheritedStreams, began: float, process: Process) -> None:
        """ORDER: what was said before is heard before anything else happens."""
        self._ending = os.pidfd_open(process.pid)
        try:
            poller = select.poll()
            poller.register(self._ending, select.POLLIN)
            os.set_blocking(process.status, False)
            poller.register(process.status, select.POLLIN)
            self._status.feed(self._begun.said)
            self._hear(process.status, poller)
            self._supervise(poller, streams, began)
        finally:
            os.close(self._ending)
