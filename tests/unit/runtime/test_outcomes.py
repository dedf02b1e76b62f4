"""The one word for how a run ended, and what it cost: from what was counted, by whoever counted it."""

from __future__ import annotations

import signal

import pytest

from corral.model.result import GroupUsage, Outcome, Usage
from corral.runtime.outcome import Facts, decide_outcome, measure
from corral.runtime.status import Status
from support.counted import CountedGroup

QUIET, NO_MEMORY, NO_PIDS = CountedGroup(), CountedGroup(memory=True), CountedGroup(pids=True)
NEITHER = CountedGroup(memory=True, pids=True)


def status_of(text: str) -> Status:
    status = Status()
    status.feed(("started\n" + text.replace(", ", "\n") + "\n").encode())
    return status


@pytest.mark.parametrize(
    ("said", "group", "facts", "outcome"),
    [
        # by itself
        ("exited 0", None, {}, Outcome.EXITED),
        ("exited 7", None, {}, Outcome.EXITED),
        ("exited 7", QUIET, {}, Outcome.EXITED),
        ("signalled 9", QUIET, {}, Outcome.SIGNALLED),
        ("signalled 31", QUIET, {}, Outcome.SIGNALLED),
        ("lost", QUIET, {}, Outcome.SIGNALLED),
        # a command that came through has met no limit that matters
        ("exited 0", NEITHER, {}, Outcome.EXITED),
        ("exited 0, full", NEITHER, {}, Outcome.EXITED),
        # one that failed may have failed for it
        ("exited 1", NO_MEMORY, {}, Outcome.OUT_OF_MEMORY),
        ("signalled 9", NO_MEMORY, {}, Outcome.OUT_OF_MEMORY),
        ("exited 1", NO_PIDS, {}, Outcome.PIDS_LIMIT),
        ("exited 1", NEITHER, {}, Outcome.OUT_OF_MEMORY),
        ("exited 1, full", None, {}, Outcome.DISK_LIMIT),
        ("exited 1, full", QUIET, {}, Outcome.DISK_LIMIT),
        ("exited 1, full", NO_PIDS, {}, Outcome.PIDS_LIMIT),
        ("signalled 7, full", QUIET, {}, Outcome.DISK_LIMIT),
        # the launcher ended it
        ("limit memory, signalled 9", None, {}, Outcome.OUT_OF_MEMORY),
        ("limit processes, signalled 9", None, {}, Outcome.PIDS_LIMIT),
        ("limit cpu-time, signalled 15", QUIET, {}, Outcome.CPU_LIMIT),
        ("limit cpu-time, exited 0", QUIET, {}, Outcome.CPU_LIMIT),
        ("limit cpu-time, exited 1", NO_MEMORY, {}, Outcome.CPU_LIMIT),
        ("limit cpu-time, timed-out, signalled 9", QUIET, {}, Outcome.CPU_LIMIT),
        ("limit nonsense, exited 0", QUIET, {}, Outcome.EXITED),
        ("timed-out, signalled 15", None, {}, Outcome.TIMED_OUT),
        ("timed-out, exited 0", None, {}, Outcome.TIMED_OUT),
        ("timed-out, signalled 9", NO_MEMORY, {}, Outcome.TIMED_OUT),
        ("signalled 9", NO_MEMORY, {"over_time": True}, Outcome.TIMED_OUT),
        # corral ended it
        ("signalled 9", NEITHER, {"over_output": True}, Outcome.OUTPUT_LIMIT),
        ("timed-out, signalled 9", None, {"over_output": True}, Outcome.OUTPUT_LIMIT),
        ("limit memory, signalled 9", None, {"over_output": True}, Outcome.OUTPUT_LIMIT),
        ("signalled 9", NEITHER, {"is_blocked": True, "over_output": True}, Outcome.BLOCKED),
        ("limit memory, signalled 9", None, {"is_blocked": True}, Outcome.BLOCKED),
        ("exited 0", None, {"is_blocked": True}, Outcome.BLOCKED),
        # the filter ended it
        (f"signalled {int(signal.SIGSYS)}", QUIET, {"is_filtered": True}, Outcome.BLOCKED),
        ("signalled 9", QUIET, {"is_filtered": True}, Outcome.SIGNALLED),
        ("exited 0", QUIET, {"is_filtered": True}, Outcome.EXITED),
    ],
)
def test_whoever_ended_it_comes_first(
    said: str, group: CountedGroup | None, facts: dict[str, bool], outcome: Outcome
) -> None:
    assert decide_outcome(Facts(status_of(said), group, **facts)) is outcome


def test_without_a_group_the_launchers_own_account_is_all_there_is() -> None:
    status = status_of("usage 1500000 250000 2048 8 16 3, exited 0")

    assert measure(status, None, 2.0) == Usage(
        wall_seconds=2.0,
        user_seconds=1.5,
        system_seconds=0.25,
        peak_memory_bytes=2048 * 1024,
        is_whole_tree=False,
        peak_pids=None,
        processes=3,
        read_bytes=4096,
        written_bytes=8192,
    )


def test_a_group_knows_the_whole_tree_also_whom_nobody_waited_for() -> None:
    group = CountedGroup(GroupUsage(1, 5_000_000, 1, 4, 9.0, 0.0))
    usage = measure(status_of("usage 1500000 250000 2048 0 0 3, exited 0"), group, 2.0)

    assert (usage.peak_memory_bytes, usage.is_whole_tree, usage.peak_pids) == (5_000_000, True, 4)
    assert (usage.user_seconds, usage.system_seconds) == (9.0, 0.0)


def test_a_group_that_has_counted_nothing_is_no_better_than_none() -> None:
    usage = measure(status_of("usage 1500000 250000 2048 0 0 3, exited 0"), CountedGroup(), 2.0)

    assert (usage.peak_memory_bytes, usage.is_whole_tree, usage.peak_pids) == (2048 * 1024, False, None)
    assert (usage.user_seconds, usage.system_seconds) == (1.5, 0.25)


@pytest.mark.parametrize(("counted", "peak"), [(128, 100 << 20), (200 << 10, 200 << 20)])
def test_a_tree_that_was_ended_for_its_memory_had_at_least_the_limit(counted: int, peak: int) -> None:
    """Nobody has waited for it: what is counted is the launcher's own first process."""
    status = status_of(f"limit memory, usage 1 1 {counted} 0 0 3, signalled 9")
    usage = measure(status, None, 2.0, 100 << 20)

    assert (usage.peak_memory_bytes, usage.is_whole_tree) == (peak, True)
    assert measure(status, None, 2.0).peak_memory_bytes == counted * 1024


def test_a_launcher_that_said_nothing_has_counted_nothing() -> None:
    assert measure(status_of("lost"), None, 2.0) == Usage(wall_seconds=2.0)


def test_a_peak_of_nought_is_one_that_was_counted() -> None:
    usage = measure(status_of("usage 1 1 2048 0 0 3"), CountedGroup(GroupUsage(0, 0, 0, 0)), 2.0)

    assert (usage.peak_memory_bytes, usage.is_whole_tree, usage.peak_pids) == (0, True, 0)
