"""Run a launch: start it, carry its streams, watch over it, and say what happened."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from corral.model.errors import SetupError
from corral.model.policy import Response
from corral.runtime.awaited import START_WORD, complete, is_awaited
from corral.runtime.check import check
from corral.runtime.guarded_run import GuardedRun
from corral.runtime.handoff import find_handoff, stamp_handoff
from corral.runtime.network_hooks import close_network, connect_network, listening, settle_network
from corral.runtime.outcome import measure, promised
from corral.runtime.scratch import Scratch, copies_of
from corral.runtime.starter import ENDING, Abandoned, kill_group, make_starter, open_ending
from corral.runtime.status import Status
from corral.runtime.supervision import BACKSTOP_SECONDS
from corral.streams.doors import find_doors
from corral.streams.stdio import check_stdio, ensure_stdio
from corral.streams.streams import open_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.git_check.copies import Copies
    from corral.limits.group import Group
    from corral.limits.hierarchy import Hierarchy
    from corral.model.event import Event
    from corral.model.launch import Launch
    from corral.model.network.sandbox_network import Observer, SandboxNetwork
    from corral.model.plan import Plan
    from corral.model.result import Result
    from corral.model.violation import Violation
    from corral.runtime.handoff import Stamps
    from corral.runtime.monitor import Monitor
    from corral.runtime.starter import Process, Starter
    from corral.runtime.throttled import ObserverThrottle
    from corral.streams.destinations import Destinations
    from corral.streams.streams import InheritedStreams


class Run(GuardedRun):
    """One run from start to end, in a sandbox of its own."""

    def __init__(
        self,
        plan: Plan,
        launch: Launch,
        *,
        quarantine: str,
        output: Destinations | None = None,
        monitor: Monitor | None = None,
        within: Hierarchy | None = None,
        network: SandboxNetwork | None = None,
        observer: Observer | None = None,
    ) -> None:
        check(plan, launch)
        super().__init__(
            Status(is_socket=launch.gateway is not None),
            wall_seconds=plan.resolved.limits.wall_seconds,
            keeps_time=launch.spec is None,
        )
        self.backend = launch.backend
        self._plan, self._launch, self._quarantine = plan, launch, quarantine
        self._output = output
        self._monitor = monitor
        self._within = within
        self._network = network  # where connections go, if the launch has a gateway
        self._observer = observer  # where there is none: hears what was asked for
        self._response = plan.policy.response
        self._throttle: ObserverThrottle | None = None
        if observer is not None and self._response is Response.THROTTLE:
            from corral.runtime.throttled import ObserverThrottle

            self._throttle = ObserverThrottle(observer)
        self._notes: tuple[str, ...] = ()  # what the result has to say of the run itself
        self._process: Process | None = None
        self._stamps: Stamps = {}  # of what the host runs later
        self._ending = -1  # a descriptor that tells of its end
        self._group: Group | None = None
        self._copies: Copies | None = None
        self._starter: Starter | None = None
        self.say: Callable[[str], None] | None = None  # told at once what takes long
        self._sent: set[int] = set()  # signals that were passed on
        self._was_outer_ended = False  # by us
        self._heard = 0  # how many of the violations that the status pipe told of
        self._is_lost = False  # an outer program ended before its launcher
        self._outer_ends_by = float("inf")  # when an outer program whose launcher is gone is ended

    def run(self) -> Result:
        """Do it. Raises SetupError if the command could not be started; then nothing is left behind."""
        ensure_stdio()
        doors = find_doors(self._plan, self._launch)
        with (
            Scratch(self._launch),
            copies_of(self._plan, self._launch) or contextlib.nullcontext() as copies,
            open_streams(self._plan, self._output, doors) as streams,
        ):
            if copies is not None:
                self._copies, self._launch = copies, copies.launch
            self._group = self._make_group()
            guards = self._is_guarded_by_launcher
            self._launch = complete(self._plan, self._launch, self._quarantine, guards=guards)
            self._starter = make_starter(self._launch, self._group)
            self._starter.say = self.say
            try:
                # ORDER: whoever listens has heard of everything, and counted it, before there is a result.
                with listening(self._network, self._reporter.hear):
                    seconds = self._run_guarded(streams)
                result = self._tell(streams, seconds)
            finally:
                close_network(self._status, self._network)
                if self._observer is not None:
                    self._observer.close()
                if self._group is not None:
                    self._group.remove()
            streams.flush(self._is_enough)  # ORDER: last; whoever reads slowly keeps nothing else waiting
            return result

    def send(self, number: int) -> None:
        """Pass a signal on to the command; one that comes before the start waits for it."""
        process, starter = self._process, self._starter
        if process is not None and starter is not None:
            self._sent.add(number)
            starter.signal(process, number)
            return
        self._early.append(number)
        if number in ENDING and starter is not None:
            starter.abandon()

    def kill(self) -> None:
        """Take the whole tree down, also from another thread, also before it is there."""
        with self._lock:
            self._is_unwanted = True
            process = self._process
            if process is None:
                if self._starter is not None:
                    self._starter.abandon()
                return
            if self._group is not None:
                self._group.collect()
            if process.lifeline >= 0:
                # A byte, not only the end: a child that another thread forks holds a copy of the pipe.
                with contextlib.suppress(OSError):
                    os.write(process.lifeline, b"x")
                os.close(process.lifeline)
                self._process = process.replace(lifeline=-1)
                if self._starter is not None and self._launch.spec is not None:
                    self._starter.wake(process)
                if self._launch.outer is not None:
                    self._outer_ends_by = time.monotonic() + BACKSTOP_SECONDS
            elif process.status < 0:
                kill_group(process.pid)

    def _is_running(self) -> bool:
        return self._process is not None

    def _inferred_from(self) -> Plan:
        return self._plan

    def _make_group(self) -> Group | None:
        request = self._launch.group
        if request is None and self._within is None:
            return None
        from corral.limits.discover import make_wanted_group

        return make_wanted_group(request, self._plan.run_id, self._within, self.backend)

    def _run_guarded(self, streams: InheritedStreams) -> float:
        """Returns the seconds that it took."""
        began = time.monotonic()
        if not self._is_awaited:
            self._look_before()
        try:
            self._start_and_serve(streams, began)
            ended = time.monotonic()
        finally:
            self._close_guard()
        error = self._status.error() if self._launch.spec is not None else self._not_standing(streams)
        # Before it began; a signal that is passed on so early ends the launcher's own child.
        was_killed = (self._is_unwanted or self._status.signal in self._sent) and self._status.failure is None
        if error is not None and not was_killed:
            raise error
        self._check_not_lost()
        settle_network(self._status, self._network)
        return ended - began

    @property
    def _is_awaited(self) -> bool:
        """Whether the launcher waits for our word."""
        return is_awaited(self._plan, self._launch)

    def _look_before(self) -> None:
        """ORDER: before there is a command. What is in the workspace now is the host's own."""
        self._stamps = stamp_handoff(self._plan.resolved.workspace)
        self._guard = self._open_guard()

    def _let_start(self) -> None:
        """INVARIANT: the launcher has not started the command before this."""
        with self._lock, contextlib.suppress(BrokenPipeError):  # it has failed, and says why
            if self._process is not None and self._process.lifeline >= 0:
                os.write(self._process.lifeline, START_WORD)

    def _not_standing(self, streams: InheritedStreams) -> SetupError | None:
        """Why nothing ran, where a program without a launcher was to make the sandbox."""
        if self._status.started:
            return None
        from corral.runtime.launcherless import explain_missing

        return explain_missing(self._launch, self._status, streams.stderr)

    def _check_not_lost(self) -> None:
        """An outer program that went before its launcher had ended takes the answer with it."""
        if not self._is_lost or self._is_unwanted or self._over_time:
            return
        if self._group is not None and self._group.has_run_out_of_memory():
            return
        from corral.runtime.launcher.starter import lost_outer

        raise lost_outer(self._launch)

    def _start_and_serve(self, streams: InheritedStreams, began: float) -> None:
        """INVARIANT: whatever interrupts it, the tree is dead and waited for when this is left."""
        try:
            assert self._starter is not None
            unwanted = self._is_unwanted or not ENDING.isdisjoint(self._early)
            if self._launch.spec is not None:
                check_stdio(streams.child_ends())
            self._process = self._starter.start(streams.child_ends(), is_unwanted=unwanted)
            began = began if self._launch.outer is None else time.monotonic()  # a container starts slowly
            # Else the launcher will say so, or a file that the sandbox makes.
            self._status.started = self._launch.spec is None and not self._launch.started
            self._note_started()
            while self._early:
                self.send(self._early.pop(0))
            if self._is_unwanted:
                self.kill()
            streams.close_child_ends()
            if self._is_awaited:
                self._look_before()
                self._let_start()
            if self._monitor is not None:
                self._monitor.begin(self._group, self._process.pid, began)
            self._loop(streams, began, self._process)
        except Abandoned:
            self._is_unwanted = True
        except BaseException:
            self.kill()
            raise
        finally:
            self._end()
        self._tell_refused()  # ORDER: before the last words are guessed from: they may be about the same
        streams.drain()
        self._over_output |= streams.is_over_limit  # also of what had ended before it was seen

    def _end(self) -> None:
        if self._process is None:
            return
        assert self._starter is not None
        self._was_outer_ended |= not self._starter.settle(self._process)
        self._reap(self._process.pid)
        if self._launch.outer is not None:
            self._leave_outer(self._process.status)
        self._starter.end(self._process, self._status.read, self._is_clean)
        with self._lock:  # nobody kills by a descriptor that belongs to someone else by now
            process, self._process = self._process, None
        if process.lifeline >= 0:
            os.close(process.lifeline)
        if process.status >= 0:
            self._status.read(process.status)
            os.close(process.status)

    def _leave_outer(self, status: int) -> None:
        """The outer program is gone: whoever is left inside ends with the lifeline."""
        os.set_blocking(status, False)
        self._status.read(status)
        self._is_lost = not (self._has_told() or self._status.timed_out or self._status.exceeded)
        was_unwanted = self._is_unwanted
        self.kill()
        self._is_unwanted = was_unwanted

    def _is_clean(self) -> bool:
        """Whether an outer program ended after its launcher, and by itself."""
        return self._has_told() and not self._is_lost and not self._was_outer_ended

    def _has_told(self) -> bool:
        """Whether the launcher has said how it ended."""
        told = (self._status.exit_code, self._status.signal, self._status.failure)
        return told != (None, None, None)

    def _loop(self, streams: InheritedStreams, began: float, process: Process) -> None:
        """Until the launcher, or the bare command, has ended."""
        ending = open_ending(process.pid)
        self._ending = ending.descriptor
        try:
            poller = select.poll()
            poller.register(self._ending, select.POLLIN)
            if process.status >= 0:
                os.set_blocking(process.status, False)
                poller.register(process.status, select.POLLIN)
            self._supervise(poller, streams, began)
        finally:
            ending.close()

    def _hear(self, descriptor: int, poller: select.poll) -> bool | None:
        if descriptor == self._ending:
            return False
        process = self._process
        if self._observer is not None and descriptor in self._observer.descriptors:
            refused = self._observer.react(descriptor)
            for violation in refused:
                self._reporter.hear(violation)
            if self._throttle is not None:
                self._throttle.note(len(refused), poller)
            return True
        if process is None or descriptor != process.status:
            return None
        if not self._status.read(descriptor):
            poller.unregister(descriptor)
            self._outer_ends_by = time.monotonic() + BACKSTOP_SECONDS
        self._note_started()
        self._tell_refused()
        if (fresh := self._status.take_said()) and self._reporter.is_heard:
            self._infer(fresh)
        self._hear_guarded()
        connect_network(self._status, self._network)
        if len(self._status.violations) > self._heard:
            from corral.runtime.module_report import hear_module

            self._heard = hear_module(self._status, self._heard, self._reporter)
        if self._observer is not None and self._status.given:
            self._observer.attach(self._status.take_given())
            for one in self._observer.descriptors:
                poller.register(one, select.POLLIN)
        if self._status.is_done:
            self._release()
        return True

    def _release(self) -> None:
        """The launcher waits for this, so that its group is still there to be read."""
        with self._lock:
            process = self._process
            if self._group is not None and process is not None and process.lifeline >= 0:
                self._group.collect()
                os.close(process.lifeline)
                self._process = process.replace(lifeline=-1)

    def _isolate(self, event: Event) -> None:
        process = self._process
        if process is not None and process.lifeline >= 0:
            from corral.runtime.launcher.freeze import isolate

            root, areas = process.inner or process.pid, tuple(self._status.areas)
            private = self._plan.resolved.private
            self._notes += (isolate(root, event, self._quarantine, areas, private),)
        self.kill()

    def _act(self, streams: InheritedStreams) -> None:
        if self._throttle is not None:
            self._throttle.act()
        if (
            time.monotonic() >= self._outer_ends_by
            and self._process is not None
            and self._starter is not None
        ):
            self._outer_ends_by, self._was_outer_ended = float("inf"), True
            self._starter.put_down(self._process)
        if self._monitor is not None and (text := self._monitor.act()):
            streams.show_note(text)

    def _waits(self) -> tuple[float, ...]:
        outer = () if self._launch.outer is None else ((self._outer_ends_by - time.monotonic()) * 1000,)
        throttled = () if self._throttle is None else (self._throttle.patience_ms,)
        monitored = () if self._monitor is None else (self._monitor.patience_ms,)
        return (*outer, *throttled, *monitored)

    def _reap(self, pid: int) -> None:
        _, status, spent = os.wait4(pid, 0)
        if self._launch.started:
            self._status.started = os.path.lexists(self._launch.started)
        if self._launch.spec is None:
            self._status.take_end(status, spent)

    def _refused(self) -> tuple[Violation, ...]:
        self._count_refused()
        if self._observer is not None:
            return self._observer.finish()
        return self._network.violations() if self._network is not None else ()

    def _tell(self, streams: InheritedStreams, seconds: float) -> Result:
        if self._status.exit_code is None and self._status.signal is None:
            self._status.signal, self._status.lost = signal.SIGKILL.value, True  # the launcher was killed
        guard, network = self._guard, self._network
        found = (*guard.violations, *guard.take_findings()) if guard is not None else ()
        if self._status.violations:
            from corral.runtime.module_report import read_violations

            found += read_violations(self._status.violations)
        if self._copies is not None:  # ORDER: nothing of the command runs any more
            found += self._copies.take_over()
        for areas in self._status.areas:
            from corral.runtime.discarded import find_discarded

            self._seen += find_discarded(self._plan, areas)
        return self._result(
            self._plan,
            self._launch,
            streams,
            counted=self._group,
            usage=measure(self._status, self._group, seconds, self._plan.resolved.limits.memory_bytes),
            found=found + self._refused(),
            enforcement=promised(self._plan, self._launch),
            run_id=self._plan.run_id,
            network=network.traffic() if network is not None else None,
            notes=(*self._notes, *(self._starter.notes if self._starter is not None else ())),
            handoff=find_handoff(self._plan.resolved.workspace, self._stamps),
        )
