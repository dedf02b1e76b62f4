"""What a command can do to the processes that keep its sandbox: nothing, or end its own session."""

from __future__ import annotations

import os
import signal

import pytest

from corral.model.errors import SetupError
from corral.model.feature import Feature
from corral.model.result import Outcome
from support.keeping import find_by_argument, python, server_of, wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.session import Session
    from support.keeping import Keeper

BACKENDS = ("native", "bubblewrap")


@pytest.fixture
def without_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a kernel before 6.12, where no Landlock domain keeps signals inside."""
    monkeypatch.setattr("corral.linux.landlock.scoped", lambda abi: 0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Corral waits less long for a job that does not answer."""
    monkeypatch.setattr("corral.runtime.launcher.job.BACKSTOP_SECONDS", 1.0)


def works(session: Session) -> bool:
    return session.run(["/bin/echo", "well"]).stdout == "well\n"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD])
def test_signals_mean_nothing_to_the_server_and_to_jobs(keeper: Keeper, backend: str, number: int) -> None:
    session = keeper.session(backend=backend)

    done = session.run(f"for pid in 1 2 4 5 $PPID; do [ $pid = $$ ] || kill -{number} $pid; done; echo alive")

    assert done.stdout == "alive\n"
    assert works(session)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_server_cannot_be_ended_or_stopped(keeper: Keeper, backend: str, number: int) -> None:
    session = keeper.session(backend=backend)

    assert session.run(f"kill -{number} 1; echo alive").stdout == "alive\n"
    assert works(session)


def test_without_a_pid_namespace_nobody_else_can_be_signalled(keeper: Keeper) -> None:
    session = keeper.session(backend="landlock")
    other = session.start(["sleep", "1000"])

    done = session.run(python("import os\nprint('alive', flush=True)\nos.kill(-1, 9)"))

    assert done.stdout == "alive\n"
    assert other.is_running and works(session)
    other.kill()
    assert other.wait(10).signal == signal.SIGKILL


@pytest.mark.parametrize("backend", ["native", "bubblewrap"])
def test_a_command_can_end_what_another_one_left(keeper: Keeper, backend: str) -> None:
    session = keeper.session(backend=backend)
    session.run("sleep 1000 >/dev/null 2>&1 & echo $! > /tmp/pid")

    assert session.run("kill -9 $(cat /tmp/pid)").ok
    assert session.run("while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.01; done", timeout=10).ok
    assert works(session)


#: Jobs are children of PID 1. One that waits is made while another works: it is looked for until it is there.
_KILL_IDLE = """
while :; do
    for file in /proc/[0-9]*/stat; do
        read -r pid name state parent rest < $file || continue
        if [ $parent = 1 ] && [ $pid != $PPID ]; then kill -9 $pid; fi
    done
done 2>/dev/null"""


@pytest.mark.parametrize("backend", ["native", "bubblewrap"])
@pytest.mark.parametrize(
    "line",
    ["kill -9 $PPID", "kill -STOP $PPID", "kill -9 -1", _KILL_IDLE],
    ids=["9", "19", "all", "idle"],
)
def test_who_ends_a_job_ends_its_session_and_no_other(keeper: Keeper, backend: str, line: str) -> None:
    session, other = keeper.session(backend=backend), keeper.session(backend=backend)
    mark = f"31{os.getpid()}"

    ended = session.run(f"trap '' TERM; {line}; sleep {mark}")

    assert ended.outcome is Outcome.BLOCKED
    assert any(violation.feature is Feature.PROC_CONTAINED for violation in ended.violations)
    with pytest.raises(SetupError) as lost:
        session.run("true")
    assert lost.value.code == "session-lost"
    wait_until(lambda: not session.is_open, "the session is over")
    wait_until(lambda: not find_by_argument(mark), "everything of the session is gone")
    assert works(other)
    session.reset()
    assert works(session)


@pytest.mark.usefixtures("without_scopes", "impatient")
def test_who_stops_all_that_watches_over_it_keeps_nobody_waiting(keeper: Keeper) -> None:
    """Without namespaces and scopes the server itself can be stopped, and does not answer any more."""
    session, other = keeper.session(backend="landlock"), keeper.session(backend="landlock")
    server = server_of(session)

    ended = session.run(f"kill -STOP {server} $PPID; sleep 1000", timeout=0.5)

    assert ended.outcome in {Outcome.TIMED_OUT, Outcome.BLOCKED}
    session.close()
    wait_until(lambda: not os.path.exists(f"/proc/{server}"), "the server is gone")
    assert works(other)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "name", ["fd", "mem", "environ", "root", "cwd", "exe", "maps", "oom_score_adj", "uid_map"]
)
def test_nothing_of_the_server_or_of_a_job_is_open(keeper: Keeper, backend: str, name: str) -> None:
    session = keeper.session(backend=backend)
    script = (
        "import os, sys\n"
        "name = sys.argv[1]\n"
        "def open_up(pid):\n"
        "    path = f'/proc/{pid}/{name}'\n"
        "    if name == 'fd': return [os.readlink(f'{path}/{n}') for n in os.listdir(path)]\n"
        "    if name in ('root', 'cwd', 'exe'): return os.readlink(path)\n"
        "    if name in ('oom_score_adj', 'uid_map'): return open(path, 'w').write('0\\n')\n"
        "    return open(path, 'rb').read(64)\n"
        "own = {os.getpid()}\n"
        "for pid in map(int, filter(str.isdigit, os.listdir('/proc'))):\n"
        "    if pid in own: continue\n"
        "    try: print(pid, open_up(pid))\n"
        "    except OSError: pass\n"
        "print('looked')\n"
    )

    assert session.run(python(script, name)).stdout == "looked\n"


@pytest.mark.parametrize("backend", [*BACKENDS, "landlock"])
def test_a_command_has_three_descriptors(keeper: Keeper, backend: str) -> None:
    session = keeper.session(backend=backend)
    session.run("true")

    script = (
        "import fcntl\n"
        "def is_open(number):\n"
        "    try: fcntl.fcntl(number, fcntl.F_GETFD)\n"
        "    except OSError: return False\n"
        "    return True\n"
        "print([number for number in range(4096) if is_open(number)])\n"
    )
    done = session.run(python(script))

    assert done.stdout == "[0, 1, 2]\n"


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_descriptor_is_taken_from_a_job(keeper: Keeper, backend: str) -> None:
    session = keeper.session(backend=backend)
    script = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for pid in (1, os.getppid()):\n"
        "    there = libc.syscall(434, pid, 0)\n"
        "    taken = [n for n in range(32) if libc.syscall(438, there, n, 0) >= 0]\n"
        "    traced = libc.ptrace(16, pid, 0, 0)\n"
        "    print(there >= 0, taken, traced)\n"
    )

    assert session.run(python(script)).stdout == "True [] -1\n" * 2


def test_control_a_process_of_the_same_user_is_within_reach_where_nothing_confines(keeper: Keeper) -> None:
    """What keeps the attacks above from the server is the sandbox, and not who the server belongs to."""
    server = server_of(keeper.session())

    os.kill(server, signal.SIGSTOP)
    wait_until(lambda: _state(server) == "T", "the server is stopped by the host")
    os.kill(server, signal.SIGCONT)


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]
