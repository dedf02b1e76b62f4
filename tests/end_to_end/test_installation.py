"""Installing with and without a C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corral.host.real import RealHost

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.thorough
def test_an_install_without_a_compiler_succeeds_and_the_doctor_says_what_is_missing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "bin", "__pycache__", ".*_cache", ".hypothesis", ".vm", ".images"
    )
    shutil.copytree(ROOT, source, ignore=ignored)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "env", "uname", "cat"):
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    env = {**os.environ, "PATH": str(tools), "HOME": str(tmp_path)}
    env.pop("CC", None)

    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", source]
    done = subprocess.run(install, env=env, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    doctor = subprocess.run(
        [tmp_path / "venv" / "bin" / "corral", "doctor", "-v"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert doctor.returncode == 3
    assert "the launcher was not built: no C compiler" in doctor.stdout
    assert "fix: install a C compiler" in doctor.stdout
    assert "none        works" in doctor.stdout


def test_the_launcher_is_installed_beside_the_command() -> None:
    """As a program of its own, for who has a plan and no use for Python; the same that corral itself uses."""
    launcher, _ = RealHost().launcher()
    beside = Path(sys.executable).with_name("corral-launch")
    builds = [
        subprocess.run([path, "--build"], capture_output=True, check=True).stdout
        for path in (launcher, beside)
    ]

    assert builds[0] == builds[1] != b"development\n"


def test_the_preferred_compiler_made_the_launcher() -> None:
    """A build that falls back to another C library works as well, and starts half a millisecond later."""
    launcher, _ = RealHost().launcher()
    notes = Path(launcher).with_name("BUILD_NOTES")

    assert not notes.exists(), notes.read_text(encoding="utf-8")
