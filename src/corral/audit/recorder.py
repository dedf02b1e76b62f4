"""Recorder: tells a sink of runs, and what happens where the sink fails."""

from __future__ import annotations

import os

from corral.audit import caller
from corral.audit.records import Who, ended, failed, planned
from corral.model.errors import PolicyError, SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    from corral.model.plan import Plan
    from corral.model.result import Result

    Record = Mapping[str, object]

    class AuditSink(Protocol):
        """Whatever takes records: several at a time, all or none."""

        def write(self, records: Sequence[Record]) -> object:
            """Take them. What it raises counts as a failure."""


REFUSE, WARN = "refuse", "warn"


class _Function:
    """A function as a sink."""

    def __init__(self, function: Callable[[Record], object]) -> None:
        self._function = function

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            self._function(record)


class Recorder:
    """What a sandbox has of the audit: a sink, who asks, and whether a run needs a record."""

    def __init__(
        self,
        sink: AuditSink | Callable[[Record], object],
        *,
        agent: str = "",
        on_failure: str = REFUSE,
    ) -> None:
        if isinstance(sink, Recorder):
            raise TypeError("a recorder is not a sink")
        if not hasattr(sink, "write") and not callable(sink):
            raise PolicyError(
                "audit-sink",
                f"audit={sink!r} does not accept records",
                why="a sink has a method `write`, or is a function that is given one record at a time",
                fix="give a corral.AuditLog, or a function such as `records.append`",
            )
        self._sink: AuditSink = sink if hasattr(sink, "write") else _Function(sink)
        self._who = Who(agent or caller.agent)
        self._refuses = on_failure == REFUSE

    def in_session(self, session: str) -> Recorder:
        """The same, for commands of a session."""
        recorder = Recorder(self._sink, agent=self._who.agent, on_failure=REFUSE if self._refuses else WARN)
        recorder._who = Who(self._who.agent, session)
        return recorder

    def note_planned(self, plan: Plan, backend: str) -> None:
        """Before anything starts. Raises SetupError if it cannot be recorded and has to be."""
        try:
            self._sink.write(list(planned(plan, backend, self._who)))
        except Exception as problem:
            if self._refuses:
                raise _unrecorded(problem) from problem
            _say(problem)

    def note_ended(self, result: Result) -> Result:
        """After a command; the result says so where that could not be recorded."""
        try:
            self._sink.write(list(ended(result, self._who)))
        except Exception as problem:
            return result.replace(
                notes=(*result.notes, f"the end of this run is not in the audit log: {problem}")
            )
        return result

    def note_failed(self, run: str, problem: BaseException) -> None:
        """That there is no result. The error itself is raised by whoever has it."""
        try:
            self._sink.write([failed(run, problem, self._who)])
        except Exception as second:
            _say(second)


def as_recorder(audit: object) -> Recorder | None:
    """What a caller gave as `audit=`. Raises PolicyError."""
    if audit is None or isinstance(audit, Recorder):
        return audit
    return Recorder(audit)  # type: ignore[arg-type]


def _unrecorded(problem: Exception) -> SetupError:
    return SetupError(
        "audit",
        "the run cannot be recorded in the audit log",
        why=str(problem),
        fix='free some space, or repair the log; `audit.on_failure = "warn"` runs without a record',
    )


def _say(problem: Exception) -> None:
    os.write(2, f"corral: the audit log was not written: {problem}\n".encode("utf-8", "backslashreplace"))
