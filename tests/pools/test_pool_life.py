"""A pool keeps its stock: size, age, health, refill; turns and their order; ends of all kinds."""

from __future__ import annotations

import itertools
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import corral.sessions.stock as stock_module
from corral import PolicyError, Pool, SetupError
from support.keeping import is_alive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral import Result
    from support.gates import Gate

PATIENCE = 30.0


def until(holds) -> None:
    """Wait for something that is bound to come; it fails if it does not."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


def pids_of(pool: Pool) -> list[int]:
    return [ready.session._kept.pid for ready in pool._stock._ready]


def kill_and_wait(pid: int) -> None:
    handle = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([handle], [], [], PATIENCE)[0]
    os.close(handle)


def test_it_is_filled_before_anything_runs(make_sandbox) -> None:
    with Pool(make_sandbox(), size=3) as pool:
        assert pool.fill(PATIENCE)
        stats = pool.stats()

    assert (stats.ready, stats.made, stats.used) == (3, 3, 0)


def test_a_command_takes_what_is_ready_and_it_is_replaced(make_sandbox) -> None:
    with Pool(make_sandbox(), size=2) as pool:
        pool.fill(PATIENCE)
        before = set(pids_of(pool))
        pool.run("true").check()
        assert pool.fill(PATIENCE)
        stats = pool.stats()
        after = set(pids_of(pool))

    assert (stats.used, stats.late, stats.made) == (1, 0, 3)
    assert len(before & after) == 1


def test_a_long_command_does_not_keep_the_stock_low(make_sandbox, gate: Gate) -> None:
    with Pool(make_sandbox(), size=2) as pool:
        pool.fill(PATIENCE)
        thread = threading.Thread(target=pool.run, args=("exec 9>gate; sleep 600",))
        thread.start()
        until(lambda: pool.stats().used == 1)
        until(lambda: pool.stats().ready == 2)
        is_running = pool.stats().running
        pool.close()
        thread.join()

    assert is_running == 1
    assert gate.is_left()


def test_one_that_was_killed_is_replaced_and_counted(make_sandbox) -> None:
    with Pool(make_sandbox(), size=1) as pool:
        pool.fill(PATIENCE)
        kill_and_wait(pids_of(pool)[0])
        result = pool.run("echo fine")
        stats = pool.stats()

    assert result.stdout == "fine\n"
    assert (stats.dead, stats.late) == (1, 1)


def test_one_whose_first_process_was_killed_runs_nothing(make_sandbox) -> None:
    with Pool(make_sandbox(), size=1) as pool:
        pool.fill(PATIENCE)
        outer = pids_of(pool)[0]
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        kill_and_wait(int(children[0]))
        result = pool.run("echo fine")

    assert result.stdout == "fine\n"


def test_a_command_whose_sandbox_is_killed_is_not_run_again(make_sandbox, work: Path, gate: Gate) -> None:
    """It may have done half of its work: the caller is told, and decides."""
    with Pool(make_sandbox(), size=1) as pool:
        pool.fill(PATIENCE)
        outer = pids_of(pool)[0]
        os.mkfifo(work / "begun")
        told: list[Result] = []

        def run() -> None:
            told.append(pool.run("echo x >> runs; exec 9>gate; echo up > begun; sleep 600"))

        thread = threading.Thread(target=run)
        thread.start()
        (work / "begun").read_text()
        kill_and_wait(outer)
        thread.join()

    assert (work / "runs").read_text() == "x\n"
    assert (told[0].exit_code, told[0].signal) == (None, signal.SIGKILL)
    assert gate.is_left()


def test_one_that_has_waited_too_long_is_replaced_in_the_background(make_sandbox) -> None:
    with Pool(make_sandbox(), size=1, idle_seconds=0.2) as pool:
        until(lambda: pool.stats().expired >= 2)


def test_one_that_has_waited_too_long_is_never_handed_out(make_sandbox, monkeypatch) -> None:
    with Pool(make_sandbox(), size=2, idle_seconds=3600) as pool:
        pool.fill(PATIENCE)
        monkeypatch.setattr(stock_module, "monotonic", lambda: time.monotonic() + 3600)
        pool.run("true").check()
        stats = pool.stats()

    assert stats.expired >= 2
    assert stats.late == 1


def test_a_refill_that_fails_does_not_spin_and_the_next_run_says_why(make_sandbox, monkeypatch) -> None:
    real = Pool._make
    tries: list[float] = []
    is_forbidden = True

    def fail(pool: Pool) -> object:
        if not is_forbidden:
            return real(pool)
        tries.append(time.monotonic())
        raise SetupError("streams", "nothing can be made", why="a test forbids it", fix="end the test")

    monkeypatch.setattr(Pool, "_make", fail)
    with Pool(make_sandbox(), size=4) as pool:
        until(lambda: pool.stats().failed >= 3)
        with pytest.raises(SetupError, match="nothing can be made"):
            pool.run("true")
        with pytest.raises(SetupError, match="nothing can be made"):
            pool.fill(PATIENCE)
        is_forbidden = False
        assert pool.run("echo again").stdout == "again\n"
        assert pool.fill(PATIENCE)

    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert max(pauses) >= stock_module._FIRST_PAUSE
    assert len(tries) < 20


def test_only_so_many_run_at_a_time_and_the_rest_in_order(make_sandbox, work: Path) -> None:
    os.mkfifo(work / "go")
    order: list[str] = []
    with Pool(make_sandbox(), size=1, max_parallel=1) as pool:
        first = threading.Thread(target=pool.run, args=("read line < go",))
        first.start()
        until(lambda: pool.stats().running == 1)
        others = []
        for number in range(4):
            hear = lambda _name, data: order.append(data.decode())  # noqa: E731
            others.append(
                threading.Thread(target=pool.run, args=(f"echo -n {number}",), kwargs={"stream": hear})
            )
            others[-1].start()
            until(lambda n=number: pool.stats().waiting == n + 1)
        with pytest.raises(SetupError) as busy:
            pool.run("true", wait=0.01)
        most = pool.stats()
        (work / "go").write_text("x\n")
        for thread in (first, *others):
            thread.join()
        after = pool.stats()

    assert busy.value.code == "pool-busy"
    assert (most.running, most.waiting) == (1, 4)
    assert order == ["0", "1", "2", "3"]
    assert (after.running, after.waiting) == (0, 0)


def test_closing_ends_what_runs_and_what_waits(make_sandbox, gate: Gate) -> None:
    outcomes: list[object] = []

    def run(line: str) -> None:
        try:
            outcomes.append(pool.run(line).outcome.value)
        except SetupError as error:
            outcomes.append(error.code)

    pool = Pool(make_sandbox(), size=1, max_parallel=1)
    threads = [threading.Thread(target=run, args=("exec 9>gate; sleep 600",))]
    threads[0].start()
    until(lambda: pool.stats().used == 1)
    threads.append(threading.Thread(target=run, args=("true",)))
    threads[1].start()
    until(lambda: pool.stats().waiting == 1)
    pool.close()
    for thread in threads:
        thread.join()

    assert sorted(map(str, outcomes)) == ["pool-closed", "signalled"]
    with pytest.raises(SetupError) as closed:
        pool.run("true")
    assert closed.value.code == "pool-closed"
    pool.close()


def test_a_session_of_the_pool_is_the_callers(make_sandbox) -> None:
    with Pool(make_sandbox(), size=1) as pool:
        pool.fill(PATIENCE)
        with pool.session() as session:
            session.run("echo 1 > /tmp/mark").check()
            again = session.run("cat /tmp/mark").stdout
            other = pool.run("cat /tmp/mark")
        used = pool.stats().used

    assert again == "1\n"
    assert other.exit_code == 1
    assert used == 2


@pytest.mark.parametrize("option", ["size", "max_parallel", "idle_seconds"])
def test_a_pool_of_nothing_is_refused(option: str) -> None:
    with pytest.raises(PolicyError, match=option):
        Pool(**{option: 0})


def test_a_forked_process_neither_uses_nor_ends_the_sandboxes(make_sandbox) -> None:
    with Pool(make_sandbox(), size=1) as pool:
        pool.fill(PATIENCE)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                pool.run("true")
            except SetupError as error:
                pool.close()
                status = 0 if error.code == "pool-forked" else 2
            os._exit(status)
        _, status = os.waitpid(child, 0)
        result = pool.run("echo still")
        stats = pool.stats()

    assert os.waitstatus_to_exitcode(status) == 0
    assert result.stdout == "still\n"
    assert stats.late == stats.dead == 0


PROGRAM = """
import sys
from corral import Pool, Sandbox
pool = Pool(Sandbox("moderate", backend="native", workspace=sys.argv[1]), size=3)
pool.fill(30)
print(*(ready.session._kept.pid for ready in pool._stock._ready), flush=True)
if sys.argv[2] == "leave":
    sys.exit(0)
sys.stdin.read()
"""


@pytest.mark.parametrize("way", ["leave", "kill"])
def test_a_program_that_does_not_close_its_pool_leaves_nothing(way: str, work: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(work), way], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        pids = [int(pid) for pid in program.stdout.readline().split()]
        if way == "kill":
            program.kill()
        program.wait()

    assert len(pids) == 3
    until(lambda: not any(map(is_alive, pids)))


@pytest.mark.thorough
def test_two_hundred_at_once_lose_nothing_and_leave_nothing(make_sandbox) -> None:
    before, children = set(os.listdir("/proc/self/fd")), _children()
    answers: dict[int, str] = {}
    with Pool(make_sandbox(), size=4, max_parallel=8) as pool:

        def run(number: int) -> None:
            answers[number] = pool.run(["/bin/echo", str(number)]).check().stdout

        threads = [threading.Thread(target=run, args=(number,)) for number in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        used = pool.stats().used

    assert answers == {number: f"{number}\n" for number in range(200)}
    assert used == 200
    assert set(os.listdir("/proc/self/fd")) <= before
    assert _children() <= children


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


WITHOUT_DESCRIPTORS = """
import os, resource, sys
from corral import CorralError, Pool, Sandbox

def count():
    return len(os.listdir("/proc/self/fd"))

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
answers = set()
with Pool(Sandbox("moderate", backend="native", workspace=sys.argv[1]), size=1) as pool:
    pool.run("true")
    pool.close()
before = count()
for room in range(24):
    with Pool(Sandbox("moderate", backend="native", workspace=sys.argv[1]), size=1) as pool:
        if room % 2:
            pool.fill(30)
        resource.setrlimit(resource.RLIMIT_NOFILE, (count() + room, hard))
        try:
            answers.add(pool.run("echo fine").stdout.strip())
        except CorralError as error:
            answers.add(error.code)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        answers.add("after: " + pool.run("echo fine").stdout.strip())
print(sorted(answers), count() - before)
"""


def test_without_descriptors_it_says_so_and_loses_none(work: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS, str(work)], capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    assert "'after: fine'" in done.stdout and "'streams'" in done.stdout
    assert done.stdout.endswith("] 0\n")
