"""A named session in a container of a real engine: started, used and stopped by processes of their own."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.engines import IMAGE, Engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Corral = Callable[..., subprocess.CompletedProcess[str]]

SECONDS = 60
OURS = ("--filter", "label=corral.run")


@pytest.fixture
def corral(engine: Engine, tmp_path: Path) -> Corral:
    """`corral` of a user whose engine is this one."""
    for name in ("work", "home", "runtime", "temporary"):
        (tmp_path / name).mkdir(mode=0o700)
    env = {
        "PATH": f"{engine.install()}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "XDG_RUNTIME_DIR": str(tmp_path / "runtime"),
        "TMPDIR": str(tmp_path / "temporary"),
    }

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "corral", *arguments],
            cwd=tmp_path / "work",
            env=env,
            input=stdin,
            timeout=SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_named_session_lives_in_a_container_and_leaves_none(engine: Engine, corral: Corral) -> None:
    options = ("--backend", engine.name, "--image", IMAGE)
    started = corral("session", "start", "s", *options)
    assert started.returncode == 0, started.stderr
    try:
        assert len(engine.ask("ps", "--quiet", *OURS)) == 1
        echoed = corral("session", "exec", "s", "--", "cat", stdin="through")
        kept = corral("session", "exec", "s", "-c", "echo kept > /tmp/file; exit 4")
        seen = corral("session", "exec", "s", "--", "cat", "/tmp/file")
        line = corral("status", "--line")
        status = json.loads(corral("session", "status", "s", "--json").stdout)["session"]
        process = os.pidfd_open(status["pid"])
    finally:
        stopped = corral("session", "stop", "s")

    assert (echoed.returncode, echoed.stdout) == (0, "through")
    assert (kept.returncode, seen.stdout) == (4, "kept\n")
    assert line.stdout == f"⬡ Sandbox ({engine.name}) running\n"
    assert (status["backend"], status["commands"]) == (engine.name, 3)
    assert stopped.returncode == 0, stopped.stderr
    assert select.select([process], [], [], SECONDS)[0]
    os.close(process)
    assert engine.ask("ps", "--all", "--quiet", *OURS) == []


def test_the_container_ends_with_the_process_that_keeps_it(engine: Engine, corral: Corral) -> None:
    started = corral("session", "start", "s", "--backend", engine.name, "--image", IMAGE)
    assert started.returncode == 0, started.stderr
    status = json.loads(corral("session", "status", "s", "--json").stdout)["session"]
    assert len(engine.ask("ps", "--quiet", *OURS)) == 1

    os.kill(status["pid"], signal.SIGKILL)

    deadline = time.monotonic() + SECONDS
    while engine.ask("ps", "--quiet", *OURS):
        assert time.monotonic() < deadline, "the container runs on"
    assert corral("session", "status", "s").stdout.startswith("s  failed")
    corral("run", "--backend", engine.name, "--image", IMAGE, "--", "true")
