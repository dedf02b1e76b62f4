"""Output: streamed and written through the Python interface, and passed on to readers that stop reading."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral import PolicyError, Sandbox, SetupError, build_policy, run
from corral.limits.hierarchy import explain_absence, find_hierarchy
from corral.model.result import Outcome
from corral.runtime.status import path_changed
from support.gates import PATIENCE_SECONDS, Gate
from support.two_streams import run_on_two_masters, run_with_a_closed_stdout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def gate(project: Path) -> Iterator[Gate]:
    made = Gate(project / "gate")
    yield made
    made.close()


def test_a_flood_without_a_limit_comes_to_its_own_end(project: Path) -> None:
    result = run("head -c 40000000 /dev/zero; exit 7", workspace=project)

    assert (result.outcome, result.exit_code, result.truncated) == (Outcome.EXITED, 7, True)
    assert result.to_json()["stdout_size"] == 40_000_000


def test_output_is_streamed_and_written(project: Path, tmp_path: Path) -> None:
    pieces: list[tuple[str, bytes]] = []
    result = run(
        "echo out; echo err >&2",
        workspace=project,
        stream=lambda name, data: pieces.append((name, data)),
        stderr=tmp_path / "errors",
    )

    assert sorted(pieces) == [("stderr", b"err\n"), ("stdout", b"out\n")]
    assert (tmp_path / "errors").read_text() == result.stderr == "err\n"


def test_an_exception_of_the_function_leaves_nothing_behind(project: Path, gate: Gate) -> None:

    def refuse(name: str, data: bytes) -> None:
        raise ValueError(name)

    with pytest.raises(ValueError, match="stdout"):
        Sandbox(workspace=project).run("exec 9>gate; setsid sleep 300 & echo x; sleep 300", stream=refuse)

    assert gate.is_left()


def test_an_error_of_the_function_does_not_run_the_command_twice(project: Path) -> None:
    """It may come from another sandbox, and look as if this one could be tried again."""

    def refuse(name: str, data: bytes) -> None:
        raise path_changed("elsewhere")

    with pytest.raises(SetupError, match="elsewhere"):
        Sandbox(workspace=project).run("echo x >> runs; echo x; sleep 300", stream=refuse)

    assert (project / "runs").read_text() == "x\n"


def test_a_slow_function_does_not_keep_the_command_past_its_time(project: Path, gate: Gate) -> None:
    ended_meanwhile = []

    def wait_for_the_end(name: str, data: bytes) -> None:
        ended_meanwhile.append(gate.is_left())

    policy = build_policy("moderate", ["time:limit:500ms"])
    result = Sandbox(policy, workspace=project).run("exec 9>gate; yes", stream=wait_for_the_end)

    assert ended_meanwhile[0]
    assert result.outcome is Outcome.TIMED_OUT


def test_a_link_that_a_command_left_does_not_lead_output_astray(project: Path, home: Path) -> None:
    sandbox = Sandbox(workspace=project)
    victim = home / ".profile"
    victim.write_text("mine")
    sandbox.run(f"ln -s {victim} log").check()

    with pytest.raises(PolicyError, match="links are not followed"):
        sandbox.run("echo evil", stdout=project / "log")

    assert victim.read_text() == "mine"


class Stalled:
    """`corral run`, whose output nobody reads until somebody asks for it."""

    def __init__(self, project: Path, *arguments: str) -> None:
        ours, self._theirs = os.pipe()
        self.output = open(ours, "rb", buffering=0)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "corral", "run", *arguments],
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=self._theirs,
            stderr=subprocess.DEVNULL,
        )

    def wait_until_full(self) -> None:
        """Until the pipe takes no more: then whoever writes to it would be waiting."""
        wait_for(lambda: not select.select([], [self._theirs], [], 0)[1])

    def read_all(self) -> bytes:
        os.close(self._theirs)
        self._theirs = -1
        return self.output.readall()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.output.close()
        if self._theirs >= 0:
            os.close(self._theirs)


def wait_for(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def stalled(project: Path) -> Iterator[Callable[..., Stalled]]:
    with contextlib.ExitStack() as stack:

        def start(*arguments: str) -> Stalled:
            made = Stalled(project, *arguments)
            stack.callback(made.close)
            return made

        yield start


RELAYED = pytest.mark.parametrize("option", ["--output-limit=1GB", "-t"])


@RELAYED
def test_a_reader_that_stops_does_not_stop_the_clock(stalled, option: str) -> None:
    corral = stalled(option, "--timeout", "1s", "--", "yes")

    assert corral.process.wait(timeout=PATIENCE_SECONDS) == 124


@RELAYED
def test_a_reader_that_stops_does_not_keep_whom_a_limit_ended(stalled, option: str) -> None:
    if find_hierarchy() is None:
        pytest.skip(f"processor time cannot be limited here: {explain_absence()[0]}")
    corral = stalled(option, "--cap", "cpu:time:300ms", "-c", "yes & while :; do :; done")

    ended = {128 + signal.SIGTERM, 128 + signal.SIGKILL}
    assert corral.process.wait(timeout=PATIENCE_SECONDS) in ended


@RELAYED
def test_a_terminal_that_shows_nothing_does_not_stop_the_clock(project: Path, option: str) -> None:
    screen, terminal = os.openpty()
    corral = subprocess.Popen(
        [sys.executable, "-m", "corral", "run", option, "--timeout", "1s", "--", "yes"],
        cwd=project,
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.DEVNULL,  # what corral itself has to say would wait for the terminal, as it should
        start_new_session=True,
    )
    try:
        assert corral.wait(timeout=PATIENCE_SECONDS) == 124
    finally:
        corral.kill()
        corral.wait()
        os.close(screen)
        os.close(terminal)


@RELAYED
def test_a_reader_that_stops_does_not_stop_the_guard(stalled, project: Path, option: str) -> None:
    os.mkfifo(project / "cue")
    corral = stalled(option, "-c", "{ read word < cue; echo {} > .mcp.json; echo > planted; } & yes")
    corral.wait_until_full()
    (project / "cue").write_text("now\n")
    wait_for((project / "planted").exists)

    wait_for(lambda: not (project / ".mcp.json").exists())
    assert corral.process.poll() is None


@RELAYED
def test_a_reader_that_comes_late_gets_everything(stalled, option: str, gate: Gate) -> None:
    corral = stalled(option, "-c", "exec 9>gate; head -c 130000 /dev/zero; printf end; exit 3")
    corral.wait_until_full()
    if option != "-t":  # a terminal holds less than what is left
        assert gate.is_left()

    assert corral.read_all() == b"\0" * 130_000 + b"end"
    assert corral.process.wait(timeout=PATIENCE_SECONDS) == 3


def test_who_waits_for_a_reader_can_be_ended(stalled, gate: Gate) -> None:
    corral = stalled("--output-limit=1GB", "-c", "exec 9>gate; head -c 130000 /dev/zero")
    assert gate.is_left()

    def is_ended() -> bool:
        corral.process.send_signal(signal.SIGTERM)
        return corral.process.poll() is not None

    wait_for(is_ended)


@RELAYED
def test_a_reader_that_goes_ends_the_command(stalled, option: str) -> None:
    corral = stalled(option, "--", "yes")
    assert corral.output.read(2) in {b"y\n", b"y\r"}
    corral.output.close()

    assert corral.process.wait(timeout=PATIENCE_SECONDS) in {128 + signal.SIGPIPE, 128 + signal.SIGHUP}


ALTERNATING = "i=0; while [ $i -lt 200 ]; do printf %s. $i; printf %s, $i >&2; i=$((i+1)); done"
IN_ORDER = "".join(f"{i}.{i}," for i in range(200)).encode()


def test_streams_that_are_one_file_stay_in_order(project: Path) -> None:
    line = [sys.executable, "-m", "corral", "run", "--output-limit=1GB", "-c", ALTERNATING]

    together = subprocess.run(line, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
    with open(project.parent / "log", "w+b") as log:
        subprocess.run(line, cwd=project, stdout=log, stderr=subprocess.STDOUT, check=True)
        log.seek(0)
        assert log.read() == IN_ORDER
    apart = subprocess.run(line, cwd=project, capture_output=True, check=True)

    assert together.stdout == IN_ORDER
    assert apart.stdout == "".join(f"{i}." for i in range(200)).encode()
    assert apart.stderr == "".join(f"{i}," for i in range(200)).encode()


def test_streams_that_are_one_file_have_one_limit(project: Path) -> None:
    line = [sys.executable, "-m", "corral", "run", "--output-limit=1000", "-c", ALTERNATING]

    together = subprocess.run(
        line, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )

    assert together.returncode == 128 + signal.SIGKILL
    assert together.stdout.startswith(IN_ORDER[:1000])
    assert b"output-limit" in together.stdout[1000:]


def test_streams_that_only_look_like_one_file_stay_two(project: Path) -> None:
    line = [sys.executable, "-m", "corral", "run", "--output-limit=1GB", "-c", "echo out; echo err >&2"]

    assert run_on_two_masters(line, project) == (b"out\n", b"err\n")
    assert b"err\n" in run_with_a_closed_stdout(line, project, project.parent / "one")
