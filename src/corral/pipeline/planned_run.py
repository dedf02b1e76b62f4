"""Attempt: one run of a sandbox, planned, and once more if the host changed before it was launched."""

from __future__ import annotations

import os

from corral.crossing import open_crossing
from corral.host import state_directory
from corral.model.errors import CorralError, SetupError, UnconfinedWarning
from corral.runtime.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.errors import UnenforceableError
    from corral.model.feature import Feature
    from corral.model.plan import Command
    from corral.model.result import Result
    from corral.runtime.destinations import Destinations
    from corral.runtime.monitor import Monitor
    from corral.sandbox import Sandbox


class Attempt:
    """One run that may be planned a second time, if the host changed between plan and launch."""

    def __init__(
        self, sandbox: Sandbox, command: Command, output: Destinations | None, monitor: Monitor | None
    ) -> None:
        self._sandbox = sandbox
        self._command = command
        self._output = output
        self._monitor = monitor
        self.refusal: UnenforceableError | None = (
            None  # why no sandbox holds it, where `fallback` lets it run
        )
        self.unheld: tuple[tuple[Feature, str], ...] = ()  # defaults that nobody holds here
        self._is_unwanted = False
        self._run = self._planned()

    def _planned(self) -> Run:
        explanation = self._sandbox.planner.explain(self._command)
        crossing = open_crossing(explanation, self._sandbox.network)
        self.refusal, self.unheld = explanation.refusal, explanation.plan.unheld
        if self.refusal is not None and not CorralError.speaks_of_flags:  # the command line says it itself
            _warn_of_fallback(self.refusal)
        self._launch = explanation.launch
        return Run(
            crossing.plan,
            crossing.launch,
            quarantine=quarantine_for(explanation.plan.run_id),
            output=self._output,
            monitor=self._monitor,
            within=self._sandbox.within,
            border=crossing.border,
        )

    def run(self, say: Callable[[str], None] | None = None) -> Result:
        """Do it. `say` is told what takes long before the command begins: an image that is fetched."""
        self._run.say = say
        try:
            return self._told(self._run.run())
        except SetupError as problem:
            planner, has_started = self._sandbox.planner, self._run.has_started
            if not planner.note_failure(problem, self._launch, has_started=has_started):
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
