"""What docs/compiled-plans.md shows is what happens."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.plan_stage import interpreter
from support.transcripts import steps_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.plan_stage import Stage

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/compiled-plans.md"
#: For root the kernel counts no processes of a user. The text says so, and the transcript does not.
_OF_ROOT = "corral: defaults that the launcher alone cannot hold: limit.pids (4096)"
_LAUNCHER = "/home/plan/.venv/lib/python3.11/site-packages/corral/bin/corral-launch"


def test_the_transcript_is_what_happens(stage: Stage) -> None:
    programs = stage.place / "programs"
    programs.mkdir()
    python = f"PYTHONPATH={stage.package} PYTHONDONTWRITEBYTECODE=1 exec {interpreter()}"
    for name, line in (("corral", f"{python} -m corral"), ("corral-launch", f"exec {stage.launcher}")):
        (programs / name).write_text(f'#!/bin/sh\n{line} "$@"\n')
        (programs / name).chmod(0o755)
    (stage.home / ".local/state/corral").mkdir(parents=True)
    (stage.project / "hello.py").write_text('print("hello")\n')
    for place in (stage.home, stage.project):
        stage.own(place)
    env = {**stage.environment(), "API_KEY": "hunter2"}
    env["PATH"] = f"{programs}:{env['PATH']}"

    assert len(steps_of(DOCUMENT)) == 7
    for command, expected in steps_of(DOCUMENT):
        done = subprocess.run(
            [*stage.become(), "sh", "-c", f"exec 2>&1; {command}"],
            cwd=stage.project,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        shown = done.stdout.replace(stage.launcher, _LAUNCHER)
        shown = shown.replace(str(stage.project), "/home/plan/project").replace(str(stage.home), "/home/plan")

        lines = [line for line in shown.splitlines() if stage.user != 0 or line != _OF_ROOT]

        assert lines == expected, command
