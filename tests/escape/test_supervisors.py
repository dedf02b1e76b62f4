"""A command cannot take its supervisor's means away: the launcher is among the processes that it sees."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from corral.model.result import Outcome
from corral.sandbox import Sandbox
from support.confinement import PYTHON
from support.gates import Gate

#: Whatever can be seen gets no more open files, and then nothing heeds the time.
SCRIPT = """
import os, resource, signal, sys, time
for pid in [name for name in os.listdir('/proc') if name.isdigit()] + [str(os.getppid())]:
    if int(pid) == os.getpid(): continue
    for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_AS):
        try: resource.prlimit(int(pid), what, (0, 0))
        except OSError: pass
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0: os.setsid()
gate = os.open('gate', os.O_WRONLY)
print('alive', flush=True)
time.sleep(600)
"""
PROGRAMS = {"bubblewrap": "bwrap", "firejail": "firejail"}


@pytest.mark.parametrize("backend", ["native", "bubblewrap", "firejail"])
def test_the_time_limit_outlives_every_limit_on_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    if backend in PROGRAMS and shutil.which(PROGRAMS[backend]) is None:
        pytest.skip(f"{PROGRAMS[backend]} is not installed")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    gate = Gate(work / "gate")
    sandbox = Sandbox(policy(), backend=backend, workspace=work, waive=["fs.metadata"])

    result = sandbox.run([PYTHON, "-I", "-S", "-c", SCRIPT])

    assert "alive" in result.stdout
    assert result.outcome is Outcome.TIMED_OUT
    assert gate.is_left()
    gate.close()


def policy() -> object:
    from corral.policy.compose import build_policy
    from support.confinement import INTERPRETER

    return build_policy("moderate", (*INTERPRETER, "time:limit:1s"))
