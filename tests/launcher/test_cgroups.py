"""Control groups in the launcher: entered before anything runs, left by nobody, ended at once.

A hybrid host has both versions. The second may have no controllers there, but members, processor time and an
end for all; that is what is looked at here.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

import pytest
from launching import bare, confined, launch, shell, start

from corral.linux.spec import Cgroup, CgroupKill, CgroupKillKind, CgroupKind, CpuTime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NEWCGROUP = 0x02000000
#: Starts a process that leaves its session and its parent, and ends before it.
_DAEMON = "setsid sh -c 'echo $$ > /dev/null; sleep 60' & sleep 60"


def _group(*places: str) -> Iterator[Path]:
    root = next((Path(place) for place in places if (Path(place) / "cgroup.procs").exists()), None)
    if root is None or os.getuid() or not os.access(root, os.W_OK):
        pytest.skip(f"no group can be made in {' or '.join(places)}")
    group = root / f"corral-test-{os.getpid()}-{time.monotonic_ns()}"
    group.mkdir()
    yield group
    if group.exists():
        _wait_until_empty(group)
        group.rmdir()


def _wait_until_empty(group: Path) -> None:
    end = time.monotonic() + 60
    while (group / "cgroup.procs").read_text():
        assert time.monotonic() < end, "somebody is left in the group"
        time.sleep(0.001)


@pytest.fixture
def pids() -> Iterator[Path]:
    yield from _group("/sys/fs/cgroup/pids")


@pytest.fixture
def freezer() -> Iterator[Path]:
    yield from _group("/sys/fs/cgroup/freezer")


@pytest.fixture
def cpuacct() -> Iterator[Path]:
    yield from _group("/sys/fs/cgroup/cpuacct")


@pytest.fixture
def unified() -> Iterator[Path]:
    yield from _group("/sys/fs/cgroup/unified", "/sys/fs/cgroup")


def _tasks(group: Path) -> Cgroup:
    return Cgroup(CgroupKind.TASKS, f"{group}/tasks")


def _birth(group: Path) -> Cgroup:
    return Cgroup(CgroupKind.BIRTH, str(group))


@pytest.mark.parametrize("make", [bare, confined])
def test_the_command_lives_in_a_group_of_version_1(launcher: Path, make, pids: Path) -> None:
    done = launch(launcher, make("cat", "/proc/self/cgroup", cgroups=(_tasks(pids),)))

    assert f"/{pids.name}\n" in done.output.decode()


@pytest.mark.parametrize("make", [bare, confined])
def test_the_command_is_born_in_a_group_of_version_2(launcher: Path, make, unified: Path) -> None:
    done = launch(launcher, make("cat", "/proc/self/cgroup", cgroups=(_birth(unified),)))

    assert f"0::/{unified.name}\n" in done.output.decode()


@pytest.mark.parametrize("make", [bare, confined])
def test_both_versions_at_once(launcher: Path, make, pids: Path, unified: Path) -> None:
    done = launch(launcher, make("cat", "/proc/self/cgroup", cgroups=(_tasks(pids), _birth(unified))))

    assert done.output.decode().count(f"/{unified.name}\n") == 1
    assert done.output.decode().count(f"/{pids.name}\n") == 1


def test_inside_its_group_is_the_root(launcher: Path, pids: Path, unified: Path) -> None:
    spec = confined("cat", "/proc/self/cgroup", cgroups=(_tasks(pids), _birth(unified)))

    done = launch(launcher, spec.replace(namespaces=spec.namespaces | _NEWCGROUP))

    assert "corral-test" not in done.output.decode()
    assert "0::/\n" in done.output.decode()


@pytest.mark.parametrize("make", [bare, confined])
def test_the_supervisor_stays_outside(launcher: Path, make, pids: Path) -> None:
    running = start(launcher, make(*shell("echo here; sleep 60"), cgroups=(_tasks(pids),)))
    running.wait_for_output(b"here")

    members = set((pids / "cgroup.procs").read_text().split())
    running.cut_lifeline()
    running.finish()

    assert members
    assert str(running.pid) not in members


def test_a_group_that_cannot_be_entered_ends_the_launch(plain: Path) -> None:
    done = launch(plain, bare("true", cgroups=(Cgroup(CgroupKind.BIRTH, "/proc"),)))

    (line,) = done.lines
    assert line.startswith("failed namespaces ")  # clone3 refuses what is no group
    assert f" {errno.EBADF} " in line


def test_the_freezer_ends_everyone(launcher: Path, freezer: Path) -> None:
    kill = CgroupKill(CgroupKillKind.FREEZER, str(freezer))
    _ends_everyone(launcher, freezer, bare(*shell(_DAEMON), cgroups=(_tasks(freezer),), cgroup_kill=kill))


def test_version_2_ends_everyone(launcher: Path, unified: Path) -> None:
    kill = CgroupKill(CgroupKillKind.FILE, f"{unified}/cgroup.kill")
    _ends_everyone(launcher, unified, bare(*shell(_DAEMON), cgroups=(_birth(unified),), cgroup_kill=kill))


def _ends_everyone(launcher: Path, group: Path, spec) -> None:
    running = start(launcher, spec.replace(wall_ms=300, grace_ms=0))
    running.wait_for("started")
    running.finish()

    assert "timed-out" in running.lines
    assert (group / "cgroup.procs").read_text() == ""


_BURN = "import time\nwhile time.process_time() < 5: pass"


@pytest.mark.parametrize("make", [bare, confined])
def test_processor_time_is_held_by_version_1(launcher: Path, make, cpuacct: Path) -> None:
    limit = CpuTime(200_000, 0, 1000, f"{cpuacct}/cpuacct.usage")
    done = launch(launcher, make("python3", "-c", _BURN, cgroups=(_tasks(cpuacct),), cpu_time=limit))

    assert "limit cpu-time" in done.lines
    assert 200_000 <= int((cpuacct / "cpuacct.usage").read_text()) // 1000 < 300_000


@pytest.mark.parametrize("make", [bare, confined])
def test_processor_time_is_held_by_version_2(launcher: Path, make, unified: Path) -> None:
    limit = CpuTime(200_000, 0, 1, f"{unified}/cpu.stat")
    done = launch(launcher, make("python3", "-c", _BURN, cgroups=(_birth(unified),), cpu_time=limit))

    assert "limit cpu-time" in done.lines
    used = int((unified / "cpu.stat").read_text().split()[1])
    assert 200_000 <= used < 300_000


def test_processor_time_counts_all_processes(launcher: Path, cpuacct: Path) -> None:
    limit = CpuTime(300_000, 0, 1000, f"{cpuacct}/cpuacct.usage")
    many = "for i in 1 2 3 4; do python3 -c 'import time\nwhile time.process_time() < 2: pass' & done; wait"
    done = launch(launcher, bare(*shell(many), cgroups=(_tasks(cpuacct),), cpu_time=limit))

    assert "limit cpu-time" in done.lines


def test_who_heeds_the_warning_may_end_by_itself(launcher: Path, cpuacct: Path) -> None:
    # What is left for it, a part of the limit, must be enough for an interpreter on a busy machine.
    script = "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(7))\nwhile True: pass"
    limit = CpuTime(1_600_000, 2000, 1000, f"{cpuacct}/cpuacct.usage")
    done = launch(launcher, bare("python3", "-c", script, cgroups=(_tasks(cpuacct),), cpu_time=limit))

    assert "limit cpu-time" in done.lines
    assert "exited 7" in done.lines


def test_processor_time_that_is_used_up_late_gives_no_more_time(launcher: Path, cpuacct: Path) -> None:
    """Whoever was told that the time is over idles, and then uses up the processor time as well."""
    burn = "i=0; while [ $i -lt 2000000 ]; do i=$((i+1)); done"
    limit = CpuTime(300_000, 60_000, 1000, f"{cpuacct}/cpuacct.usage")
    command = shell(f"trap '' TERM; sleep 2.2; {burn}; sleep 30")
    done = launch(
        launcher, bare(*command, cgroups=(_tasks(cpuacct),), cpu_time=limit, wall_ms=2000, grace_ms=1500)
    )

    assert "timed-out" in done.lines
    assert "limit cpu-time" not in done.lines
    assert "signalled 9" in done.lines


def _made(parent: Path) -> list[str]:
    """The groups that a launcher has made in another one."""
    return [path.name for path in parent.iterdir() if path.is_dir()]


def _made_tasks(parent: Path, limit: int = 5) -> dict[str, object]:
    return {
        "groups": (str(parent),),
        "cgroups": (Cgroup(CgroupKind.TASKS, "%0/tasks"),),
        "group_settings": (("%0/pids.max", str(limit)),),
    }


@pytest.mark.parametrize("make", [bare, confined])
def test_a_group_is_made_with_its_limit_and_removed(launcher: Path, make, pids: Path) -> None:
    script = "cat /proc/self/cgroup; for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; echo all"

    done = launch(launcher, make(*shell(script), **_made_tasks(pids)))

    assert f"/{pids.name}/corral-" in done.output.decode()
    assert b"fork" in done.output and b"all" not in done.output
    assert done.lines[-1] == "limit processes"
    assert _made(pids) == []


def test_a_group_of_version_2_is_made_and_entered(launcher: Path, unified: Path) -> None:
    birth = Cgroup(CgroupKind.BIRTH, "%0")

    done = launch(launcher, confined("cat", "/proc/self/cgroup", groups=(str(unified),), cgroups=(birth,)))

    assert f"/{unified.name}/corral-" in done.output.decode()
    assert (done.lines, _made(unified)) == (["started", "exited 0"], [])


@pytest.mark.parametrize("make", [bare, confined])
def test_a_group_is_removed_when_its_launcher_is_killed(launcher: Path, make, pids: Path) -> None:
    """By somebody who is not its descendant, and waits for its end alone."""
    running = start(launcher, make(*shell("sleep 60 & echo up; wait"), **_made_tasks(pids)))
    running.wait_for_output(b"up\n")
    assert len(_made(pids)) == 1

    running.kill(signal.SIGKILL)

    running.finish()
    end = time.monotonic() + 20
    while _made(pids) and time.monotonic() < end:
        time.sleep(0.005)
    assert _made(pids) == []


@pytest.mark.parametrize("phase", ["cgroup", "namespaces", "mounts", "landlock", "exec"])
def test_no_group_is_left_by_a_launch_that_fails(checked: Path, phase: str, pids: Path) -> None:
    done = launch(checked, confined("true", fault=phase, **_made_tasks(pids)))

    assert done.lines == [f"failed {phase} {errno.EIO} injected fault"]
    assert _made(pids) == []


def test_a_limit_that_cannot_be_set_stops_the_launch(launcher: Path, pids: Path) -> None:
    spec = confined("true", **_made_tasks(pids) | {"group_settings": (("%0/no.such", "1"),)})

    done = launch(launcher, spec)

    assert len(done.lines) == 1 and done.lines[0].startswith("failed group ")
    assert done.lines[0].endswith("/no.such") and _made(pids) == []


def test_a_group_that_cannot_be_made_stops_the_launch(launcher: Path, tmp_path: Path) -> None:
    done = launch(launcher, confined("true", groups=(str(tmp_path / "none"),)))

    assert done.lines[0].startswith(f"failed group {errno.ENOENT} make {tmp_path}/none/corral-")


def test_whoever_removes_groups_holds_nothing_of_the_callers(plain: Path, pids: Path) -> None:
    """Its one privilege is what it takes to remove a group in version 1."""
    running = start(plain, confined(*shell("echo up; sleep 60"), **_made_tasks(pids)))
    running.wait_for_output(b"up\n")
    removers = [
        path
        for path in Path("/proc").glob("[0-9]*")
        if path.name != str(running.pid) and _is_of(path, plain) and len(_descriptors(path)) == 2
    ]

    found = [(path / "status").read_text() for path in removers]
    running.cut_lifeline()
    running.finish()

    assert len(found) == 1
    assert "CapEff:\t0000000000000002\n" in found[0] and "CapPrm:\t0000000000000002\n" in found[0]


def _is_of(process: Path, program: Path) -> bool:
    try:
        return os.readlink(process / "exe") == str(program)
    except OSError:
        return False


def _descriptors(process: Path) -> list[str]:
    try:
        return os.listdir(process / "fd")
    except OSError:
        return []
