"""Programs that corral starts on the host are not taken from where commands may have put them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.host.programs import find_program


def put(directory: Path, name: str = "bwrap") -> str:
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "project"


def test_a_program_on_the_path_is_found(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = put(project.parent / "tools")
    monkeypatch.setenv("PATH", f"/nowhere:{project.parent}/tools")

    assert find_program("bwrap") == os.path.realpath(found)


@pytest.mark.parametrize("place", [".", "bin", "node_modules/.bin", ".venv/bin"])
def test_nothing_is_taken_from_the_working_directory(
    project: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    put(project / place)
    trusted = put(project.parent / "tools")
    monkeypatch.setenv("PATH", f"{project}/{place}:{place}::{project.parent}/tools")

    assert find_program("bwrap") == os.path.realpath(trusted)


@pytest.mark.parametrize("kind", ["virtual environment", "packages", "named by the caller", "link"])
def test_nothing_is_taken_from_where_projects_keep_programs(
    project: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    other = project.parent / "other"
    directory = {"packages": other / "node_modules/.bin"}.get(kind, other / "bin")
    put(directory)
    if kind == "virtual environment":
        (other / "pyvenv.cfg").touch()
    if kind == "link":
        put(project / "real")
        (directory / "bwrap").unlink()
        (directory / "bwrap").symlink_to(project / "real/bwrap")
    monkeypatch.setenv("PATH", str(directory))

    assert find_program("bwrap", [str(other)] if kind == "named by the caller" else []) == ""


def test_a_home_that_one_works_in_is_no_reason(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = project.parent / "home"
    found = put(home / "bin")
    monkeypatch.chdir(home)
    monkeypatch.setenv("PATH", f"{home}/bin")

    assert find_program("bwrap") == os.path.realpath(found)
