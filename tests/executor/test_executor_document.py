"""The programs of docs/executor.md print what the document says that they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).resolve().parents[2] / "docs/executor.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```.*?```\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=["commands", "functions"])
def test_a_program_prints_what_is_shown(native: None, program: str, printed: str, work: Path) -> None:
    (work / "example.py").write_text(program)

    done = subprocess.run(
        [sys.executable, "example.py"], cwd=work, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.stdout, done.stderr) == (printed, "")
