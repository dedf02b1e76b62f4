"""How a run ended and what it cost: what the mechanisms counted, never words that the command printed."""

from __future__ import annotations

import signal

from corral.model.feature import RUNNER_FEATURES, RUNNER_MECHANISM
from corral.model.record import Record
from corral.model.result import Enforcement, GroupUsage, Outcome, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.limits.group import Group, Span
    from corral.model.launch import Launch
    from corral.model.plan import Plan
    from corral.runtime.status import Status

_BLOCK_BYTES = 512  # what getrusage(2) counts in
_UNCOUNTED = GroupUsage()
#: What the launcher found broken, in its own words.
_EXCEEDED = {
    "cpu-time": Outcome.CPU_LIMIT,
    "memory": Outcome.OUT_OF_MEMORY,
    "processes": Outcome.PIDS_LIMIT,
}
#: Outcomes of a command that may have ended by itself, with a status of its own, after a limit was met.
ENDED_BY_ITSELF = frozenset(
    {Outcome.EXITED, Outcome.OUT_OF_MEMORY, Outcome.PIDS_LIMIT, Outcome.DISK_LIMIT, Outcome.CPU_LIMIT}
)


class Facts(Record):
    """Everything that is known when all processes are gone."""

    status: Status
    group: Group | Span | None
    is_blocked: bool = False  # ended by the guard
    is_filtered: bool = False  # by a system-call filter of ours
    over_output: bool = False
    over_time: bool = False


def decide_outcome(facts: Facts) -> Outcome:
    """The one word for it. Whoever ended the run comes first, then what made a command fail."""
    status, group = facts.status, facts.group
    if facts.is_blocked or (facts.is_filtered and status.signal == signal.SIGSYS):
        return Outcome.BLOCKED
    if facts.over_output:
        return Outcome.OUTPUT_LIMIT
    if status.exceeded in _EXCEEDED:
        return _EXCEEDED[status.exceeded]
    if facts.over_time or status.timed_out:
        return Outcome.TIMED_OUT
    if status.exit_code != 0:
        if group is not None and group.has_run_out_of_memory():
            return Outcome.OUT_OF_MEMORY
        if group is not None and group.has_refused_a_process():
            return Outcome.PIDS_LIMIT
        if status.is_full or status.is_layer_full:
            return Outcome.DISK_LIMIT
    return Outcome.EXITED if status.exit_code is not None else Outcome.SIGNALLED


def promised(plan: Plan, launch: Launch) -> Enforcement:
    """What protects the command: the mechanism of every feature that the policy asked for."""
    named = {**dict.fromkeys(RUNNER_FEATURES, RUNNER_MECHANISM), **launch.enforced}
    asked = {feature: named[feature] for feature in plan.requires - plan.waived}
    return Enforcement(launch.backend, asked, plan.waived, plan.unheld)


def measure(
    status: Status, group: Group | None, wall_seconds: float, memory_limit: int | None = None
) -> Usage:
    """What the run cost: from its group where there is one, else from what was waited for.

    A tree that the launcher has ended for its memory is in no account. It had more than the limit then, and
    the limit is what is known for sure.
    """
    user, system, memory, blocks_in, blocks_out, processes = status.usage or (0, 0, 0, 0, 0, 0)
    counted = group.usage() if group is not None else _UNCOUNTED
    peak = counted.peak_memory_bytes
    if peak is None and memory_limit is not None and status.exceeded == "memory":
        peak = max(memory_limit, memory * 1024)
    return Usage(
        wall_seconds,
        # ORDER: the group's first. What is not waited for, as a tree that was killed, is in no rusage.
        _first(counted.user_seconds, user / 1e6),
        _first(counted.system_seconds, system / 1e6),
        (memory * 1024 or None) if peak is None else peak,
        peak is not None,
        counted.peak_pids,
        processes or None,
        blocks_in * _BLOCK_BYTES,
        blocks_out * _BLOCK_BYTES,
    )


def _first(counted: float | None, otherwise: float) -> float:
    return otherwise if counted is None else counted
