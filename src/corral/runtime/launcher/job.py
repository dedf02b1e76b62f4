"""Job: one command of a kept sandbox, from its request to its result."""

from __future__ import annotations

import os
import select
import signal
import time

from corral.limits.group import Span
from corral.model.errors import SetupError
from corral.model.feature import Feature
from corral.model.policy import Response
from corral.model.violation import Evidence, Violation
from corral.runtime.network_hooks import listening
from corral.runtime.outcome import measure
from corral.runtime.status import Status
from corral.runtime.supervision import BACKSTOP_SECONDS, Supervision
from corral.streams.doors import Doors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.event import Event
    from corral.model.plan import Plan
    from corral.model.result import Result
    from corral.protected_names.session_guard import SessionGuard
    from corral.runtime.launcher.server import JobPipes, SandboxServer
    from corral.streams.streams import InheritedStreams

    #: A sandbox, who watches over it, the command as it is told to it, and what there is to say.
    Target = tuple[SandboxServer, SessionGuard | None, bytes, tuple[str, ...]]


class Job(Supervision):
    """One command of a sandbox that is kept."""

    _guard: SessionGuard | None

    def __init__(
        self,
        kept: SandboxServer,
        spec: bytes,
        streams: InheritedStreams,
        *,
        wall_seconds: float | None = None,
        guard: SessionGuard | None = None,
        leave: Callable[[JobPipes], None] | None = None,
        succeed: Callable[[Job, SetupError], Target] | None = None,
        isolate: Callable[[Event], bool] | None = None,
        is_background: bool = False,
        notes: tuple[str, ...] = (),
        argv: tuple[str, ...] = (),
        directory: str = "",
        quarantine: str = "",
    ) -> None:
        """`leave` takes the pipes of a command that has ended and left something running; else that ends.

        `succeed` is called when the sandbox does not fit the host any more, and says where to go instead.
        `isolate` freezes the whole sandbox, with this command, and says whether that went well; else the
        command is frozen, written down and ended. `is_background`: nobody waits for it.
        """
        super().__init__(Status(), wall_seconds=wall_seconds)
        self._guard = guard
        self._response = kept.plan.policy.response
        self._isolating, self._quarantine = isolate, quarantine
        self._is_frozen = False  # with its sandbox: nobody waits for it any more
        self._news = -1  # tells the loop of that
        self._succeed = succeed
        self.is_background = is_background
        self._notes = notes  # what the result has to say besides
        self.argv, self.run_id = argv, os.urandom(8).hex()
        self._directory = directory
        self._kept = kept
        self._spec = spec
        self._streams = streams
        self._leave = leave
        self._ends: JobPipes | None = None
        self.is_requested = False  # the sandbox was told of it: from then on nobody can say that it never ran
        self._give_up_at: float | None = None

    def send(self, number: int) -> None:
        """Pass a signal on to the command; one that comes before the start waits for it."""
        with self._lock:
            if self._ends is not None:
                self._ends.signal(number)
            else:
                self._early.append(number)

    def kill(self) -> None:
        """End the command and everything that it has started."""
        with self._lock:
            self._is_unwanted = True
            if self._ends is not None:
                self._ends.cut()

    def _inferred_from(self) -> Plan:
        plan = self._kept.plan
        return plan.replace(command=plan.command.replace(cwd=self._directory)) if self._directory else plan

    def stop_waiting(self) -> None:
        """Its sandbox is frozen: it will not end by itself."""
        with self._lock:
            self._blocked = self._is_frozen = True
            if self._news >= 0:
                os.eventfd_write(self._news, 1)

    def _isolate(self, event: Event) -> None:
        if self._isolating is not None and self._isolating(event):
            return
        if self._isolating is None:
            from corral.runtime.launcher.freeze import isolate

            note = isolate(self._kept.inner, event, self._quarantine)
        else:
            note = "the sandbox could not be frozen, so the command was ended"
        self._notes += (note,)
        self.kill()

    def run(self) -> Result:
        """Do it. Raises SetupError if the command could not be started."""
        with self._streams as streams:
            self._mark = mark = self._begin(streams)
            began = time.monotonic()
            group = self._kept.group
            span = Span(group) if group is not None else None
            self._network_mark = self._kept.network.mark() if self._kept.network is not None else 0
            with listening(self._kept.network, self._reporter.hear):
                try:
                    self._request(streams)
                    self._loop(streams, began)
                finally:
                    planted = self._settle(streams, mark)
                seconds = time.monotonic() - began
            # ORDER: by now everything that was refused has been heard and counted.
            result = self._tell(streams, span, planted, seconds)
            streams.flush(self._is_enough)  # ORDER: last; whoever reads slowly keeps nothing else waiting
            return result

    @property
    def kept(self) -> SandboxServer:
        """The sandbox that it runs in."""
        return self._kept

    def _begin(self, streams: InheritedStreams) -> int:
        """ORDER: right before it is requested: what is protected is looked at for this command."""
        if self._guard is None:
            return 0
        is_attended = not self.is_background
        try:
            return self._guard.begin(is_attended=is_attended)
        except SetupError as stale:
            if stale.code != "session-stale" or self._succeed is None:
                raise
            self._kept, self._guard, self._spec, notes = self._succeed(self, stale)
            self._notes += notes
            # What the caller gave was looked at before: a file that is protected since needs another way in.
            if Doors(self._kept.plan, self._kept.launch).among(streams.child_ends()):
                raise
        return self._guard.begin(is_attended=is_attended) if self._guard is not None else 0

    def _take_loss(self) -> tuple[Violation, ...]:
        """What there is to say if the job ended without a word: its sandbox is gone, the command too."""
        status = self._status
        if status.failure is not None:
            error = status.error()
            assert error is not None
            raise error
        if status.exit_code is not None or status.signal is not None:
            return ()
        if self._is_frozen:
            status.signal = signal.SIGSTOP.value
            return ()
        status.signal = signal.SIGKILL.value
        if self._is_unwanted:
            return ()
        self._kept.lose()
        self._blocked = not self._kept.status.exceeded
        status.exceeded = self._kept.status.exceeded
        return (Violation(Feature.PROC_CONTAINED, "the command", Evidence.OBSERVED, self._kept.gone().why),)

    def _request(self, streams: InheritedStreams) -> None:
        ends = self._kept.request(self._spec, streams.child_ends())
        self.is_requested = True
        with self._lock:
            self._ends = ends
            for number in self._early:
                ends.signal(number)
            if self._is_unwanted:
                ends.cut()
        streams.close_child_ends()

    def _settle(self, streams: InheritedStreams, mark: int) -> tuple[Violation, ...]:
        """INVARIANT: whatever interrupted it, nothing of the command runs on that was not to be kept."""
        with self._lock:
            ends, self._ends = self._ends, None
        if ends is not None:
            is_left = self._status.has_left and not self._is_unwanted and not self._blocked
            if self._leave is not None and (is_left or self._is_frozen):
                self._leave(ends)
            else:
                self._finish(ends)
            streams.drain()
            self._over_output |= streams.is_over_limit
        if self._guard is None:
            return ()
        return self._guard.end(mark, is_attended=not self.is_background)

    def _finish(self, ends: JobPipes) -> None:
        """Cut it off and wait until the job, and all that it watched over, is gone."""
        if self._status.usage is not None and not self._status.has_left:
            ends.release()
            return
        ends.cut()
        # TRUST: where no domain keeps signals inside, a command can stop its own job.
        if not self._await_end(ends, self._give_up_at or time.monotonic() + BACKSTOP_SECONDS):
            self._kept.abandon()
            self._await_end(ends, time.monotonic() + BACKSTOP_SECONDS)
        ends.close()

    def _await_end(self, ends: JobPipes, deadline: float) -> bool:
        poller = select.poll()
        poller.register(ends.status, select.POLLIN)
        while self._status.read(ends.status):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            poller.poll(left * 1000)
        return True

    def _loop(self, streams: InheritedStreams, began: float) -> None:
        """Until the job has told all there is to say."""
        assert self._ends is not None
        poller = select.poll()
        poller.register(self._ends.status, select.POLLIN)
        if self._isolating is None or self._response is not Response.QUARANTINE:
            self._supervise(poller, streams, began)
            return
        with self._lock:
            self._news = os.eventfd(1 if self._is_frozen else 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            poller.register(self._news, select.POLLIN)
            self._supervise(poller, streams, began)
        finally:
            with self._lock:
                news, self._news = self._news, -1
            os.close(news)

    def _hear(self, descriptor: int, poller: select.poll) -> bool | None:
        if descriptor == self._news:
            return False
        if self._ends is None or descriptor != self._ends.status:
            return None
        goes_on = self._status.read(descriptor)
        self._tell_refused()
        if (fresh := self._status.take_said()) and self._reporter.is_heard:
            self._infer(fresh)
        return goes_on and not self._status.is_told

    def _is_hopeless(self) -> bool:
        """Whether the job was told to end the command, long ago, and has not."""
        if not self._is_unwanted:
            return False
        if self._give_up_at is None:
            self._give_up_at = time.monotonic() + BACKSTOP_SECONDS
        return time.monotonic() >= self._give_up_at

    def _refused(self) -> tuple[Violation, ...]:
        """Connections that were refused meanwhile, to this command or to another one beside it."""
        self._count_refused()
        network = self._kept.network
        return network.violations(self._network_mark) if network is not None else ()

    def _tell(
        self, streams: InheritedStreams, span: Span | None, planted: tuple[Violation, ...], seconds: float
    ) -> Result:
        lost = self._take_loss()
        return self._result(
            self._inferred_from(),
            self._kept.launch,
            streams,
            counted=span,
            usage=measure(self._status, None, seconds, self._kept.plan.resolved.limits.memory_bytes),
            found=(*planted, *lost, *self._refused()),
            enforcement=self._kept.enforcement,
            run_id=self.run_id,
            notes=self._notes,
        )
