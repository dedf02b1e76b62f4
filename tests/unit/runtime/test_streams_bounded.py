"""Streams: bounded, whatever is printed, and fed, whatever is read."""

from __future__ import annotations

import os
import select
import time

import pytest

from corral.model.policy import Limits
from corral.model.result import Outcome
from corral.runtime.run import Run
from corral.runtime.streams import PipedStreams


@pytest.fixture
def run(make_plan, make_launch, tmp_path):
    def go(script: str, **plan):
        made = make_plan(("/bin/sh", "-c", script), cwd=str(tmp_path), **plan)
        return Run(made, make_launch(made), quarantine=str(tmp_path / "q")).run()

    return go


def test_output_and_errors_are_kept_apart(run) -> None:
    result = run("echo out; echo err >&2; exit 3")

    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert not result.truncated


def test_all_of_stdin_arrives(run) -> None:
    data = os.urandom(300_000)

    assert run("cat", stdin=data).stdout_bytes == data


def test_a_command_that_does_not_read_its_stdin_is_no_failure(run) -> None:
    assert run("exec <&-; echo done", stdin=b"x" * 300_000).stdout == "done\n"


def test_without_stdin_the_end_is_at_the_beginning(run) -> None:
    assert run("cat; echo done").stdout == "done\n"


def test_output_up_to_the_limit_is_no_violation(run) -> None:
    result = run("head -c 1000 /dev/zero", limits=Limits(output_bytes=1000))

    assert (result.outcome, result.truncated, len(result.stdout_bytes)) == (Outcome.EXITED, False, 1000)


def test_one_byte_more_ends_the_run(run) -> None:
    result = run("head -c 1001 /dev/zero; sleep 60", limits=Limits(output_bytes=1000))

    assert (result.outcome, result.truncated, len(result.stdout_bytes)) == (Outcome.OUTPUT_LIMIT, True, 1000)


def test_the_limit_is_for_both_streams_together(run) -> None:
    result = run(
        "head -c 600 /dev/zero; head -c 600 /dev/zero >&2; sleep 60", limits=Limits(output_bytes=1000)
    )

    assert result.outcome is Outcome.OUTPUT_LIMIT
    assert len(result.stdout_bytes) + len(result.stderr_bytes) == 1000


def test_an_endless_flood_is_ended(run) -> None:
    result = run("yes", limits=Limits(output_bytes=10_000))

    assert result.outcome is Outcome.OUTPUT_LIMIT
    assert len(result.stdout_bytes) == 10_000


def test_the_time_is_kept(run) -> None:
    began = time.monotonic()
    result = run("sleep 60", limits=Limits(wall_seconds=0.2))

    assert (result.outcome, result.exit_code, result.exit_status) == (Outcome.TIMED_OUT, None, 124)
    assert 0.2 <= time.monotonic() - began < 10


def test_whoever_still_holds_the_pipe_does_not_hold_up_the_answer(run, tmp_path) -> None:
    """A child that lives on keeps stdout open; the run is over when the command is."""
    os.mkfifo(tmp_path / "gate")
    gate = os.open(tmp_path / "gate", os.O_RDWR)
    try:
        result = run("exec 8<gate; cat <&8 & echo done")
    finally:
        os.write(gate, b"\n")
        os.close(gate)

    assert result.stdout == "done\n"


def test_a_signal_is_told(run) -> None:
    result = run("kill -TERM $$")

    assert (result.outcome, result.signal, result.exit_code, result.exit_status) == (
        Outcome.SIGNALLED,
        15,
        None,
        143,
    )


def test_no_descriptor_is_left(run) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    run("yes", limits=Limits(output_bytes=1000))
    run("cat", stdin=b"x")

    assert sorted(os.listdir("/proc/self/fd")) == before


def test_past_the_limit_output_is_read_and_thrown_away() -> None:
    """Or else the command would block, and could not be told apart from one that waits."""
    with PipedStreams(10, b"") as streams:
        _, theirs, _ = streams.child_ends()
        poller = select.poll()
        streams.register(poller)
        for _ in range(3):
            os.write(theirs, b"x" * 8)
            ((descriptor, _),) = poller.poll(5000)
            streams.carry(descriptor, poller)

        assert (streams.stdout, streams.is_over_limit) == (b"x" * 10, True)
