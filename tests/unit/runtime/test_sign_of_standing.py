"""A sandbox without a launcher gives a sign that it stands: without it nothing ran, whatever the status."""

from __future__ import annotations

import os
import signal

import pytest

from corral.backends.seatbelt import _script
from corral.model.errors import SetupError
from corral.model.policy import Limits
from corral.model.result import Outcome
from corral.runtime.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from corral.model.result import Result

#: As sandbox-exec does it: the profile, then the command in its place.
OBEYS = '[ "$1" = -p ] && shift 2 && exec "$@"'


@pytest.fixture
def start(make_plan, make_launch, tmp_path: Path) -> Callable[..., Result]:
    """Run a command as the backend `seatbelt` does, in a sandbox that some script pretends to make."""

    def begin(*argv: str, program: str = OBEYS, limits: Limits | None = None, **changes: object) -> Result:
        outer = tmp_path / "sandbox-exec"
        outer.write_text(f"#!/bin/sh\n{program}\n")
        outer.chmod(0o755)
        plan = make_plan(argv, limits=limits)
        scratch = tmp_path / "scratch"
        words = (str(outer), "-p", "(version 1)", "/bin/sh", "-c", _script(limits or Limits()))
        launch = make_launch(
            plan,
            argv=(*words, f"{scratch}/started", *argv),
            scratch=str(scratch),
            started=f"{scratch}/started",
            **changes,
        )
        return Run(plan, launch, quarantine=str(tmp_path / "quarantine")).run()

    return begin


@pytest.mark.parametrize("code", [0, 1, 65, 71, 125, 126, 127, 255])
def test_every_status_of_a_command_that_ran_is_its_own(start, code: int) -> None:
    result = start("/bin/sh", "-c", f"exit {code}")

    assert (result.outcome, result.exit_code) == (Outcome.EXITED, code)


@pytest.mark.parametrize("code", [0, 1, 65, 71, 125, 255])
def test_a_sandbox_that_was_not_made_is_no_status_of_the_command(start, tmp_path: Path, code: int) -> None:
    with pytest.raises(SetupError) as failed:
        start("/bin/true", program=f"echo 'sandbox-exec: bad profile' >&2; exit {code}")

    assert (failed.value.code, failed.value.ran, failed.value.exit_status) == ("sandbox", False, 125)
    assert failed.value.why == "sandbox-exec: bad profile"
    assert not (tmp_path / "scratch").exists()


def test_a_sandbox_that_was_killed_before_it_stood_has_run_nothing(start) -> None:
    with pytest.raises(SetupError) as failed:
        start("/bin/true", program="kill -ABRT $$")

    assert failed.value.ran is False
    assert f"signal {signal.SIGABRT.value}" in failed.value.why


def test_a_program_that_is_not_there_is_found_out_before_the_sign_is_given(start) -> None:
    with pytest.raises(SetupError) as failed:
        start("no-such-program")

    assert (failed.value.code, failed.value.exit_status) == ("exec", 127)
    assert failed.value.why == "no-such-program: not found"


def test_arguments_arrive_as_they_are(start) -> None:
    words = ["a b", "$HOME", "'", '"', "*", "", "--", "-n", "new\nline", "\\", "n\u00e9e"]
    result = start("/usr/bin/printf", "%s|", *words)

    assert result.stdout == "".join(f"{word}|" for word in words)


def test_the_environment_gains_nothing_that_says_something(start) -> None:
    result = start("/usr/bin/env", env=(("A", "b"),))

    assert {line.partition("=")[0] for line in result.stdout.splitlines()} <= {"A", "PWD", "_"}


def test_no_open_file_of_the_caller_is_passed_on(start, tmp_path: Path) -> None:
    secret = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        result = start("/bin/sh", "-c", "for f in /proc/self/fd/*; do echo ${f##*/}; done")
    finally:
        os.close(secret)

    assert {int(line) for line in result.stdout.split()} <= {0, 1, 2, 3}  # 3: the directory that is listed
    assert str(secret) not in result.stdout.split()


def test_limits_of_each_process_hold(start) -> None:
    limits = Limits(open_files=40, file_size_bytes=64 * 1024)
    result = start("/bin/sh", "-c", "ulimit -n; ulimit -f; ulimit -c", limits=limits)
    files, blocks, core = result.stdout.split()

    assert (files, core) == ("40", "0")
    assert int(blocks) * 1024 <= 64 * 1024


def test_a_limit_that_cannot_be_set_keeps_the_command_from_running(start) -> None:
    with pytest.raises(SetupError) as failed:
        start("/bin/true", program=f"ulimit -n 30; {OBEYS}", limits=Limits(open_files=2**40))

    assert failed.value.ran is False


def test_time_that_is_over_before_the_sandbox_stands_is_told_as_such(start) -> None:
    result = start("/bin/true", program="sleep 60", limits=Limits(wall_seconds=0.2))

    assert result.outcome is Outcome.TIMED_OUT
