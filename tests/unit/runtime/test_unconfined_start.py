"""Starting the command itself, without a launcher: what fails is told apart from what the command returns."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from corral.model.errors import SetupError
from corral.runtime.launcher.spawn import try_spec
from corral.runtime.run import Run
from support.descriptors import count_descriptors


@pytest.mark.parametrize(("name", "status"), [("missing", 127), ("not-executable", 126)])
def test_a_program_that_cannot_be_started_is_an_error(make_plan, make_launch, tmp_path, name, status) -> None:
    (tmp_path / "not-executable").write_text("text")
    plan = make_plan((str(tmp_path / name),))
    before = count_descriptors()

    with pytest.raises(SetupError) as failed:
        Run(plan, make_launch(plan), quarantine=str(tmp_path)).run()

    assert (failed.value.code, failed.value.exit_status, failed.value.ran) == ("exec", status, False)
    assert count_descriptors() <= before


def test_a_launcher_that_cannot_be_started_is_an_error(make_plan, make_launch, tmp_path) -> None:
    plan = make_plan()
    launch = make_launch(plan, argv=(str(tmp_path / "no-launcher"),), spec=b"spec")

    with pytest.raises(SetupError) as failed:
        Run(plan, launch, quarantine=str(tmp_path)).run()

    assert (failed.value.code, failed.value.exit_status) == ("launcher", 125)


@pytest.mark.parametrize(("script", "phase"), [("read line <&5", "late"), ("exit 0", "launcher")])
def test_a_trial_that_is_late_is_not_taken_for_a_broken_launcher(tmp_path, script: str, phase: str) -> None:
    launcher = tmp_path / "launcher"
    launcher.write_text(f"#!/bin/sh\n{script}\n")
    launcher.chmod(0o755)

    # The first never answers; the second ends at once, and the time is never used up.
    trial = try_spec(str(launcher), b"spec", seconds=0.1 if phase == "late" else 60)

    assert (trial.ok, trial.phase) == (False, phase)


@pytest.fixture
def launching(make_plan, make_launch, tmp_path):
    """Runs a script in the launcher's place, and waits until it has made the file `pid`."""

    def start(script: str) -> tuple[Run, int, threading.Thread, list]:
        launcher, made = tmp_path / "launcher", tmp_path / "pid"
        for name in ("pid", "sent"):
            os.mkfifo(tmp_path / name)
        launcher.write_text(f"#!/bin/sh\necho $$ > {made}\n{script}\n")
        launcher.chmod(0o755)
        plan = make_plan()
        run = Run(plan, make_launch(plan, argv=(str(launcher),), spec=b"spec"), quarantine=str(tmp_path))
        results: list = []
        thread = threading.Thread(target=lambda: results.append(run.run()))
        thread.start()
        return run, int(made.read_text()), thread, results

    return start


def test_a_signal_that_ends_what_is_about_to_be_the_command_is_its_end(launching, tmp_path) -> None:
    run, _, thread, results = launching(f"read line < {tmp_path}/sent\necho 'signalled 15' >&4")
    while run._process is None:
        pass  # it is started, and about to be known

    run.send(signal.SIGTERM)
    (tmp_path / "sent").write_text("\n")

    thread.join()
    assert results[0].signal == signal.SIGTERM


def test_a_launcher_that_somebody_has_stopped_is_ended_all_the_same(launching) -> None:
    run, pid, thread, results = launching("kill -STOP $$\nread line <&5")
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        pass  # it is about to

    run.kill()

    thread.join()
    assert not results[0].ok


@pytest.mark.parametrize("code", [0, 1, 2, 3, 70, 124, 125, 126, 127, 255])
def test_no_exit_code_of_the_command_is_mistaken_for_ours(
    make_plan, make_launch, tmp_path, code: int
) -> None:
    plan = make_plan(("/bin/sh", "-c", f"exit {code}"))
    result = Run(plan, make_launch(plan), quarantine=str(tmp_path)).run()

    assert (result.exit_code, result.exit_status, result.ok) == (code, code, code == 0)


def test_the_environment_is_complete_as_given(make_plan, make_launch, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TOKEN", "the secret")
    plan = make_plan(("/usr/bin/env",))
    result = Run(plan, make_launch(plan, env=(("A", "b"),)), quarantine=str(tmp_path)).run()

    assert result.stdout == "A=b\n"
