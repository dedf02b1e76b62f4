"""Transcripts are real: every command is run, and what it prints is what the document says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.transcripts import steps_of, told_first

TOP = Path(__file__).resolve().parents[2]


def matches(printed: str, expected: list[str]) -> bool:
    """`...` stands for anything: a time, a directory of this machine, lines of a traceback.

    Corral says what it refuses while the command runs, so its lines may come before the command's or after.
    """
    pattern = re.escape("\n".join(told_first(expected))).replace(r"\.\.\.", ".*")
    lines = told_first(printed.strip("\n").split("\n"))
    return re.fullmatch(pattern, "\n".join(lines), re.DOTALL) is not None


def file_shown(command: str, files: dict[str, Path]) -> Path | None:
    """The file that `cat` shows, if the test has to write it first; what it shows is the text to write."""
    return files.get(command.removeprefix("cat ")) if command.startswith("cat ") else None


@pytest.mark.parametrize("document", ["README.md", "docs/cookbook.md"])
def test_the_transcript_is_real(document: str, project: Path, home: Path, tmp_path: Path) -> None:
    steps = steps_of(TOP / document)
    assert len(steps) > 8
    files = {
        "~/.config/corral/corral.toml": home / ".config/corral/corral.toml",
        "corral.toml": project / "corral.toml",
    }
    (project / "test_sum.py").write_text(
        "import unittest\n\n\nclass Sums(unittest.TestCase):\n    def test(self):\n        assert 1 + 1\n"
    )
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "corral").symlink_to(Path(sys.executable).with_name("corral"))
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    for command, expected in steps:
        shown = file_shown(command, files)
        if shown is not None:
            shown.parent.mkdir(parents=True, exist_ok=True)
            shown.write_text("\n".join(expected) + "\n")
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=project,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert matches(done.stdout, expected), f"$ {command}\n{done.stdout}"
