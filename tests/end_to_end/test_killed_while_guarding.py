"""Protected names of a run whose corral is stopped or killed: the launcher goes on, and sweeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.keeping import wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def held_up(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A corral whose command waits for a file, then plants."""
    (tmp_path / "project").mkdir()
    script = "touch ready; until [ -e go ]; do sleep 0.02; done; echo evil > .envrc; touch planted; sleep 300"
    child = subprocess.Popen(
        [sys.executable, "-m", "corral", "run", "--backend", "native", "-c", script],
        cwd=tmp_path / "project",
        env={**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")},
    )
    yield child
    if child.poll() is None:
        child.kill()
    child.wait()


def test_a_corral_that_is_stopped_and_killed(tmp_path: Path, held_up: subprocess.Popen[bytes]) -> None:
    project, quarantine = tmp_path / "project", tmp_path / "state/corral/quarantine"
    wait_until((project / "ready").exists, "the command runs")
    held_up.send_signal(signal.SIGSTOP)
    (project / "go").touch()

    wait_until((project / "planted").exists, "something is planted")
    wait_until(lambda: list(quarantine.glob("*/0-.envrc")) != [], "it is in quarantine")
    held_up.kill()

    assert not (project / ".envrc").exists()


def test_a_launcher_that_is_killed(tmp_path: Path, held_up: subprocess.Popen[bytes]) -> None:
    """Corral makes the last look."""
    project = tmp_path / "project"
    wait_until((project / "ready").exists, "the command runs")
    children = Path(f"/proc/{held_up.pid}/task/{held_up.pid}/children").read_text().split()
    (launcher,) = (int(pid) for pid in children)
    os.kill(launcher, signal.SIGSTOP)
    (project / "go").touch()
    wait_until((project / "planted").exists, "something is planted")
    assert (project / ".envrc").exists()

    os.kill(launcher, signal.SIGKILL)
    held_up.wait()

    assert not (project / ".envrc").exists()
