"""Streams: bounded, whatever is printed, and fed, whatever is read."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time

import pytest

from corral.model.policy import Limits
from corral.model.result import Outcome
from corral.runtime.run import Run
from corral.streams.sinks import KEPT_BYTES
from corral.streams.streams import PipedStreams
from support.descriptors import count_descriptors
from support.gates import Gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def run(make_plan, make_launch, tmp_path):
    def go(script: str, **plan):
        made = make_plan(("/bin/sh", "-c", script), cwd=str(tmp_path), **plan)
        return Run(made, make_launch(made), quarantine=str(tmp_path / "q")).run()

    return go


@pytest.fixture
def gate(tmp_path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


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


def test_who_printed_too_much_and_ended_at_once_has_printed_too_much(run) -> None:
    """Whether it is seen before or after the end is a matter of luck, and must not matter."""
    for _ in range(10):
        result = run("head -c 1001 /dev/zero", limits=Limits(output_bytes=1000))

        assert (result.outcome, result.exit_code, result.stdout_size) == (Outcome.OUTPUT_LIMIT, None, 1001)


_BOTH = "head -c 24000000 /dev/zero & head -c 26000000 /dev/zero | tr '\\0' e >&2; wait; exit 7"


def test_a_flood_on_both_streams_at_once_comes_to_its_own_end(run) -> None:
    result = run(_BOTH)

    assert (result.outcome, result.exit_code, result.truncated) == (Outcome.EXITED, 7, True)
    assert (result.stdout_size, result.stderr_size) == (24_000_000, 26_000_000)
    assert result.stdout_bytes == b"\0" * KEPT_BYTES
    assert result.stderr_bytes == b"e" * KEPT_BYTES


def test_a_flood_on_both_streams_at_once_is_ended_at_the_limit(run) -> None:
    result = run(_BOTH, limits=Limits(output_bytes=1_000_000))

    assert (result.outcome, result.truncated) == (Outcome.OUTPUT_LIMIT, True)
    assert len(result.stdout_bytes) + len(result.stderr_bytes) == 1_000_000
    assert result.stdout_size + result.stderr_size < 50_000_000


def test_what_is_kept_is_the_beginning(run) -> None:
    result = run("seq 1 3000000")

    assert result.stdout_bytes == "".join(f"{n}\n" for n in range(1, 1_400_000)).encode()[:KEPT_BYTES]


def test_a_flood_on_one_stream_does_not_push_out_the_other(run) -> None:
    result = run("head -c 24000000 /dev/zero; echo message >&2")

    assert (len(result.stdout_bytes), result.stderr, result.truncated) == (KEPT_BYTES, "message\n", True)


def test_a_command_that_prints_to_stderr_alone(run) -> None:
    result = run("printf partial >&2")

    assert (result.stdout, result.stderr, result.truncated) == ("", "partial", False)
    assert (result.stdout_size, result.stderr_size) == (0, 7)


def test_a_command_that_closes_its_output_goes_on(run, tmp_path) -> None:
    result = run("echo first; exec >&- 2>&-; echo late > mark; exit 5")

    assert (result.stdout, result.exit_code) == ("first\n", 5)
    assert (tmp_path / "mark").read_text() == "late\n"


def test_who_lives_on_and_prints_without_end_does_not_hold_up_the_answer(run, gate: Gate) -> None:
    """And is ended by the closed pipe, as after any command."""
    result = run("exec 9>gate; yes & echo done >&2")

    assert (result.exit_code, result.stderr) == (0, "done\n")
    assert gate.is_left()


_CALLER = r"""
import sys
from corral.model.policy import Limits
from corral.policy.preset import load_preset
from corral.sandbox import Sandbox

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

policy = load_preset("permissive").replace(limits=Limits())
sandbox = Sandbox(policy, backend="none", workspace=sys.argv[1])
sandbox.run("echo").check()
before = peak()
flood = "printf '\N{HORSE}'; head -c 90000000 /dev/zero | tee /dev/stderr"
result = sandbox.run(flood, **eval(sys.argv[2]))
text = result.stdout
print(peak() - before, result.exit_code, result.stdout_size, result.stderr_size)
"""


@pytest.mark.parametrize(
    ("arguments", "most_bytes"),
    [("{}", 64_000_000), ("{'stream': lambda *_: None}", 8_000_000), ("{'stdout': '/dev/null'}", 20_000_000)],
    ids=["kept", "streamed", "written"],
)
def test_the_callers_memory_is_bounded(tmp_path, arguments: str, most_bytes: int) -> None:
    """Judged in a fresh process, copies included, and text in which every character takes four bytes."""
    done = subprocess.run(
        [sys.executable, "-c", _CALLER, str(tmp_path), arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    grown, *facts = map(int, done.stdout.split())

    assert facts == [0, 90_000_004, 90_000_000]
    assert grown < most_bytes


def test_an_endless_flood_is_ended(run) -> None:
    result = run("yes", limits=Limits(output_bytes=10_000))

    assert result.outcome is Outcome.OUTPUT_LIMIT
    assert len(result.stdout_bytes) == 10_000


def test_the_time_is_kept(run) -> None:
    began = time.monotonic()
    result = run("sleep 600", limits=Limits(wall_seconds=0.2))

    assert (result.outcome, result.exit_code, result.exit_status) == (Outcome.TIMED_OUT, None, 124)
    assert 0.2 <= time.monotonic() - began


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
    before = count_descriptors()
    run("yes", limits=Limits(output_bytes=1000))
    run("cat", stdin=b"x")

    assert count_descriptors() <= before


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
