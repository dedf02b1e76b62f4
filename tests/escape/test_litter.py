"""Corral leaves nothing behind: not in the workspace, nor in temporary directories, nor in the mounts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.backends.registry import BUILTIN, MODULES, UNCONFINED, UNPROVED
from corral.model.errors import UnenforceableError
from corral.sandbox import Sandbox
from corral.selftest.battery import claims_of, run_battery
from corral.selftest.stage import IN_PLACE, Stage, StagedHost
from support.host_mounts import host_mounts

CONFINING = [name for name in BUILTIN if name not in {UNCONFINED, MODULES, *UNPROVED}]


def listing(top: str | Path) -> list[tuple[str, int, int]]:
    found = []
    for directory, names, files in os.walk(top):
        for name in (*names, *files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            found.append((path, status.st_mode, status.st_size))
    return sorted(found)


@pytest.mark.parametrize("name", CONFINING)
def test_harmless_command_leaves_the_workspace_as_it_was(name: str) -> None:
    try:
        enforces = claims_of(name)
    except UnenforceableError as problem:
        pytest.skip(problem.why)
    with Stage() as stage:
        stage.repository()
        stage.write("ws/src/main.py", "print(1)\n")
        host = StagedHost(stage)
        place = stage.workspace
        required = Sandbox(backend=UNCONFINED, workspace=place, host=host).explain("true").plan.requires
        sandbox = Sandbox(
            backend=name, workspace=place, waive=required - enforces, host=host, container=IN_PLACE
        )
        before = listing(stage.base)

        result = sandbox.run(["/bin/sh", "-c", "touch $HOME/x $TMPDIR/x; echo done"])

        assert (result.stdout, result.stderr) == ("done\n", "")
        assert listing(stage.base) == before


def test_battery_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    mounts, sleepers = host_mounts(), _sleepers()
    only = ("plant-read-only-directory", "kill-host-process", "remount-writable", "abstract-socket")

    run_battery(UNCONFINED, only=only)

    assert list(tmp_path.iterdir()) == []
    assert host_mounts() == mounts
    assert _sleepers() <= sleepers


def _sleepers() -> set[str]:
    """Victims of attacks are these; others may have children of that name too."""
    found = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "sleep"], capture_output=True, text=True, check=False
    )
    return set(found.stdout.split())
