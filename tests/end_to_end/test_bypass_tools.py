"""Tools that the user lets out of the sandbox: these, and nothing that looks like them.

Every test that something is out of reach has a control beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import Corral


@pytest.fixture
def todoread(home: Path, user_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tool of the user's on the PATH that bypasses the sandbox."""
    user_file.write_text(json.dumps({"sandbox": {"bypass_tools": ["~/bin/todoread", "cat"]}}))
    tool = home / "bin" / "todoread"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ncat {home}/.ssh/id_ed25519\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return tool


def test_a_bypass_tool_runs_on_the_host_and_nothing_else_does(
    corral: Corral, todoread: Path, home: Path
) -> None:
    key = f"{home}/.ssh/id_ed25519"
    for words in (("todoread",), (str(todoread),), ("cat", key)):
        done = corral("run", "--", *words)
        assert done.stdout == b"SECRET KEY"
        assert b"is among bypass_tools" in done.stderr
    for words in (("sh", "-c", "todoread"), ("env", "todoread"), ("/usr/bin/head", key), ("./todoread",)):
        assert b"SECRET KEY" not in corral("run", "--", *words).stdout
    assert b"SECRET KEY" not in corral("run", "-c", "todoread").stdout
    for flag in (("--sandbox",), ("--backend", "native")):
        assert b"SECRET KEY" not in corral("run", *flag, "--", "todoread").stdout


def test_a_bare_name_is_for_programs_of_the_system(corral: Corral, todoread: Path, user_file: Path) -> None:
    """In any other directory of the PATH a command may have put it, in some earlier workspace."""
    user_file.write_text(json.dumps({"sandbox": {"bypass_tools": ["todoread"]}}))

    assert b"SECRET KEY" not in corral("run", "--", "todoread").stdout


def test_a_program_that_another_agent_can_write_is_no_bypass_tool(
    corral: Corral, todoread: Path, user_file: Path, home: Path
) -> None:
    user_file.write_text(
        json.dumps(
            {
                "sandbox": {"bypass_tools": [str(todoread)]},
                "agent": {"w": {"sandbox": {"readwrite_paths": [str(todoread.parent)]}}},
            }
        )
    )

    assert b"SECRET KEY" not in corral("run", "--", "todoread").stdout


def test_a_program_that_a_command_could_have_planted_is_no_bypass_tool(
    corral: Corral, todoread: Path, project: Path, home: Path
) -> None:
    """Earlier on the PATH than the real one, inside the workspace: as in node_modules/.bin, or by a link."""
    planted = project / "bin"
    planted.mkdir()
    shutil.copy(todoread, planted / "todoread")
    user_file = home / ".config" / "corral" / "corral.json"
    named = [str(planted / "todoread"), str(home / "bin2" / "todoread"), "todoread"]
    user_file.write_text(json.dumps({"sandbox": {"bypass_tools": named}}))
    found_first = {"PATH": f"{planted}:{os.environ['PATH']}"}
    assert (
        subprocess.run(["todoread"], env={**os.environ, **found_first}, capture_output=True).returncode == 0
    )

    assert b"SECRET KEY" not in corral("run", "--", "todoread", **found_first).stdout

    (home / "bin2").mkdir()
    (home / "bin2" / "todoread").symlink_to(planted / "todoread")
    assert (
        b"SECRET KEY" not in corral("run", "--", "todoread", PATH=f"{home}/bin2:{os.environ['PATH']}").stdout
    )


def test_a_project_cannot_name_bypass_tools(
    corral: Corral, todoread: Path, user_file: Path, project: Path
) -> None:
    shutil.move(user_file, project / "corral.json")

    assert b"SECRET KEY" not in corral("run", "--", "todoread").stdout
