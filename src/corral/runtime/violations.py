"""Collect what the command tried that it may not: from the mechanisms, and as a guess from its words."""

from __future__ import annotations

from corral.model.feature import Feature
from corral.model.result import Outcome
from corral.model.rules.capability import LIMIT_FIELDS, format_limit
from corral.model.violation import Evidence, Violation
from corral.runtime.inference import infer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.plan import Plan

_LIMIT_OUTCOMES = {
    Outcome.TIMED_OUT: (Feature.LIMIT_WALL, "it ran longer than permitted"),
    Outcome.OUT_OF_MEMORY: (Feature.LIMIT_MEMORY, "the kernel ended a process"),
    Outcome.PIDS_LIMIT: (Feature.LIMIT_PIDS, "a new process was refused"),
    Outcome.CPU_LIMIT: (Feature.LIMIT_CPU_TIME, "it used up its processor time"),
    Outcome.DISK_LIMIT: (Feature.LIMIT_DISK, "the private areas were full when it ended"),
    Outcome.OUTPUT_LIMIT: (Feature.LIMIT_OUTPUT, "more was printed than permitted"),
}
#: Where the launcher has looked for itself.
_BY_LAUNCHER = {
    Outcome.OUT_OF_MEMORY: "it had more memory than permitted, and the launcher ended it",
    Outcome.PIDS_LIMIT: "it had more processes than permitted, and the launcher ended it",
}
_FULL_LAYER = "the trial was full when it ended; --trial-size and --trial-files give it more"
_SIGXFSZ = 25
#: The clause that sets each limit.
_CLAUSES = {
    Feature.LIMIT_WALL: ("time", "limit"),
    Feature.LIMIT_MEMORY: ("memory", "limit"),
    Feature.LIMIT_PIDS: ("pids", "limit"),
    Feature.LIMIT_OUTPUT: ("output", "limit"),
    Feature.LIMIT_CPU_TIME: ("cpu", "time"),
    Feature.LIMIT_DISK: ("disk", "limit"),
    Feature.LIMIT_FILE_SIZE: ("file", "limit"),
}
_TAIL_BYTES = 16_384
OF_NETWORK = frozenset({Feature.NET_NONE, Feature.NET_PORTS, Feature.NET_DOMAINS})


def collect(
    plan: Plan,
    outcome: Outcome,
    guarded: tuple[Violation, ...],
    stderr: bytes,
    *,
    signal: int | None = None,
    lost: bool = False,
    by_launcher: bool = False,
    is_layer_full: bool = False,
) -> tuple[Violation, ...]:
    """Everything that is known, observed first."""
    found = list(guarded)
    if outcome in _LIMIT_OUTCOMES:
        feature, detail = _LIMIT_OUTCOMES[outcome]
        if by_launcher:
            detail = _BY_LAUNCHER.get(outcome, detail)
        hint = _twice(plan, feature)
        if outcome is Outcome.DISK_LIMIT and is_layer_full:
            detail, hint = _FULL_LAYER, ""
        found.append(Violation(feature, "the command", Evidence.OBSERVED, detail, hint))
    if lost and outcome is not Outcome.OUT_OF_MEMORY:  # then the kernel chose PID 1, and all ended with it
        detail = "a process of the run could not be ended"
        found.append(Violation(Feature.PROC_CONTAINED, "the command", Evidence.OBSERVED, detail))
    if signal == _SIGXFSZ:
        hint = _twice(plan, Feature.LIMIT_FILE_SIZE)
        detail = "it was ended by SIGXFSZ"
        found.append(Violation(Feature.LIMIT_FILE_SIZE, "the command", Evidence.OBSERVED, detail, hint))
    if outcome is Outcome.BLOCKED and signal == 31:
        detail = "it was ended by SIGSYS, as for the system-call interface of another architecture"
        found.append(Violation(Feature.SYSCALLS, "the command", Evidence.OBSERVED, detail))
    if outcome is not Outcome.EXITED or stderr:
        guessed = infer(plan, stderr[-_TAIL_BYTES:].decode("utf-8", "replace"))
        known = {violation.feature for violation in found}
        found.extend(
            violation
            for violation in guessed
            if violation.feature is not Feature.NET_NONE or known.isdisjoint(OF_NETWORK)
        )
    return tuple(found)


def _twice(plan: Plan, feature: Feature) -> str:
    """The capability that would permit twice as much."""
    clause = _CLAUSES.get(feature)
    value = getattr(plan.resolved.limits, LIMIT_FIELDS[clause]) if clause is not None else None
    return "" if clause is None or value is None else ":".join((*clause, format_limit(clause, 2 * value)))
