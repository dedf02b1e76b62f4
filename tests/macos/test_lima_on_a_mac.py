"""`lima` from a Mac: this machine, with Linux and corral in it, plays the guest of a pretended limactl."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from support.mac_stage import Mac
from support.probed import probe_of, silence_engines

BIN = Path(sys.executable).parent
WAIVED = "fs.protect,proc.contained"
LIMACTL = """#!/bin/sh
case $1 in
list) cat "$0.json" ;;
shell)
    shift 4
    cd /
    unset PYTHONPATH
    export HOME={home} XDG_STATE_HOME= PATH={path}:{engines}:/usr/bin:/bin
    exec "$@"
    ;;
esac
"""


@pytest.fixture
def machine(mac: Mac, tmp_path: Path) -> Mac:
    """A Mac with limactl, whose only instance is this machine with another home."""
    if not probe_of("native").available:
        pytest.skip("native does not work here, so the guest could confine nothing")
    (tmp_path / "guest").mkdir()
    limactl = tmp_path / "bin/limactl"
    engines = silence_engines(tmp_path / "engines")
    limactl.write_text(LIMACTL.format(home=tmp_path / "guest", path=BIN, engines=engines))
    limactl.chmod(0o755)
    _set_status(tmp_path, "Running")
    mac.env["PATH"] = f"{tmp_path / 'bin'}:{mac.env['PATH']}"  # type: ignore[index]
    return mac


def _set_status(place: Path, status: str) -> None:
    mounts = [{"location": str(place), "writable": True}]
    instance = {"name": "default", "status": status, "config": {"mounts": mounts}}
    (place / "bin/limactl.json").write_text(json.dumps(instance) + "\n")


def test_a_command_runs_in_the_guest_confined(machine: Mac) -> None:
    (machine.outside / "secret").write_text("the secret")
    script = f"cat; pwd; cat {machine.outside}/secret; echo x > made; exit 7"
    done = machine.corral(*("run", "--backend", "lima", "--waive", WAIVED, "-c", script), stdin="in\n")

    assert (done.returncode, done.stdout) == (7, f"in\n{machine.work}\n")
    assert "the secret" not in done.stdout
    assert (machine.work / "made").read_text() == "x\n"
    assert machine.left == []


@pytest.mark.parametrize(
    ("what", "why", "fix"),
    [
        ("stopped", "is not running, but Stopped", "limactl start default"),
        ("absent", "no instance 'default'", "limactl start default"),
        ("without", "there is no limactl on the PATH", "brew install lima"),
        ("empty", "there is no corral in the instance", "limactl shell default pip install corral=="),
    ],
)
def test_a_machine_that_cannot_be_used_is_told_with_what_to_type(
    machine: Mac, tmp_path: Path, what: str, why: str, fix: str
) -> None:
    limactl = tmp_path / "bin/limactl"
    if what == "stopped":
        _set_status(tmp_path, "Stopped")
    elif what == "absent":
        (tmp_path / "bin/limactl.json").write_text("")
    elif what == "without":
        limactl.unlink()
    else:
        limactl.write_text(limactl.read_text().replace(f"PATH={BIN}:", "PATH="))
    done = machine.corral("run", "--backend", "lima", "--waive", WAIVED, "--", "touch", "made")

    assert done.returncode == 3
    assert why in done.stderr
    assert fix in done.stderr
    assert os.listdir(machine.work) == []
