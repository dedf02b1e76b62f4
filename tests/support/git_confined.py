"""Traps planted in `corral run` with its defaults, and what was found afterwards, as a table."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from corral.backends.registry import get_backend
from corral.host.real import RealHost
from support.git_stage import interpreter
from support.git_trap import script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from support.git_stage import Stage
    from support.git_trap import Trap
    from support.git_watch import Finding


def confined(stage: Stage, traps: Iterable[Trap]) -> list[str]:
    """The command that plants traps in `corral run` with its defaults, as the user of the stage."""
    return [
        *(*stage.become(), _own_interpreter(), "-P", "-m", "corral", "run", "--"),
        *(interpreter(), "-I", "-S", "-c", script(traps), str(stage.out)),
    ]


def environment_of_corral(stage: Stage, packages: Path) -> dict[str, str]:
    launcher = {name: value for name, value in os.environ.items() if name == "CORRAL_LAUNCHER"}
    own = {"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**stage.environment, **launcher, **own}


def plant_confined(
    stage: Stage,
    packages: Path,
    traps: tuple[Trap, ...],
    needed: Collection[str] | None = None,
    *,
    below: str = "",
) -> None:
    """Plant them in `corral run` with its defaults, as the user of the stage, at the top or further down.

    Raises RuntimeError if one is not there that is `needed`: all but those that a sandbox holds.
    """
    done = subprocess.run(
        confined(stage, traps),
        cwd=stage.ws / below,
        env=environment_of_corral(stage, packages),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    planted = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("planted ")}
    missing = {trap.name for trap in traps if not trap.held} if needed is None else {*needed}
    missing -= planted
    if missing:
        refused = [line for line in done.stdout.splitlines() if not line.startswith("planted ")]
        told = "\n".join([*refused, *done.stderr.splitlines()[:5]])
        raise RuntimeError(f"not planted: {sorted(missing)}\n{told}")


def _own_interpreter() -> str:
    """The one that runs the tests, if others may run it too."""
    real = Path(sys.executable).resolve()
    reachable = all(path.stat().st_mode & stat.S_IXOTH for path in (real, *real.parents))
    return str(real) if reachable else interpreter()


def require_native(request: pytest.FixtureRequest) -> None:
    probe = get_backend("native").probe(RealHost())
    if not probe.available:
        required = request.config.getoption("--require").split(",")
        (pytest.fail if "native" in required else pytest.skip)(f"native is not available: {probe.reason}")


def table(found: Iterable[Finding]) -> str:
    """By trap: what it did first, and which commands sprang it."""
    lines: dict[str, list[Finding]] = defaultdict(list)
    for finding in found:
        lines[finding.trap or f"({finding.kind} {finding.what})"].append(finding)
    shown = [f"{len(lines)} traps:"]
    for trap, findings in sorted(lines.items()):
        commands = list(dict.fromkeys(finding.command for finding in findings))
        more = f" and {len(commands) - 3} more" if len(commands) > 3 else ""
        shown.append(f"  {trap}: {findings[0].kind}, by {', '.join(commands[:3])}{more}")
    return "\n".join(shown)
