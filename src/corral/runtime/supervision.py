"""Supervision: one command from its start to its result.

A `Run` makes a sandbox for its command, a `Job` asks one that is kept. What follows is the same for both and
stands here once: the loop, signals that come before the command is there, what corral itself ends a command
for, and the result.
"""

from __future__ import annotations

import select
import time
from _thread import RLock

from corral.model.event import EventKind
from corral.model.feature import Feature
from corral.model.policy import Response
from corral.model.result import Result
from corral.model.violation import Evidence
from corral.runtime.outcome import ENDED_BY_ITSELF, Facts, decide_outcome
from corral.runtime.reporter import Reporter
from corral.runtime.starter import ENDING, GRACE_SECONDS, LONGEST_WAIT_MS
from corral.runtime.violations import OF_NETWORK, collect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.limits.group import Group, Span
    from corral.model.event import Event, Listener
    from corral.model.launch import Launch
    from corral.model.network.traffic import Traffic
    from corral.model.plan import Plan
    from corral.model.result import Enforcement, Usage
    from corral.model.violation import Violation
    from corral.protected_names.guard import Guard
    from corral.protected_names.session_guard import SessionGuard
    from corral.runtime.early_inference import EarlyInference
    from corral.runtime.launcher.refused_calls import RefusedCalls
    from corral.runtime.status import Status
    from corral.streams.streams import InheritedStreams

#: After the launcher's own limit, or a request to end it, before corral stops waiting for the launcher.
BACKSTOP_SECONDS = 10.0


class Supervision:
    """`kill` and `send` may be called from other threads and from signal handlers."""

    has_ended = False  # nothing of the command runs any more

    def __init__(self, status: Status, *, wall_seconds: float | None, keeps_time: bool = False) -> None:
        """`keeps_time`: nobody else does, so the command is ended here when its time is over."""
        self._status = status
        self._wall_seconds = wall_seconds
        self._grace_seconds = 0.0 if keeps_time else GRACE_SECONDS + BACKSTOP_SECONDS
        self._guard: Guard | SessionGuard | None = None
        self._mark = 0  # how much the guard had found when the command began
        self._early: list[int] = []  # signals that came before there was a command
        self._is_unwanted = False  # somebody wants it to end
        self._over_output = self._over_time = self._blocked = False
        self._response = Response.DENY  # what follows when something is refused
        self._reporter = Reporter(respond=self._answer)
        self._on_start: Callable[[], None] | None = None  # to be told once
        self._seen: list[Event] = []  # that are no violations
        self._words: EarlyInference | None = None  # of the command, on standard error
        self._reported = 0  # how much of what the guard has found
        self._calls: RefusedCalls | None = None  # that the filter has refused
        self._lock = RLock()  # again by the same thread: a signal handler may come in between

    @property
    def has_started(self) -> bool:
        """Whether the command itself ran."""
        return self._status.started

    def listen(self, listener: Listener | None, on_start: Callable[[], None] | None = None) -> None:
        """Tell somebody of events as they come, and that the command has begun. ORDER: before the run."""
        self._reporter = Reporter(listener, self._answer)
        self._on_start = on_start

    def _note_started(self) -> None:
        if self._on_start is not None and self._status.started:
            tell, self._on_start = self._on_start, None
            tell()

    def _answer(self, event: Event) -> None:
        """What the policy wants done about a refusal. Only what is observed counts: words end nobody."""
        is_refusal = event.kind in {EventKind.REFUSED, EventKind.TAKEN}
        ends = self._response in {Response.TERMINATE, Response.QUARANTINE}
        if not ends or not is_refusal or event.evidence is not Evidence.OBSERVED:
            return
        with self._lock:
            is_first, self._blocked = not self._blocked, True
        if is_first and self._is_running():
            if self._response is Response.QUARANTINE:
                self._isolate(event)
            else:
                self.kill()

    def _isolate(self, event: Event) -> None:
        """Freeze everything, keep what can be kept, and see that nothing goes on."""
        raise NotImplementedError

    def _is_running(self) -> bool:
        return True

    def kill(self) -> None:
        """End the command and everything that it has started."""
        raise NotImplementedError

    def _hear(self, descriptor: int, poller: select.poll) -> bool | None:
        """A descriptor is ready: whether to go on, if it is one that tells of the command; None otherwise."""
        raise NotImplementedError

    def _act(self, streams: InheritedStreams) -> None:
        """What else is due whenever the loop has been woken."""

    def _waits(self) -> tuple[float, ...]:
        """For how many milliseconds at most it may sleep, besides."""
        return ()

    def _supervise(self, poller: select.poll, streams: InheritedStreams, began: float) -> None:
        """Serve all descriptors until the command has ended, or nobody can be expected to say so."""
        streams.register(poller)
        if self._reporter.is_heard:
            streams.read_errors(self._infer)
        is_going_on = True
        while is_going_on:
            for descriptor, _ in poller.poll(self._patience_ms(began, poller)):
                heard = self._hear(descriptor, poller)
                if heard is False:
                    return
                if heard is None:
                    self._serve(descriptor, poller, streams)
            self._enforce(streams, began)
            self._act(streams)
            is_going_on = not self._is_hopeless()

    def _serve(self, descriptor: int, poller: select.poll, streams: InheritedStreams) -> None:
        if self._guard is not None and descriptor == self._guard.descriptor:
            self._guard.react()
        else:
            streams.carry(descriptor, poller)

    def _patience_ms(self, began: float, poller: select.poll) -> float:
        waits = [LONGEST_WAIT_MS, *self._waits()]
        if self._guard is not None and (patience := self._guard.prepare(poller)) is not None:
            waits.append(patience)
        if self._wall_seconds is not None and not self._over_time:
            waits.append((self._deadline(began) - time.monotonic()) * 1000)
        return max(0.0, min(waits))

    def _deadline(self, began: float) -> float:
        return began + (self._wall_seconds or 0.0) + self._grace_seconds

    def _enforce(self, streams: InheritedStreams, began: float) -> None:
        if self._guard is not None:
            if self._guard.attend(self._mark) and not self._blocked:
                self._blocked = True
                self.kill()
            self._report_planted(self._guard)
        if streams.is_over_limit and not self._over_output:
            self._over_output = True
            self.kill()
        is_late = self._wall_seconds is not None and time.monotonic() >= self._deadline(began)
        if is_late and not self._over_time:
            self._over_time = True
            self.kill()

    def _infer(self, piece: bytes, *, can_tell: bool = True) -> None:
        """Some of standard error, as it comes. What is only guessed never ends a command."""
        if self._words is None:
            from corral.runtime.early_inference import EarlyInference

            self._words = EarlyInference(self._inferred_from(), self._guess)
        self._words.take(piece, can_tell=can_tell)

    def _inferred_from(self) -> Plan:
        raise NotImplementedError

    def _guess(self, violation: Violation) -> None:
        # What asks for a host has heard of it already, and knows more.
        if violation.feature is not Feature.NET_NONE or not self._reporter.has_any(OF_NETWORK):
            self._reporter.hear(violation)

    def _report_planted(self, guard: Guard | SessionGuard) -> None:
        self._reported = max(self._mark, self._reported)
        for violation in guard.violations[self._reported :]:
            self._reported += 1
            self._reporter.hear(violation)

    def _tell_refused(self) -> None:
        """What the filter has refused, as soon as the launcher says so."""
        if self._status.refused or self._status.traced:
            from corral.runtime.launcher.refused_calls import RefusedCalls

            self._calls = self._calls or RefusedCalls(self._inferred_from(), self._status)
            for violation in self._calls.take_new():
                self._reporter.hear(violation)

    def _count_refused(self) -> None:
        """In the end: each as often as it came."""
        self._tell_refused()
        for again in () if self._calls is None else self._calls.repeated():
            self._reporter.hear(again)

    def _is_hopeless(self) -> bool:
        """Whether it was told to end, long ago, and has not."""
        return False

    def _is_enough(self, idle_seconds: float) -> bool:
        """Whether to stop waiting for a reader who does not take the last of the output."""
        stopped = self._is_unwanted or self._status.timed_out or bool(self._status.exceeded)
        return (stopped and idle_seconds >= GRACE_SECONDS) or not ENDING.isdisjoint(self._early)

    def _result(
        self,
        plan: Plan,
        launch: Launch,
        streams: InheritedStreams,
        *,
        counted: Group | Span | None,
        usage: Usage,
        found: tuple[Violation, ...],
        enforcement: Enforcement,
        run_id: str,
        network: Traffic | None = None,
        notes: tuple[str, ...] = (),
        handoff: tuple[str, ...] = (),
    ) -> Result:
        """What happened, when nothing of the command runs any more."""
        status, self.has_ended = self._status, True
        is_filtered = Feature.SYSCALLS in launch.enforced
        facts = Facts(status, counted, self._blocked, is_filtered, self._over_output, self._over_time)
        outcome = decide_outcome(facts)
        violations = collect(
            plan,
            outcome,
            found,
            streams.stderr or status.said,
            signal=status.signal,
            lost=status.lost,
            by_launcher=bool(status.exceeded),
            is_layer_full=status.is_layer_full,
        )
        events = self._reporter.settle((*violations, *self._seen))
        return Result(
            outcome=outcome,
            exit_code=status.exit_code if outcome in ENDED_BY_ITSELF else None,
            signal=status.signal,
            stdout_bytes=streams.stdout,
            stderr_bytes=streams.stderr,
            truncated=streams.is_truncated,
            stdout_size=streams.stdout_size,
            stderr_size=streams.stderr_size,
            duration_seconds=usage.wall_seconds,
            usage=usage,
            violations=violations,
            enforcement=enforcement,
            policy=plan.policy,
            run_id=run_id,
            network=network,
            notes=(*notes, *plan.notes, *self._reporter.notes()),
            events=events,
            handoff=handoff,
        )
