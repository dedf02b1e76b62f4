"""What `bench/mcp_calls.py` measures can be measured. No number is judged here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough
BENCH = Path(__file__).resolve().parents[2] / "bench" / "mcp_calls.py"


def test_every_goal_of_the_server_is_measured() -> None:
    line = [sys.executable, str(BENCH), "--quick"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=110, check=False)

    assert done.returncode in {0, 1}, done.stderr
    assert "Goals: " in done.stdout and "fifty clients at once" in done.stdout
