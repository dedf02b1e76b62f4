"""Commands that are traced: failing calls on files are told, and nothing else is different."""

from __future__ import annotations

import errno
import os
import signal

import launching
import pytest

from corral.linux.bpf import compile_filter
from corral.linux.filter import SocketPolicy, default_filter
from corral.linux.listening import listened, with_reports, with_traces
from corral.linux.syscalls import Arch, number
from corral.runtime.status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.linux.spec import Spec

ARCH = Arch(os.uname().machine)


def _traced(*argv: str, **more: object) -> Spec:
    rules = default_filter(sockets=SocketPolicy.NAMESPACED, private_ipc_by_filter=False)
    program = compile_filter(with_traces(with_reports(rules, (), hears=False)), ARCH)
    return launching.confined(*argv, seccomp=program, listens=tuple(listened(ARCH, traces=True)), **more)


def _told(done: launching.Running) -> list[tuple[int, int, tuple[str, ...]]]:
    status = Status()
    status.feed(done.status)
    return [(call.number, call.errno, call.claims) for call in status.traced]


def test_a_failing_call_is_told_with_its_directory_and_path(launcher: Path, user: int) -> None:
    done = launching.launch(launcher, _traced(*launching.shell("cd /usr; touch made; exit 7"), user=user))

    assert done.lines[-1] == "exited 7"
    assert (number(ARCH, "openat"), errno.EROFS, ("/usr", "made")) in _told(done)


def test_descendants_and_threads_are_traced_each_failure_once(plain: Path) -> None:
    script = """
import threading, subprocess
def fail():
    for _ in range(50):
        try: open('/usr/of-a-thread', 'w')
        except OSError: pass
threads = [threading.Thread(target=fail) for _ in range(4)]
[one.start() for one in threads]; [one.join() for one in threads]
subprocess.run('(touch /usr/of-a-child &) ; wait', shell=True)
"""
    done = launching.launch(plain, _traced("python3", "-c", script))

    paths = [claims[1] for _, error, claims in _told(done) if error == errno.EROFS]
    assert paths.count("/usr/of-a-thread") == 1
    assert paths.count("/usr/of-a-child") <= 1  # it may be ended with the rest before it comes so far


@pytest.mark.parametrize(
    ("script", "end"),
    [
        ("kill -9 $$", "signalled 9"),
        ("kill -TERM $$", "signalled 15"),
        ("sleep 60 & kill -STOP $!; kill -CONT $!; kill -TERM $!; wait $!; exit $(($? - 143))", "exited 0"),
        ("trap 'exit 5' USR1; kill -USR1 $$; sleep 60", "exited 5"),
    ],
)
def test_signals_do_what_they_do(plain: Path, script: str, end: str) -> None:
    done = launching.launch(plain, _traced(*launching.shell(script)))

    assert done.lines[-1] == end


def test_with_the_tracer_everybody_ends(plain: Path) -> None:
    running = launching.start(plain, _traced(*launching.shell("echo ready; exec sleep 300")))
    running.wait_for_output(b"ready")

    running.kill(signal.SIGKILL)
    running.finish()  # reads the output to its end: the last holder is gone

    assert running.exit_code == -signal.SIGKILL


def test_what_the_filter_refuses_it_refuses_all_the_same(plain: Path) -> None:
    script = "import ctypes; l = ctypes.CDLL(None, use_errno=True); l.chroot(b'/'); print(ctypes.get_errno())"

    done = launching.launch(plain, _traced("python3", "-c", script))

    assert done.output == b"1\n"
    assert any(line.startswith("refused ") for line in done.lines)
