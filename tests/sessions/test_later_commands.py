"""What one command does to itself, or to the server, is not seen by the next."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from corral.model.violation import Evidence
from corral.sandbox import Sandbox
from support.keeping import python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.session import Session
    from support.keeping import Keeper

BACKENDS = ("native", "landlock", "bubblewrap")

LOOK = """
import os, resource, signal, socket
print('cwd', os.getcwd())
print('environment', sorted(os.environ))
print('path', os.environ.get('PATH'))
print('mask', os.umask(0o22))
print('signals', [(n, signal.getsignal(n)) for n in (1, 2, 13, 15, 17)])
print('blocked', signal.pthread_sigmask(signal.SIG_BLOCK, []))
print('nice', os.nice(0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0)))
print('limits', [resource.getrlimit(n) for n in range(16)])
def read(name):
    try: return open(f'/proc/self/{name}').read()
    except OSError: return ''
for name in ('oom_score_adj', 'personality', 'timerslack_ns', 'cgroup'): print(name, read(name))
CHOSEN = ('Seccomp:', 'NoNewPrivs', 'Cap', 'Groups', 'Uid', 'Gid', 'SigIgn', 'SigBlk', 'SigCgt')
print('status', [line for line in read('status').splitlines() if line.startswith(CHOSEN)])
"""

CHANGE = """
import ctypes, os, resource, signal
libc = ctypes.CDLL(None)
def attempt(act, *arguments):
    try: act(*arguments)
    except OSError: pass
os.chdir('/')
os.umask(0o777)
for name in ('PATH', 'LD_PRELOAD', 'BASH_ENV', 'PYTHONSTARTUP', 'HOME'): os.environ[name] = '/evil'
signal.pthread_sigmask(signal.SIG_BLOCK, [1, 2, 13, 15])
for number in (1, 2, 13, 15): signal.signal(number, signal.SIG_IGN)
libc.personality(0x20000)
libc.prctl(29, 999999999)  # timer slack
attempt(lambda: open('/proc/self/oom_score_adj', 'w').write('900'))
for pid in (0, 1, os.getppid(), os.getppid() + 2):
    attempt(os.setpriority, os.PRIO_PROCESS, pid, 19)
    attempt(os.sched_setaffinity, pid, [0])
    attempt(os.sched_setscheduler, pid, 3, os.sched_param(0))
    libc.syscall(251, 1, pid, 3 << 13)  # ioprio_set: idle
    attempt(resource.prlimit, pid, resource.RLIMIT_NOFILE, (10, 10))
attempt(os.setpriority, os.PRIO_USER, 0, 19)
attempt(os.setpriority, os.PRIO_PGRP, 0, 19)
print('changed', os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0))
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_command_begins_as_the_one_before_it_began(keeper: Keeper, backend: str) -> None:
    session = keeper.session(backend=backend)
    before = session.run(python(LOOK))

    changed = session.run(python(CHANGE))
    after = session.run(python(LOOK))

    assert before.exit_code == 0, before.stderr
    assert changed.stdout.startswith("changed 19 "), changed.stderr
    assert after.stdout == before.stdout


def _count_refused(session: Session, times: int) -> list[int]:
    """How often a command is told to have been refused a call, that many times in truth."""
    script = f"import ctypes; libc = ctypes.CDLL(None); [libc.unshare(0x10000000) for _ in range({times})]"
    events = session.run(python(script)).events
    assert all((event.subject, event.evidence) == ("unshare", Evidence.OBSERVED) for event in events)
    return [event.count for event in events]


@pytest.mark.parametrize("waive", [(), ("limit.pids",)], ids=["own", "inherited"])
def test_each_command_is_told_of_the_calls_that_itself_was_refused(
    keeper: Keeper, waive: tuple[str, ...]
) -> None:
    """Also beside others, and of those that come after: its filter is its own, or that of its job."""
    times = (1, 0, 4, 2)
    with (
        Sandbox(backend="native", workspace=keeper.work, waive=waive).session() as session,
        ThreadPoolExecutor(len(times)) as threads,
    ):
        for _ in range(2):
            told = list(threads.map(lambda count: _count_refused(session, count), times))

            assert told == [[1], [], [4], [2]]


def test_what_a_command_leaves_running_is_refused_and_answered(keeper: Keeper) -> None:
    """All is said of the command by then; nobody may wait for an answer for ever."""
    script = (
        "import ctypes, os, time\nif os.fork(): os._exit(0)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "ctypes.CDLL(None).unshare(0x10000000); os.mkfifo('answered')"
    )
    session = keeper.session()
    left = session.run(python(script))

    found = session.run("touch go; while [ ! -e answered ]; do sleep 0.01; done")

    assert left.events == found.events == ()
    assert found.ok
