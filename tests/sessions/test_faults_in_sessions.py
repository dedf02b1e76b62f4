"""Whoever dies, and whatever is used up: an error that says so, nothing left behind, and no other harm."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from corral.model.errors import CorralError, SetupError
from support.descriptors import count_descriptors
from support.keeping import (
    MOST_IDLE,
    children_of,
    descendants_of,
    find_by_argument,
    is_alive,
    server_of,
    wait_until,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.session import Session
    from support.keeping import Keeper

BACKENDS = ("native", "landlock", "bubblewrap")
_HOST = """
import sys
import threading
from corral.sandbox import Sandbox
sandbox, made = Sandbox(backend=sys.argv[1], workspace=sys.argv[2], waive=sys.argv[4:]), []
maker = threading.Thread(target=lambda: made.append(sandbox.session()))
maker.start()
maker.join()
session = made[0]
session.start(["sleep", sys.argv[3]])
print(session.run(f"setsid sleep {sys.argv[3]} >/dev/null 2>&1 & echo ready").stdout, flush=True)
session.run("yes", stream=lambda name, data: None)
"""


def works(session: Session) -> bool:
    return session.run(["/bin/echo", "well"]).stdout == "well\n"


def expect_lost(session: Session) -> None:
    wait_until(lambda: not session.is_open, "the session is over")
    with pytest.raises(SetupError) as lost:
        session.run("true")
    assert lost.value.code == "session-lost"


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_outlives_the_host_process(keeper: Keeper, backend: str) -> None:
    waived = [feature.value for feature in keeper.session(backend=backend)._kept.plan.waived]
    mark = f"5100{os.getpid()}"
    host = subprocess.Popen(
        [sys.executable, "-c", _HOST, backend, str(keeper.work), mark, *waived],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert host.stdout is not None and host.stdout.readline() == "ready\n"
        wait_until(lambda: len(descendants_of(host.pid)) >= 4, "all that it starts is there")
        inside = descendants_of(host.pid)
    finally:
        host.kill()
        host.wait()

    wait_until(lambda: not any(map(is_alive, inside)), "all processes of the session are gone")
    assert not find_by_argument(mark)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_session_outlives_the_thread_that_made_it(keeper: Keeper, backend: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        session = pool.submit(keeper.session, backend=backend).result()
        thread = pool.submit(threading.get_native_id).result()
    wait_until(lambda: str(thread) not in os.listdir("/proc/self/task"), "the thread is gone")

    assert works(session)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(session.reset).result()
    assert all(works(session) for _ in range(5))


def test_a_sandbox_whose_outer_program_was_killed_is_ended_by_force(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = keeper.session(backend="bubblewrap")
    outer, server = session._kept.pid, session._kept.inner
    monkeypatch.setattr("corral.runtime.launcher.starter.END_SECONDS", 0.5)
    os.kill(server, signal.SIGSTOP)
    os.kill(outer, signal.SIGKILL)

    session.close()

    wait_until(lambda: not is_alive(server), "the server is gone")


@pytest.mark.parametrize("who", ["supervisor", "server", "waiting-job"])
def test_a_session_that_loses_a_process_ends_and_no_other_does(keeper: Keeper, who: str) -> None:
    session, other = keeper.session(), keeper.session()
    mark = f"5200{os.getpid()}"
    session.start(["sleep", mark])
    wait_until(lambda: bool(find_by_argument(mark)), "it runs")
    supervisor, server = session._kept.inner, server_of(session)
    busy = {pid for pid in children_of(server) if children_of(pid)}
    wait_until(lambda: len(children_of(server)) > len(busy), "a job waits")
    waiting = next(pid for pid in children_of(server) if pid not in busy)

    os.kill({"supervisor": supervisor, "server": server, "waiting-job": waiting}[who], signal.SIGKILL)

    expect_lost(session)
    wait_until(lambda: not find_by_argument(mark), "everything of it is gone")
    assert works(other)
    session.reset()
    assert works(session)


def test_a_command_that_is_killed_in_the_middle_of_its_output_is_one_result(keeper: Keeper) -> None:
    session = keeper.session()
    mark = f"5300{os.getpid()}"
    running = session.start(["yes", mark])
    assert mark.encode() in running.read(timeout=20)

    for pid in find_by_argument(mark):
        os.kill(pid, signal.SIGKILL)

    done = running.wait(20)
    assert done.signal == signal.SIGKILL and mark in done.stdout
    assert works(session)


def test_a_session_ends_while_a_command_floods_its_output(keeper: Keeper) -> None:
    session, other = keeper.session(), keeper.session()
    flood = session.start("yes; yes")
    assert flood.read(timeout=20)
    supervisor = session._kept.inner

    session.close()

    wait_until(lambda: not flood.is_running, "the flood is over")
    assert not is_alive(supervisor)
    assert works(other)


@pytest.mark.parametrize(
    "backend", ["native", *(pytest.param(name, marks=pytest.mark.thorough) for name in BACKENDS[1:])]
)
def test_two_hundred_commands_at_once(keeper: Keeper, backend: str) -> None:
    session = keeper.session(backend=backend)

    with ThreadPoolExecutor(200) as pool:
        found = list(pool.map(lambda n: session.run(["/bin/echo", str(n)]).stdout, range(200)))

    assert found == [f"{number}\n" for number in range(200)]


def test_descriptors_that_are_used_up_are_an_error_and_no_end(keeper: Keeper) -> None:
    session = keeper.session()
    works(session)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    fillers = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]
    while fillers[-1] < highest:  # a number that is free below the limit is room as well
        fillers.append(os.dup(fillers[0]))
    before = count_descriptors()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    codes = []
    for room in range(12):
        resource.setrlimit(resource.RLIMIT_NOFILE, (fillers[-1] + 1 + room, limits[1]))
        try:
            session.run("true")
        except SetupError as problem:
            codes.append(problem.code)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    # Each says what could not be opened: the list of users, what is protected, or the streams.
    assert codes and set(codes) <= {"unreadable", "guard", "streams"}
    assert count_descriptors() <= before
    for filler in fillers:
        os.close(filler)
    assert works(session)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot look into the server")
@pytest.mark.parametrize(
    ("backend", "count"),
    [
        ("native", 200),
        pytest.param("native", 10_000, marks=pytest.mark.thorough),
        pytest.param("landlock", 1_000, marks=pytest.mark.thorough),
    ],
)
def test_thousands_of_commands_leave_nothing(keeper: Keeper, backend: str, count: int) -> None:
    session = keeper.session(backend=backend)
    server = server_of(session) if backend == "native" else session._kept.inner
    session.run("sleep 0.5")  # long enough for the guard to listen, if there is one
    for _ in range(100):
        session.run(["/bin/true"])
    before = _held(server)

    for _ in range(count):
        assert session.run(["/bin/true"]).exit_code == 0

    wait_until(lambda: 1 <= len(children_of(server)) <= MOST_IDLE, "only jobs that wait are left")
    jobs = children_of(server)
    wait_until(lambda: {_descriptors(job) for job in jobs} == {_descriptors(jobs[0])}, "jobs hold the same")
    assert max(map(_resident, jobs)) < 1024, "a job grew (KiB)"
    after = _held(server)
    assert after[:3] == before[:3]
    assert after[3] - before[3] < 512, "the server grew (KiB)"
    assert after[4] - before[4] < 16_384, "this process grew (KiB)"


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _held(server: int) -> tuple[int, int, int, int, int]:
    """Descriptors of this process and of the server, threads of this one, and the memory of both."""
    own, theirs = _descriptors(os.getpid()), _descriptors(server)
    return own, theirs, threading.active_count(), _resident(server), _resident(os.getpid())


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


@pytest.mark.parametrize("end", ["close", "reset"])
def test_whoever_runs_a_command_meanwhile_gets_a_result_or_an_error(keeper: Keeper, end: str) -> None:
    """And never a descriptor of somebody else, whose number was free for a moment."""
    session = keeper.session()
    (keeper.work.parent / "secret").write_text("secret")
    is_over, found = threading.Event(), []

    def run() -> None:
        while not is_over.is_set():
            try:
                done = session.run(["/bin/cat"])
            except CorralError as problem:
                found.append(problem.code)
            else:
                found.append(done.stdout)

    def open_files() -> None:
        while not is_over.is_set():
            with open(keeper.work.parent / "secret", encoding="utf-8") as file:
                file.read()

    threads = [threading.Thread(target=target) for target in (run, run, run, run, open_files)]
    for thread in threads:
        thread.start()
    for _ in range(20 if end == "reset" else 1):
        getattr(session, end)()
    is_over.set()
    for thread in threads:
        thread.join()

    assert set(found) <= {"", "session-lost", "session-closed", "streams"}
    if end == "reset":
        assert works(session)
