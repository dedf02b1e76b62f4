"""What a call of a real agent costs with corral and without, in turns, with a scripted model on loopback.

    PYTHONPATH=tests:bench python -m agent_calls PROGRAM [ROUNDS]

PROGRAM is Claude Code (`npm install --prefix .agents @anthropic-ai/claude-code`). A call is the time from the
model's answer to what the agent says of it; the first of a conversation, which makes the sandbox, is apart.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.scripted_model import ScriptedModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CALLS = 12
_BESIDE = Path(sys.executable).parent


class TimedModel(ScriptedModel):
    """Notes when it has answered, and when it hears of that."""

    def __init__(self, commands: list[str]) -> None:
        super().__init__(commands)
        self.answered: list[float] = []
        self.waited: list[float] = []

    def answer(self, request: dict[str, Any], *, as_responses: bool) -> Any:
        if request.get("tools") and self.answered:
            self.waited.append(time.perf_counter() - self.answered[-1])
        events = super().answer(request, as_responses=as_responses)
        if request.get("tools"):
            self.answered.append(time.perf_counter())
        return events


def converse(home: Path, program: str) -> list[float]:
    """The seconds of each call of one conversation."""
    with TimedModel(["true"] * _CALLS) as model:
        environment = {
            "HOME": str(home),
            "PATH": f"{_BESIDE}:{Path(program).parent}:{os.environ['PATH']}",
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        subprocess.run(
            [program, "-p", "go on", "--allowedTools", "Bash"],
            env=environment,
            cwd=home / "project",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return model.waited


def main(program: str, rounds: int) -> None:
    """Print the medians of both, and of the ratio of each pair."""
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as top:
        homes = {name: Path(top) / name for name in ("plain", "confined")}
        for home in homes.values():
            (home / "project").mkdir(parents=True)
        install = [str(_BESIDE / "corral"), "install", "claude-code", "--yes"]
        environment = {"HOME": str(homes["confined"]), "PATH": f"{Path(program).parent}:{os.environ['PATH']}"}
        subprocess.run(install, env=environment, cwd=homes["confined"], stdout=subprocess.DEVNULL, check=True)
        first: dict[str, list[float]] = {name: [] for name in homes}
        later: dict[str, list[float]] = {name: [] for name in homes}
        for _ in range(rounds):
            for name, home in homes.items():
                seconds = converse(home, program)
                first[name].append(seconds[0])
                later[name].append(statistics.median(seconds[1:]))
    for title, found in (("first call", first), ("later call", later)):
        plain, confined = (statistics.median(found[name]) * 1000 for name in homes)
        ratio = statistics.median(b / a for a, b in zip(found["plain"], found["confined"], strict=True))
        print(f"| {title} | {plain:.0f} | {confined:.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
