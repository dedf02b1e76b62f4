"""What docs/compiled-plans.md shows is what happens."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from support.plan_stage import interpreter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.plan_stage import Stage

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/compiled-plans.md"
_LAUNCHER = "/home/plan/.venv/lib/python3.11/site-packages/corral/bin/corral-launch"


def _steps() -> list[tuple[str, list[str]]]:
    """Command and output of every step, in all blocks."""
    blocks = re.findall(r"```console\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    steps: list[tuple[str, list[str]]] = []
    for line in "".join(blocks).splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return steps


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

    assert len(_steps()) == 7
    for command, expected in _steps():
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

        assert shown.splitlines() == expected, command
