"""Many commands: in order, bounded, ended together; judged by what they leave behind, never by the clock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from corral.model.errors import CallError, CorralError, PolicyError, SetupError
from corral.model.result import Outcome
from corral.parallel.executor import SandboxExecutor, detect_best_sandbox
from support.gates import PATIENCE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.parallel.progress import Progress
    from support.gates import Gate

#: Holds the gate, with a child of its own session too, says so by a file, and stays.
HOLD = "exec 9>gate; setsid sleep 3600 & : > mark-$NAME; echo held; exec sleep 3600"


def _hold(name: str) -> str:
    return f"NAME={name}; {HOLD}"


def _marks(work: Path) -> int:
    return len(list(work.glob("mark-*")))


def _wait_for_marks(work: Path, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _marks(work) < count:
        assert time.monotonic() < deadline, "the commands never began"
        time.sleep(0.01)


def test_the_calls_of_the_guide(native: None, work: Path) -> None:
    """As the original guide shows them, in Python."""
    assert detect_best_sandbox(workspace=work) == "native"
    executor = SandboxExecutor("moderate", backend="native", workspace=work)

    assert "total" in executor.execute("ls", ["-la"]).stdout
    sequence = executor.execute_sequence(
        [{"command": "echo", "args": ["Step 1"]}, {"command": "echo", "args": ["Step 2"]}]
    )
    parallel = executor.execute_parallel(
        [{"command": "echo", "args": ["Task 1"]}, {"command": "echo", "args": ["Task 2"]}]
    )

    assert [result.stdout for result in (*sequence, *parallel)] == [
        "Step 1\n",
        "Step 2\n",
        "Task 1\n",
        "Task 2\n",
    ]


def test_a_step_has_many_forms_and_arguments_never_meet_a_shell(executor: SandboxExecutor) -> None:
    hostile = "$(echo expanded); echo more"
    results = executor.execute_sequence(
        [
            "echo text | tr a-z A-Z",
            ["echo", hostile],
            ("echo", [hostile]),
            {"command": "echo", "args": (hostile,)},
            {"command": ["echo", hostile]},
            {"command": "cat", "args": [], "stdin": "fed"},
        ]
    )

    assert [result.stdout for result in results] == ["TEXT\n", *([hostile + "\n"] * 4), "fed"]
    with pytest.raises(SetupError):  # there is no program of that name, and no shell to take it apart
        executor.execute("echo text", [])


@pytest.mark.parametrize(
    "step",
    [
        {"args": ["x"]},
        {"command": "x", "shell": True},
        ["x", 3],
        ("x", [None]),
        {"command": "x", "args": "-l"},
    ],
)
def test_what_is_no_step_is_said_before_anything_runs(executor, work: Path, step) -> None:
    for run in (executor.execute_sequence, executor.execute_parallel):
        with pytest.raises(PolicyError) as caught:
            run(["touch mark", step])
        assert caught.value.code == "step-syntax"
    assert not (work / "mark").exists()


def test_a_sequence_stops_at_the_first_failure_or_goes_on(executor: SandboxExecutor, work: Path) -> None:
    steps = ["echo 1", "exit 3", "touch reached"]

    assert [result.exit_code for result in executor.execute_sequence(steps)] == [0, 3]
    assert not (work / "reached").exists()
    all_of_them = executor.execute_sequence(steps, stop_on_failure=False)
    assert [result.exit_code for result in all_of_them] == [0, 3, 0]
    assert (work / "reached").exists()


def test_what_cannot_be_run_in_a_sequence_is_raised_or_in_the_list(executor, work: Path) -> None:
    steps = ["echo 1", ["/no/such/program"], "touch reached"]
    with pytest.raises(SetupError) as caught:
        executor.execute_sequence(steps, stop_on_failure=False)
    assert "in step 2 of 3" in caught.value.__notes__

    short = executor.execute_sequence(steps, return_errors=True)
    assert [type(one).__name__ for one in short] == ["Result", "SetupError"]
    assert not (work / "reached").exists()
    whole = executor.execute_sequence(steps, stop_on_failure=False, return_errors=True)
    assert [type(one).__name__ for one in whole] == ["Result", "SetupError", "Result"]


def test_results_are_in_the_order_of_the_steps_whatever_ends_first(make) -> None:
    """Each waits for the one after it, so they end in the opposite order."""
    executor = make(max_workers=4)
    steps = [f"while ! test -e done-{n + 1}; do sleep 0.01; done; touch done-{n}; echo {n}" for n in range(3)]
    steps.append("touch done-3; echo 3")

    assert [int(result.stdout) for result in executor.execute_parallel(steps)] == [0, 1, 2, 3]


@pytest.mark.parametrize(("max_workers", "max_parallel", "bound"), [(4, 2, 2), (2, None, 2), (2, 10, 2)])
def test_no_more_run_at_a_time_than_the_bound_and_as_many_do(
    make, work, max_workers, max_parallel, bound
) -> None:
    """The first ones meet, so that the bound is reached; the log shows how many were in there at any time."""
    executor = make(max_workers=max_workers)
    meet = f"while test $(grep -c + log) -lt {bound}; do sleep 0.01; done"
    steps = [f"echo + >> log; {meet}; echo - >> log"] * 8

    results = executor.execute_parallel(steps, max_parallel=max_parallel)

    inside = most = 0
    for line in (work / "log").read_text().split():
        inside += 1 if line == "+" else -1
        most = max(most, inside)
    assert (all(result.ok for result in results), most, inside) == (True, bound, 0)


@pytest.mark.thorough
def test_two_hundred_commands_at_once_all_have_their_own_result(make) -> None:
    executor = make(max_workers=200)

    results = executor.execute_parallel([["echo", str(number)] for number in range(200)])

    assert [result.stdout for result in results] == [f"{number}\n" for number in range(200)]


def test_a_batch_is_cancelled_when_its_executor_is_shut_down(make, work: Path, gate: Gate) -> None:
    executor = make(max_workers=2)

    def hear(progress: Progress) -> None:
        if progress.running == 2:
            _wait_for_marks(work, 2)
            executor.shutdown(wait=False, cancel_futures=True)

    with pytest.raises(CallError) as caught:
        executor.execute_parallel([_hold("a"), _hold("b"), "touch late"], progress=hear)
    assert caught.value.code == "cancelled"
    assert gate.is_left()
    assert not (work / "late").exists()


def test_a_failing_command_is_a_result_like_any_other(executor: SandboxExecutor) -> None:
    results = executor.execute_parallel(["exit 1", "echo fine", "kill -9 $$"])

    assert [result.describe() for result in results] == ["exit status 1", "exit status 0", "signal 9"]


def test_what_cannot_be_run_ends_the_others_and_is_raised(executor, work: Path, gate: Gate) -> None:
    """The third waits until the others are under way; then the fourth, which cannot be run, has its turn."""
    until = "while ! test -e mark-a || ! test -e mark-b; do sleep 0.01; done"
    steps = [_hold("a"), _hold("b"), until, ["/no/such/program"], _hold("late")]
    with pytest.raises(SetupError) as caught:
        executor.execute_parallel(steps, max_parallel=3)

    assert caught.value.code == "exec"
    assert "in step 4" in caught.value.__notes__
    assert gate.is_left()
    assert not (work / "mark-late").exists()


def test_with_return_errors_the_others_go_on(executor: SandboxExecutor) -> None:
    found = executor.execute_parallel(["echo 1", ["/no/such/program"], "echo 3"], return_errors=True)

    assert [getattr(one, "stdout", type(one)) for one in found] == ["1\n", SetupError, "3\n"]


def test_a_signal_of_the_caller_kills_what_runs_and_begins_nothing_else(make, work: Path, gate: Gate) -> None:
    executor, enough = make(max_workers=2), threading.Event()

    def hear(progress: Progress) -> None:
        if progress.running == 2:
            _wait_for_marks(work, 2)
            enough.set()

    steps = [_hold("a"), _hold("b"), "touch late"]
    found = executor.execute_parallel(steps, cancel=enough, progress=hear, return_errors=True)

    assert [one.outcome for one in found[:2]] == [Outcome.SIGNALLED] * 2
    assert isinstance(found[2], CallError) and found[2].code == "cancelled" and not found[2].ran
    assert gate.is_left()
    assert not (work / "late").exists()
    with pytest.raises(CallError):  # it is still set
        executor.execute_parallel(["touch late"], cancel=enough)
    assert not (work / "late").exists()
    assert executor.execute("echo on").stdout == "on\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_a_function_of_the_caller_raises_ends_the_batch(make, work, gate: Gate, error) -> None:
    executor = make(max_workers=2)

    def hear(progress: Progress) -> None:
        if progress.running == 2:
            _wait_for_marks(work, 2)
            raise error

    with pytest.raises(error):
        executor.execute_parallel([_hold("a"), _hold("b"), "touch late"], progress=hear)
    assert gate.is_left()
    assert not (work / "late").exists()


def test_what_the_stream_of_a_step_raises_ends_the_batch(make, work: Path, gate: Gate) -> None:
    def hear(_: str, __: bytes) -> None:
        _wait_for_marks(work, 2)
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        make(max_workers=2).execute_parallel(
            [_hold("a"), {"command": _hold("b"), "stream": hear}, "touch late"]
        )
    assert gate.is_left()
    assert not (work / "late").exists()


def test_kill_from_another_thread_ends_every_kind_of_run(make, work: Path, gate: Gate) -> None:
    executor = make(max_workers=2)
    found: dict[str, object] = {}

    def keep(name: str, function, *args) -> None:
        try:
            found[name] = function(*args)
        except CorralError as problem:
            found[name] = problem

    threads = [
        threading.Thread(target=keep, args=("one", executor.execute, _hold("a"))),
        threading.Thread(target=keep, args=("row", executor.execute_sequence, [_hold("b"), "touch late"])),
        threading.Thread(
            target=keep, args=("many", executor.execute_parallel, [_hold("c"), _hold("d"), "touch late"])
        ),
    ]
    for thread in threads:
        thread.start()
    _wait_for_marks(work, 4)
    executor.kill()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    assert gate.is_left()
    assert found["one"].outcome is Outcome.SIGNALLED
    assert [result.outcome for result in found["row"]] == [Outcome.SIGNALLED]
    assert isinstance(found["many"], CallError)
    assert not (work / "late").exists()


_SCRIPT = """
import corral, sys
with corral.SandboxExecutor("moderate", backend="native", max_workers=2) as executor:
    executor.execute_parallel({steps!r})
"""


def test_ctrl_c_ends_a_program_with_all_that_it_has_started(native: None, work: Path, gate: Gate) -> None:
    script = _SCRIPT.format(steps=[_hold("a"), _hold("b"), "touch late"])
    program = subprocess.Popen([sys.executable, "-c", script], cwd=work, stderr=subprocess.PIPE)
    try:
        _wait_for_marks(work, 2)
        program.send_signal(signal.SIGINT)
        _, printed = program.communicate(timeout=PATIENCE_SECONDS)
    finally:
        program.kill()
        program.wait()

    assert b"KeyboardInterrupt" in printed
    assert gate.is_left()
    assert not (work / "late").exists()


def test_progress_is_told_step_by_step(make) -> None:
    executor, told = make(max_workers=1), []

    executor.execute_parallel(["true", "false", "true"], progress=told.append)

    assert [(now.done, now.failed, now.running, now.total) for now in told] == [
        (0, 0, 1, 3),
        (1, 0, 1, 3),
        (2, 1, 1, 3),
        (3, 1, 0, 3),
    ]


def test_a_terminal_shows_one_line_and_nothing_of_it_stays(executor, monkeypatch, capfd) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        executor.execute_parallel(["echo loud", "echo loud >&2"], progress=True)
        terminal.write("the end")  # the kernel carries it over in its own time, but in order
        terminal.flush()
        shown = b""
        while not shown.endswith(b"the end"):
            shown += os.read(ours, 65_536)
    os.close(ours)
    monkeypatch.undo()

    assert shown.startswith(b"\r\x1b[Kcorral: 0 of 2 done, 2 running")
    assert shown.endswith(b"\r\x1b[Kthe end")
    assert b"loud" not in shown and b"\n" not in shown
    executor.execute_parallel(["true"], progress=True)
    assert capfd.readouterr() == ("", "")  # that is no terminal
