"""`--stats`: what a run cost, in one line, with what is not known left out."""

from __future__ import annotations

import pytest

from corral.cli.run import describe_result
from corral.cli.stats import PATIENCE_SECONDS, approximate, describe_sample, summarize
from corral.model.network.traffic import HostTraffic, NetAction, NetEvent, NetReason, Traffic
from corral.model.policy import Policy
from corral.model.result import Enforcement, Outcome, Result, Usage, UsageSample

MIB = 1 << 20


def result_of(usage: Usage) -> Result:
    return Result(
        *(Outcome.EXITED, 0, None, b"", b"", False, usage.wall_seconds, usage, ()),
        *(Enforcement("native", {}, frozenset()), Policy(), "0123"),
    )


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        (
            Usage(1.204, 0.98, 0.1, 143 * MIB, True, 4, 7, 4096, 1536),
            "1.20 s, 0.98 s user, 0.10 s system, 143.0 MiB at most, 7 processes, 4 at once, "
            "4.0 KiB read, 1.5 KiB written",
        ),
        (
            Usage(1.0, 0.5, 0.5, 2 * MIB, False, None, 1),
            "1.00 s, 0.50 s user, 0.50 s system, 2.0 MiB at most in one process, 1 process, "
            "0 B read, 0 B written",
        ),
        (
            Usage(1.0, peak_pids=3),
            "1.00 s, 0.00 s user, 0.00 s system, 3 processes at once, 0 B read, 0 B written",
        ),
        (
            Usage(1.0, peak_pids=1),
            "1.00 s, 0.00 s user, 0.00 s system, 1 process at once, 0 B read, 0 B written",
        ),
        (Usage(1.0), "1.00 s, 0.00 s user, 0.00 s system, 0 B read, 0 B written"),
    ],
)
def test_a_run_is_summed_up_in_one_line(usage: Usage, line: str) -> None:
    assert summarize(result_of(usage)) == line


@pytest.mark.parametrize(
    ("sample", "line"),
    [
        (
            UsageSample(12.4, 3.1, 2 * MIB, 3),
            "corral: 12 s, 3.1 s of processor time, 2.0 MiB, 3 processes",
        ),
        (UsageSample(12.4, 0.0, 0, 1), "corral: 12 s, 0.0 s of processor time, 0 B, 1 process"),
        (UsageSample(12.4), "corral: 12 s"),
        (UsageSample(PATIENCE_SECONDS - 0.1, 1.0, 1, 1), ""),
        (UsageSample(PATIENCE_SECONDS), "corral: 2 s"),
    ],
)
def test_a_run_under_way_is_told_after_its_first_moments(sample: UsageSample, line: str) -> None:
    assert describe_sample(sample) == line


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (MIB, "1.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 40, "3.0 TiB"),
        (3 << 50, "3072.0 TiB"),
    ],
)
def test_a_size_is_read_at_a_glance(size: int, text: str) -> None:
    assert approximate(size) == text


def network_lines(backend: str, exit_code: int, traffic: Traffic | None) -> list[str]:
    enforcement = Enforcement(backend, {}, frozenset())
    result = result_of(Usage(1.0)).replace(enforcement=enforcement, exit_code=exit_code, network=traffic)
    return [line for line in describe_result(result, verbose=False) if line.startswith("network: ")]


@pytest.mark.parametrize(
    ("backend", "exit_code", "traffic", "is_said"),
    [
        ("landlock", 6, Traffic(), True),
        ("landlock", 0, Traffic(), False),
        ("landlock", 6, None, False),
        ("landlock", 6, Traffic((HostTraffic("a.test", 80, 1),), connections=1), False),
        ("native", 6, Traffic(), False),
    ],
)
def test_a_program_that_fails_and_knows_no_proxy_is_told_of_on_landlock(
    backend: str, exit_code: int, traffic: Traffic | None, is_said: bool
) -> None:
    assert ["http_proxy" in line for line in network_lines(backend, exit_code, traffic)] == [True] * is_said


def test_connections_without_room_are_told_of() -> None:
    event = NetEvent(NetAction.CONNECT, False, NetReason.TOO_MANY, "a.test", 443, detail="2048 are open")

    assert network_lines("native", 0, Traffic(refusals=(event,), failed=1)) == [
        "network: a.test:443: there were too many connections: 2048 are open"
    ]
