"""Limits of a session: of one command they do not touch the next, and of all they end nobody for good."""

from __future__ import annotations

import os

import pytest

from corral.model.feature import Feature
from corral.model.result import Outcome
from support.arena import GrouplessHost
from support.keeping import find_by_argument, python, wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.session import Session
    from support.keeping import Keeper

BACKENDS = ("native", "landlock", "bubblewrap")
_EAT = "data = []\nwhile True: data.append(bytearray(b'x') * (1 << 20))"
_BOMB = (
    "import os, time\n"
    "for number in range(200):\n"
    "    try:\n"
    "        if os.fork() == 0:\n"
    "            time.sleep(30)\n"
    "            os._exit(0)\n"
    "    except OSError:\n"
    "        print('refused', flush=True)\n"
    "        os._exit(1)\n"
    "time.sleep(30)\n"  # the supervisor looks now and then, perhaps not yet
)


def works(session: Session) -> bool:
    done = session.run(["/bin/echo", "well"])
    return (done.outcome, done.stdout) == (Outcome.EXITED, "well\n")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_time_limit_is_one_commands(keeper: Keeper, backend: str) -> None:
    session = keeper.session(backend=backend)

    assert session.run("sleep 1000", timeout=0.2).outcome is Outcome.TIMED_OUT
    assert session.run("sleep 0.5; echo late").stdout == "late\n"
    assert session.run("trap '' TERM; sleep 1000; sleep 1000", timeout=0.2).outcome is Outcome.TIMED_OUT
    assert works(session)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_output_limit_is_one_commands(keeper: Keeper, backend: str) -> None:
    session = keeper.session("output:limit:1000", backend=backend)

    assert session.run("yes").outcome is Outcome.OUTPUT_LIMIT
    for _ in range(3):
        done = session.run("head -c 900 /dev/zero")
        assert (done.outcome, len(done.stdout_bytes)) == (Outcome.EXITED, 900)


@pytest.mark.parametrize("backend", BACKENDS)
def test_after_a_timeout_no_descendant_lives_and_every_other_command_does(
    keeper: Keeper, backend: str
) -> None:
    session = keeper.session(backend=backend)
    mark, other_mark = f"4100{os.getpid()}", f"4200{os.getpid()}"
    other = session.start(["sleep", other_mark])
    session.run(f"setsid sleep {other_mark}1 & true")
    daemon = (
        "import os, sys, time\n"
        "for number in range(20):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0:\n"
        "            os.execv('/bin/sleep', ['sleep', sys.argv[1]])\n"
        "        os._exit(0)\n"
        "time.sleep(1000)\n"
    )

    done = session.run(python(daemon, mark), timeout=1.5)

    assert done.outcome is Outcome.TIMED_OUT
    assert not find_by_argument(mark)
    assert len(find_by_argument(other_mark)) == 2
    assert other.is_running and works(session)
    session.close()
    wait_until(lambda: not find_by_argument(other_mark), "the session's end is everyone's")


def test_thousands_of_orphans_are_no_burden(keeper: Keeper) -> None:
    session = keeper.session()
    orphans = (
        "import os\nfor number in range(3000):\n    if os.fork() == 0:\n        os._exit(os.fork() and 0)"
    )

    assert session.run(python(orphans), timeout=60).exit_code == 0
    assert works(session)


@pytest.mark.parametrize("has_groups", [True, False], ids=["cgroup", "supervisor"])
def test_who_runs_out_of_memory_does_so_alone(keeper: Keeper, has_groups: bool) -> None:
    """Where only the launcher looks, all that runs in the sandbox is ended: the result says why."""
    host = None if has_groups else GrouplessHost()
    session = keeper.session("memory:limit:96MiB", waive="limit.memory", host=host)
    is_grouped = session._kept.group is not None
    if is_grouped is not has_groups:
        pytest.skip("no control group holds memory here")

    done = session.run(python(_EAT), timeout=60)

    assert done.outcome is Outcome.OUT_OF_MEMORY, done.describe()
    if not is_grouped:
        session.reset()
    assert works(session)
    assert session.run("exit 3").outcome is Outcome.EXITED


@pytest.mark.parametrize("has_groups", [True, False], ids=["cgroup", "supervisor"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fork_bomb_is_bounded_and_forgotten(keeper: Keeper, backend: str, has_groups: bool) -> None:
    host = None if has_groups else GrouplessHost()
    session = keeper.session("pids:limit:20", backend=backend, waive="limit.pids", host=host)
    is_held = Feature.LIMIT_PIDS in session._kept.enforcement.enforced
    if not is_held and (has_groups or backend == "bubblewrap"):
        pytest.skip(f"{backend} does not hold the processes here")

    done = session.run(python(_BOMB), timeout=20)

    if session._kept.group is None and is_held:  # the kernel refuses, and tells nobody
        assert done.stdout == "refused\n"
    else:
        assert done.outcome is Outcome.PIDS_LIMIT, done.describe()
    session.reset()
    assert works(session)


def test_where_no_process_can_be_made_the_caller_is_told_and_the_session_goes_on(keeper: Keeper) -> None:
    session = keeper.session("pids:limit:20")
    if session._kept.group is None:
        pytest.skip("no control group holds the processes here")
    bomb = session.start(python(_BOMB.replace("os._exit(1)", "time.sleep(1000)")))
    assert bomb.read(timeout=20) == b"refused\n"

    for line in ("true", f": {'x' * 3000}"):
        try:
            done = session.run(line, timeout=5)
        except Exception as problem:
            assert getattr(problem, "code", "") == "namespaces", problem
        else:
            assert done.exit_code == 0  # a job had been waiting
    bomb.kill()
    bomb.wait(20)
    assert works(session)


def test_a_full_area_is_the_next_commands_as_well_until_it_is_emptied(keeper: Keeper) -> None:
    """Files stay, so what is full stays full; and who makes room can work again."""
    session = keeper.session("disk:limit:8MiB")

    done = session.run("head -c 20000000 /dev/zero > $TMPDIR/big")
    assert done.outcome is Outcome.DISK_LIMIT, done.describe()
    assert session.run("echo still > $TMPDIR/more; exit 0").outcome is Outcome.EXITED
    assert session.run("rm $TMPDIR/big").exit_code == 0
    assert session.run("echo well > $TMPDIR/more && cat $TMPDIR/more").stdout == "well\n"


def test_processor_time_is_counted_for_each_command(keeper: Keeper) -> None:
    session = keeper.session("cpu:time:600ms")
    if Feature.LIMIT_CPU_TIME not in session._kept.enforcement.enforced:
        pytest.skip("nobody holds the processor time here")
    spin = "import time\nwhile time.process_time() < 0.35: pass\nprint('done')"

    for _ in range(2):  # together more than one may have
        done = session.run(python(spin))
        assert (done.outcome, done.stdout) == (Outcome.EXITED, "done\n"), done.describe()
    done = session.run(python("while True: pass"), timeout=30)
    assert done.outcome is Outcome.CPU_LIMIT, done.describe()
    assert session.run(python(spin)).outcome is Outcome.EXITED


@pytest.mark.parametrize("backend", BACKENDS)
def test_as_many_processes_as_in_a_single_run(keeper: Keeper, backend: str) -> None:
    """The server's own are not the command's."""
    session = keeper.session("pids:limit:8", backend=backend)
    sleepers = (
        "import os, time\n"
        "made = 0\n"
        "try:\n"
        "    while made < 7:\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(0.5)\n"
        "            os._exit(0)\n"
        "        made += 1\n"
        "finally: print(made, flush=True)\n"
        "for _ in range(made): os.wait()\n"
    )

    for _ in range(3):
        assert session.run(python(sleepers)).stdout == "7\n"
