"""PlannedRun: one run of a sandbox, planned, and once more if the host changed before it was launched."""

from __future__ import annotations

import os

from corral.host.real import state_directory
from corral.model.errors import CorralError, SetupError, UnconfinedWarning
from corral.pipeline.networked_launch import Opening
from corral.runtime.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.audit.recorder import Recorder
    from corral.limits.hierarchy import Hierarchy
    from corral.model.errors import UnenforceableError
    from corral.model.event import Listener
    from corral.model.feature import Feature
    from corral.model.launch import Launch
    from corral.model.plan import Command, Plan
    from corral.model.result import Result
    from corral.network.options import NetworkOptions
    from corral.pipeline.planner import Planner
    from corral.runtime.monitor import Monitor
    from corral.streams.destinations import Destinations


class PlannedRun:
    """One run that may be planned a second time, if the host changed between plan and launch."""

    def __init__(
        self,
        planner: Planner,
        command: Command,
        *,
        options: NetworkOptions | None,
        within: Hierarchy | None,
        output: Destinations | None = None,
        monitor: Monitor | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._planner, self._command = planner, command
        self._options, self._within = options, within
        self._output = output
        self._monitor = monitor
        self._recorder = recorder
        self._listener: Listener | None = None
        self._on_start: Callable[[], None] | None = None
        self.refusal: UnenforceableError | None = (
            None  # why no sandbox holds it, where `fallback` lets it run
        )
        self.unheld: tuple[tuple[Feature, str], ...] = ()  # defaults that nobody holds here
        self._is_unwanted = False
        self._run = self._planned()

    def _planned(self) -> Run:
        opening = Opening(self._options, observes=True)
        try:
            explanation = self._planner.explain(self._command, opening)
            networked = opening.finish(explanation)
        except BaseException as problem:
            opening.abandon()
            if self._recorder is not None and isinstance(problem, CorralError):
                self._recorder.note_failed("", problem)
            raise
        self.refusal, self.unheld = explanation.refusal, explanation.plan.unheld
        if self.refusal is not None and not CorralError.speaks_of_flags:  # the command line says it itself
            _warn_of_fallback(self.refusal)
        self._launch, self._plan = explanation.launch, explanation.plan
        run = Run(
            networked.plan,
            networked.launch,
            quarantine=quarantine_for(explanation.plan.run_id),
            output=self._output,
            monitor=self._monitor,
            within=self._within,
            network=networked.network,
            observer=networked.observer,
        )
        run.listen(self._listener, self._on_start)
        return run

    def listen(self, listener: Listener | None, on_start: Callable[[], None] | None = None) -> None:
        """Tell somebody of events as they come, and that the command has begun. ORDER: before the run."""
        self._listener, self._on_start = listener, on_start
        self._run.listen(listener, on_start)

    @property
    def backend(self) -> str:
        """Who holds the command."""
        return self._launch.backend

    @property
    def starts_slowly(self) -> bool:
        """Whether another program makes the sandbox, which may take its time."""
        return self._launch.outer is not None

    @property
    def run_id(self) -> str:
        """What the result calls this run."""
        return self._plan.run_id

    @property
    def planned(self) -> tuple[Plan, Launch]:
        """What is run, as it was planned last."""
        return self._plan, self._launch

    def run(self, say: Callable[[str], None] | None = None) -> Result:
        """Do it. `say` is told what takes long before the command begins: an image that is fetched."""
        if self._recorder is None:
            return self._carry_out(say)
        # ORDER: before anything starts; where that is not possible, nothing does.
        self._recorder.note_planned(self._plan, self._launch.backend)
        try:
            result = self._carry_out(say)
        except BaseException as problem:
            self._recorder.note_failed(self._plan.run_id, problem)
            raise
        return self._recorder.note_ended(result)

    def _carry_out(self, say: Callable[[str], None] | None) -> Result:
        self._run.say = say
        try:
            return self._told(self._run.run())
        except SetupError as problem:
            has_started = self._run.has_started
            if not self._planner.note_failure(problem, self._launch, has_started=has_started):
                raise
            self._run = self._planned()
            self._run.say = say
            if self._is_unwanted:  # ORDER: after it is there; `kill` sets this before it looks for a run
                self._run.kill()
            return self._told(self._run.run())

    def _told(self, result: Result) -> Result:
        """The result, which says so if nothing confined the command though nobody asked for that by name."""
        if self.refusal is None:
            return result
        return result.replace(enforcement=result.enforcement.replace(fallback=self.refusal.why))

    def send(self, number: int) -> None:
        """Pass a signal on to the command."""
        self._run.send(number)

    @property
    def is_checking(self) -> bool:
        """Whether the command has ended, and what it left is looked at. No signal ends that."""
        return self._run.is_checking

    @property
    def has_ended(self) -> bool:
        """Whether nothing of the command runs any more."""
        return self._run.has_ended

    def kill(self) -> None:
        """Take the whole tree down."""
        self._is_unwanted = True
        self._run.kill()


def _warn_of_fallback(refusal: UnenforceableError) -> None:
    """Warn in Python, as the command line does."""
    import warnings

    reasons = "; ".join(refusal.reasons)
    text = f"the command runs WITHOUT A SANDBOX: fallback is `unconfined`, and nothing enforces it: {reasons}"
    warnings.warn(text, UnconfinedWarning, stacklevel=6)  # the caller of Sandbox.run


def quarantine_for(run_id: str) -> str:
    state = state_directory()
    return os.path.join(state, "quarantine", run_id) if state else ""
