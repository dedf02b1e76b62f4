"""Nothing outlives a launch, and signals reach whom they are for."""

from __future__ import annotations

import select
import signal
import time
from pathlib import Path

import pytest
from launching import PATIENCE_SECONDS, MountFlag, bare, bind, confined, launch, shell, start

from corral.linux.spec import LimitWatch

TICK = 0.05


class Heartbeat:
    """A file that a process keeps touching: who still lives still beats."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "beat"
        self.script = f"while :; do echo x >> {self.file}; sleep {TICK}; done"
        self.daemon = f"(setsid sh -c '({self.script}) >/dev/null 2>&1 </dev/null &' &) ; "

    def wait(self) -> None:
        end = time.monotonic() + 60
        while not self.file.exists():
            assert time.monotonic() < end, "no heartbeat"
            time.sleep(TICK)

    def is_silent(self) -> bool:
        before = self.file.stat().st_size
        time.sleep(6 * TICK)
        return self.file.stat().st_size == before


@pytest.fixture
def heart(open_directory: Path) -> Heartbeat:
    return Heartbeat(open_directory)


@pytest.fixture(params=["namespaces", "bare"])
def make(request: pytest.FixtureRequest, user: int, heart: Heartbeat):
    if request.param == "bare":
        return bare
    share = bind(str(heart.file.parent), MountFlag(0))
    return lambda *argv, **more: confined(*argv, user=user, mounts=(share,), **more)


def test_a_daemon_dies_with_the_command(launcher: Path, make, user: int, heart: Heartbeat) -> None:
    done = launch(launcher, make(*shell(heart.daemon + "sleep 0.4")), user=user)

    assert done.lines == ["started", "exited 0"]
    assert heart.file.exists() and heart.is_silent()


def test_a_cut_lifeline_ends_all(launcher: Path, make, user: int, heart: Heartbeat) -> None:
    running = start(launcher, make(*shell(heart.daemon + heart.script)), user=user)
    heart.wait()

    running.cut_lifeline()
    done = running.finish()

    assert done.lines == ["started", f"signalled {int(signal.SIGKILL)}"]
    assert heart.is_silent()


def test_killing_the_supervisor_ends_all(launcher: Path, user: int, heart: Heartbeat) -> None:
    share = bind(str(heart.file.parent), MountFlag(0))
    running = start(
        launcher, confined(*shell(heart.daemon + heart.script), user=user, mounts=(share,)), user=user
    )
    heart.wait()

    running.kill(signal.SIGKILL)
    running.finish()

    time.sleep(0.1)
    assert heart.is_silent()


def test_killing_the_supervisor_ends_at_least_the_command_itself(plain: Path, heart: Heartbeat) -> None:
    """Without namespaces there is only the death signal."""
    running = start(plain, bare(*shell(heart.script)))
    heart.wait()

    running.kill(signal.SIGKILL)
    running.finish()

    time.sleep(0.1)
    assert heart.is_silent()


def test_the_wall_limit_ends_daemons_too(launcher: Path, make, user: int, heart: Heartbeat) -> None:
    done = launch(launcher, make(*shell(heart.daemon + "sleep 60"), wall_ms=500, grace_ms=100), user=user)

    assert "timed-out" in done.lines
    assert heart.is_silent()


def test_forkers_are_caught(plain: Path, make, heart: Heartbeat) -> None:
    """Each process has one child and ends: a moving target, and a bounded one."""
    chase = (
        "import os, time\n"
        "if os.fork(): time.sleep(0.3); os._exit(0)\n"
        "os.setsid()\n"
        f"end = time.time() + 20\nwhile time.time() < end:\n"
        f"  open('{heart.file}', 'a').write('x')\n"
        "  if os.fork(): os._exit(0)\n"
    )

    done = launch(plain, make("python3", "-SEc", chase))

    assert done.lines == ["started", "exited 0"]
    assert heart.is_silent()


def test_stdout_ends_with_the_command_not_with_the_launcher(plain: Path, make, user: int) -> None:
    """Neither supervisor nor init keeps the pipe open: its reader sees the end while the command runs."""
    running = start(plain, make(*shell("echo last; exec >/dev/null 2>&1; sleep 30")), user=user)
    running.wait_for_output(b"last\n")

    is_told = bool(select.select([running.output_fd], [], [], PATIENCE_SECONDS)[0])
    running.cut_lifeline()
    output = running.finish().output

    assert is_told and output == b"last\n"


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1]
)
def test_signals_are_forwarded(launcher: Path, make, user: int, number: int) -> None:
    script = f"trap 'echo got; exit 9' {int(number)}; echo ready; while :; do sleep {TICK}; done"
    running = start(launcher, make(*shell(script)), user=user)
    running.wait_for_output(b"ready\n")

    running.kill(number)
    done = running.finish()

    assert done.lines == ["started", "exited 9"]
    assert done.output.endswith(b"got\n")  # before it, the shell may name what killed its sleep


def test_the_whole_process_group_gets_the_signal(plain: Path, make) -> None:
    running = start(plain, make(*shell("trap '' TERM; sleep 30 & echo ready; wait $!; echo $?; exit 4")))
    running.wait_for_output(b"ready\n")
    time.sleep(TICK)

    running.kill(signal.SIGINT)
    done = running.finish()

    assert done.lines == ["started", f"signalled {int(signal.SIGINT)}"]


def test_a_signal_before_the_start_is_not_lost(plain: Path, make) -> None:
    for _ in range(20):
        running = start(plain, make("sleep", "60"))
        running.kill(signal.SIGTERM) if _wait_for_exec(running.pid) else None
        done = running.finish()
        assert done.lines[-1] == f"signalled {int(signal.SIGTERM)}"


def _wait_for_exec(pid: int) -> bool:
    """Until the launcher blocks its signals; before that it is Python that would die."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigBlk:") and int(line.split()[1], 16) >> 14 & 1:
                return True
    raise AssertionError("the launcher never blocked its signals")


def test_stop_and_continue(plain: Path, make, heart: Heartbeat) -> None:
    running = start(plain, make(*shell(heart.script)))
    heart.wait()

    running.kill(signal.SIGTSTP)
    time.sleep(2 * TICK)
    assert heart.is_silent()
    running.kill(signal.SIGCONT)
    time.sleep(2 * TICK)
    assert not heart.is_silent()

    running.kill(signal.SIGTERM)
    assert running.finish().lines == ["started", f"signalled {int(signal.SIGTERM)}"]


SECRETS = (
    "cat /proc/{0}/environ; cat /proc/{0}/maps; cat /proc/{0}/fd/{1}; "
    "readlink /proc/{0}/cwd || echo denied; echo alive"
)


def test_init_cannot_be_killed_or_read_from_inside(launcher: Path, user: int) -> None:
    script = "trap '' TERM; kill -9 1; kill -TERM 1; " + SECRETS.format(1, 3)

    done = launch(launcher, confined(*shell(script), user=user), user=user)

    assert done.lines == ["started", "exited 0"]
    assert done.output.endswith(b"denied\nalive\n")
    assert done.output.count(b"Permission denied") == 3


def test_the_supervisor_cannot_be_read_without_namespaces(launcher: Path, user: int) -> None:
    done = launch(launcher, bare(*shell(SECRETS.format("$PPID", 4))), user=user)

    assert done.output.endswith(b"denied\nalive\n")
    assert done.output.count(b"Permission denied") == 3


def test_orphans_are_reaped_by_init(plain: Path) -> None:
    script = (
        "i=0; while [ $i -lt 50 ]; do (true &) ; i=$((i+1)); done; sleep 0.3; "
        "grep -c '^State:.Z' /proc/[0-9]*/status"
    )

    done = launch(plain, confined(*shell(script)))

    assert all(line.endswith(b":0") for line in done.output.splitlines())


def test_a_caller_that_ignores_its_children_is_survived(launcher: Path, make, user: int) -> None:
    """An ignored SIGCHLD is inherited, and would make the kernel reap behind the launcher's back."""
    running = start(launcher, make(*shell("exit 5")), user=user, ignored=(signal.SIGCHLD,))

    assert running.finish().lines == ["started", "exited 5"]


#: Processes that do nothing but start one like themselves and end: so many, and for longer than a second.
_COMETS = """
import os, sys, time
for _ in range(6):
    if os.fork() == 0:
        for _ in range(1500):
            if os.fork(): os._exit(0)
            time.sleep(0.001)
        open(sys.argv[1] + '/over', 'w').close()
        os._exit(0)
time.sleep(60)
"""


@pytest.mark.parametrize("make", [bare, confined])
def test_a_flood_of_the_dead_does_not_stop_the_clock(launcher: Path, make, open_directory: Path) -> None:
    shown = {"mounts": (bind(str(open_directory), MountFlag(0)),)} if make is confined else {}
    limits = {"wall_ms": 300, "grace_ms": 100}
    running = start(launcher, make("python3", "-S", "-c", _COMETS, str(open_directory), **shown, **limits))
    running.wait_for("timed-out", seconds=60.0)
    running.finish(seconds=60.0)

    assert list(open_directory.iterdir()) == [], "it waited for the flood to end"


def test_the_flood_comes_to_its_end_where_nothing_ends_it(plain: Path, open_directory: Path) -> None:
    """The control. A tenth of it does: it ends in the same way."""
    fewer = _COMETS.replace("range(1500)", "range(150)")
    running = start(plain, bare("python3", "-S", "-c", fewer, str(open_directory)))
    deadline = time.monotonic() + 60
    while not (open_directory / "over").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.cut_lifeline()
    running.finish()


@pytest.mark.parametrize("make", [bare, confined])
def test_a_flood_of_the_dead_does_not_stop_the_watch(launcher: Path, make) -> None:
    fills = _COMETS.replace("time.sleep(60)", "time.sleep(0.3); held = bytearray(300 << 20); time.sleep(60)")
    running = start(
        launcher, make("python3", "-S", "-c", fills, "/nowhere", watch=LimitWatch(memory_bytes=200 << 20))
    )
    running.wait_for("limit memory", seconds=60.0)
    running.finish(seconds=60.0)
