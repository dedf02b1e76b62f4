"""What is true in the guest of `make test-vm`; if it were not, the tests there would prove something else."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from corral.backends.registry import get_backend
from corral.host.real import RealHost
from corral.model.feature import Feature

ROOT = Path(__file__).resolve().parents[2]
GROUPS = Path("/sys/fs/cgroup")
USER = "root" if os.geteuid() == 0 else "tester"
LANDLOCK_IS_OLD = "the kernel has Landlock ABI 2, and 3 is needed (Linux 6.2)"


@pytest.fixture
def own_group() -> Path:
    return GROUPS / Path("/proc/self/cgroup").read_text().strip().removeprefix("0::/")


def test_the_kernel_is_the_older_one() -> None:
    assert platform.release().startswith("6.1.")
    assert RealHost().landlock_abi() == 2


def test_there_is_only_version_2_of_control_groups(own_group: Path) -> None:
    kinds = [line.split()[2] for line in Path("/proc/self/mounts").read_text().splitlines()]

    assert "cgroup" not in kinds and kinds.count("cgroup2") == 1
    assert own_group == GROUPS / USER / "session"


def test_the_user_may_make_a_group_beside_the_session_and_enter_it(own_group: Path) -> None:
    made = own_group.parent / "made"
    made.mkdir()
    enter = f"echo $$ > {made}/cgroup.procs && cat /proc/self/cgroup"
    done = subprocess.run(["/bin/sh", "-c", enter], capture_output=True, text=True, check=False)
    controllers = (made / "cgroup.controllers").read_text().split()
    made.rmdir()

    assert done.stdout == f"0::/{USER}/made\n"
    assert {"cpu", "memory", "pids"} <= set(controllers)


def test_native_claims_every_limit_that_groups_can_hold() -> None:
    probe = get_backend("native").probe(RealHost())

    assert probe.available, probe.reason
    assert {Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_PIDS} <= probe.enforces


def test_landlock_alone_is_refused_with_the_reason_and_nothing_runs(tmp_path: Path) -> None:
    corral = Path(sys.prefix) / "bin/corral"
    command = [corral, "run", "--backend", "landlock", "--", "touch", "ran"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert get_backend("landlock").probe(RealHost()).reason == LANDLOCK_IS_OLD
    assert (done.returncode, done.stdout) == (3, "")
    assert LANDLOCK_IS_OLD in done.stderr
    assert not (tmp_path / "ran").exists()


def test_the_project_cannot_be_changed() -> None:
    with pytest.raises(OSError, match="Read-only file system"):
        (ROOT / "written").touch()
