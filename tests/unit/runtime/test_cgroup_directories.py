"""Control groups, on directories that look like the kernel's: made, read and removed, leftovers too."""

from __future__ import annotations

import os
import subprocess

import pytest

from corral.model.errors import SetupError
from corral.model.launch import CgroupRequest
from corral.runtime import cgroup as cgroup_module
from corral.runtime.cgroup import Cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

REQUEST = CgroupRequest(memory_bytes=1 << 20, cpus=0.5, pids=10, launcher_pids=2)


@pytest.fixture
def version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A hierarchy for each controller."""
    parents = {name: tmp_path / name for name in ("memory", "cpu", "pids")}
    for parent in parents.values():
        parent.mkdir()
    monkeypatch.setattr(
        cgroup_module, "_parents", lambda: {name: str(path) for name, path in parents.items()}
    )
    monkeypatch.setattr(cgroup_module, "_REMOVE_SECONDS", 0.0)  # files of the kernel vanish, ours do not
    return parents


@pytest.fixture
def version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One hierarchy for all; the kernel puts `cgroup.type` into every new group."""
    real = os.mkdir

    def mkdir(path: str, *arguments: int) -> None:
        real(path, *arguments)
        for name in ("cgroup.type", "memory.swap.max"):
            open(os.path.join(path, name), "w").close()

    monkeypatch.setattr(cgroup_module.os, "mkdir", mkdir)
    monkeypatch.setattr(
        cgroup_module, "_parents", lambda: dict.fromkeys(("memory", "cpu", "pids"), str(tmp_path))
    )
    monkeypatch.setattr(cgroup_module, "_REMOVE_SECONDS", 0.0)
    return tmp_path


def _only(directory: Path) -> Path:
    (found,) = directory.iterdir()
    return found


def test_limits_are_written_as_version_1_wants_them(version_1) -> None:
    Cgroup(REQUEST, "run")

    assert (_only(version_1["memory"]) / "memory.limit_in_bytes").read_text() == str(1 << 20)
    assert (_only(version_1["cpu"]) / "cpu.cfs_quota_us").read_text() == "50000"
    assert (_only(version_1["cpu"]) / "cpu.cfs_period_us").read_text() == "100000"
    assert (_only(version_1["pids"]) / "pids.max").read_text() == "12"


def test_limits_are_written_as_version_2_wants_them(version_2) -> None:
    group = Cgroup(REQUEST, "run")
    made = _only(version_2)

    assert (made / "memory.max").read_text() == str(1 << 20)
    assert (made / "memory.swap.max").read_text() == "0"
    assert (made / "cpu.max").read_text() == "50000 100000"
    assert (made / "pids.max").read_text() == "12"
    assert group.process_files() == (f"{made}/cgroup.procs",)


def test_only_what_is_asked_for_is_made(version_1) -> None:
    Cgroup(CgroupRequest(pids=3), "run")

    assert [name for name, parent in version_1.items() if list(parent.iterdir())] == ["pids"]


@pytest.mark.parametrize(
    ("file", "text", "oom"),
    [
        ("memory.events", "low 0\noom 1\noom_kill 1\n", True),
        ("memory.events", "low 0\noom 1\noom_kill 0\n", False),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", True),
        ("memory.events", "oom_kill x\n", False),
    ],
)
def test_running_out_of_memory_is_read_from_the_kernels_counter(version_1, file, text, oom) -> None:
    group = Cgroup(REQUEST, "run")
    (_only(version_1["memory"]) / file).write_text(text)

    assert group.ran_out_of_memory() is oom


def test_a_refused_fork_is_read_from_the_kernels_counter(version_1) -> None:
    group = Cgroup(REQUEST, "run")
    assert not group.ran_out_of_pids()
    (_only(version_1["pids"]) / "pids.events").write_text("max 1\n")

    assert group.ran_out_of_pids()


def test_the_peak_is_what_the_kernel_says_or_nothing(version_1) -> None:
    group = Cgroup(REQUEST, "run")
    assert group.peak_memory_bytes() == 0
    (_only(version_1["memory"]) / "memory.max_usage_in_bytes").write_text("4096\n")

    assert group.peak_memory_bytes() == 4096


def test_leftovers_of_a_process_that_died_are_removed(version_1) -> None:
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    parent = version_1["pids"]
    for name in (f"corral-{gone.pid}-a", f"corral-{os.getpid()}-b", "corral-x-c", "other"):
        (parent / name).mkdir()

    Cgroup(CgroupRequest(pids=3), "run")

    left = {path.name for path in parent.iterdir()}
    assert left == {f"corral-{os.getpid()}-b", "corral-x-c", "other", f"corral-{os.getpid()}-run"}


def test_leftovers_that_are_in_use_are_left_alone(version_1) -> None:
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    busy = version_1["pids"] / f"corral-{gone.pid}-a" / "child"
    busy.mkdir(parents=True)

    Cgroup(CgroupRequest(pids=3), "run")

    assert busy.exists()


def test_a_limit_that_cannot_be_set_up_is_an_error_and_leaves_nothing(version_1, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cgroup_module, "_write", refuse)

    with pytest.raises(SetupError) as failed:
        Cgroup(REQUEST, "run")
    assert (failed.value.code, failed.value.ran) == ("cgroup", False)
    assert [list(parent.iterdir()) for parent in version_1.values()] == [[], [], []]


def test_a_controller_that_is_missing_is_an_error(monkeypatch) -> None:
    monkeypatch.setattr(cgroup_module, "_parents", dict)

    with pytest.raises(SetupError):
        Cgroup(REQUEST, "run")
