"""What these programs measure can be measured. No number is judged here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough
BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.mark.parametrize(
    ("program", "goal"), [("network.py", "no failure"), ("entry_program.py", "commands without Python")]
)
def test_every_goal_is_measured(program: str, goal: str) -> None:
    if program == "entry_program.py" and not (Path(sys.executable).parent / "corral-python").exists():
        pytest.skip("corral was installed without its entry program")
    line = [sys.executable, str(BENCH / program), "--quick"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=110, check=False)

    assert done.returncode in {0, 1}, done.stderr
    assert "Goals: " in done.stdout and "0 not measured" in done.stdout
    assert goal in done.stdout
