"""process:debug: debuggers work, and what they trace can be made to do nothing that they may not do."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import sys

import pytest

from corral.model.errors import UnenforceableError
from corral.model.result import Outcome
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

WAIVED = {
    "native": (),
    "landlock": ("fs.metadata", "fs.protect", "proc.contained", "proc.hidden"),
}
#: A child that asks for its parent's number is made to ask for a user namespace instead: at the entry of the
#: system call the tracer writes another number and argument into its registers.
INJECTION = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
TRACEME, CONTINUE, GETREGS, SETREGS, SYSCALL = 0, 7, 12, 13, 24
GETPPID, UNSHARE, NEWUSER = 110, 272, 0x10000000
ARGUMENT, RESULT, NUMBER = 14, 10, 15  # in user_regs_struct
child = os.fork()
if child == 0:
    libc.ptrace(TRACEME, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os.getppid()
    os._exit(0)
registers = (ctypes.c_ulonglong * 27)()
os.waitpid(child, 0)
while True:
    libc.ptrace(SYSCALL, child, None, None)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status): raise SystemExit('the child has not asked')
    libc.ptrace(GETREGS, child, None, ctypes.addressof(registers))
    if registers[NUMBER] == GETPPID: break
registers[NUMBER], registers[ARGUMENT] = UNSHARE, NEWUSER
libc.ptrace(SETREGS, child, None, ctypes.addressof(registers))
libc.ptrace(SYSCALL, child, None, None)
os.waitpid(child, 0)
libc.ptrace(GETREGS, child, None, ctypes.addressof(registers))
print('result', ctypes.c_longlong(registers[RESULT]).value)
libc.ptrace(CONTINUE, child, None, None)
os.waitpid(child, 0)
"""
#: Asks to be traced, by whoever supervises it; then a signal and the start of a program would stop it.
TRACED = """
import ctypes, os, signal
signal.signal(signal.SIGUSR1, lambda *_: print('handled', flush=True))
print('asked', ctypes.CDLL(None).ptrace(0, 0, 0, 0), flush=True)
os.kill(os.getpid(), signal.SIGUSR1)
os.execv('/bin/sh', ['sh', '-c', 'echo executed; kill -USR1 $$; echo never'])
"""
#: Its first thread stops, for the tracer alone as well as for everyone; another one would go on.
STOPPED = """
import ctypes, os, signal, threading, time
def go_on():
    while True:
        open('alive', 'a').write('.')
        time.sleep(0.01)
threading.Thread(target=go_on).start()
print('asked', ctypes.CDLL(None).ptrace(0, 0, 0, 0), flush=True)
signal.raise_signal(signal.SIGSTOP if STOPS_ALL else signal.SIGURG)
time.sleep(1000)
"""


def sandbox(backend: str, work: Path, *capabilities: str) -> Sandbox:
    grants = (f"filesystem:read:{os.path.realpath(sys.base_prefix)}", *capabilities)
    try:
        return Sandbox(
            build_policy("moderate", grants), backend=backend, workspace=work, waive=WAIVED[backend]
        )
    except UnenforceableError as problem:
        pytest.skip(f"{backend} is not available: {problem.why}")


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")
@pytest.mark.parametrize("backend", WAIVED)
def test_a_tracer_works_if_it_may(tmp_path: Path, backend: str) -> None:
    traced = ["strace", "-f", "-o", "trace", "sh", "-c", "/bin/true; echo done"]

    refused = sandbox(backend, tmp_path).run(traced)
    assert "PTRACE" in refused.stderr and not refused.ok

    assert sandbox(backend, tmp_path, "process:debug").run(traced).stdout == "done\n"
    assert 'execve("/bin/true"' in (tmp_path / "trace").read_text()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it knows the registers of x86_64 only")
@pytest.mark.parametrize("backend", WAIVED)
def test_what_is_traced_cannot_be_made_to_do_what_its_tracer_may_not(tmp_path: Path, backend: str) -> None:
    attack = [os.path.realpath(sys.executable), "-I", "-S", "-c", INJECTION]
    control = subprocess.run(attack, capture_output=True, text=True, check=False)
    assert control.stdout == "result 0\n", control.stderr

    confined = sandbox(backend, tmp_path, "process:debug").run(attack)

    assert confined.stdout == "result -1\n", confined.stderr


def interpreter(text: str) -> list[str]:
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", text]


@pytest.mark.parametrize("is_kept", [False, True], ids=["run", "session"])
@pytest.mark.parametrize("backend", WAIVED)
def test_who_asks_its_supervisor_to_trace_it_goes_on_as_if_it_had_not(
    tmp_path: Path, backend: str, is_kept: bool
) -> None:
    box = sandbox(backend, tmp_path, "process:debug")
    with box.session() if is_kept else contextlib.nullcontext(box) as runner:
        done = runner.run(interpreter(TRACED))

    assert done.stdout == "asked 0\nhandled\nexecuted\n", done.stderr
    assert done.signal == signal.SIGUSR1


@pytest.mark.parametrize("stops_all", [False, True], ids=["thread", "all"])
@pytest.mark.parametrize("is_kept", [False, True], ids=["run", "session"])
@pytest.mark.parametrize("backend", WAIVED)
def test_a_stop_is_not_taken_for_the_end_and_the_time_limit_holds(
    tmp_path: Path, backend: str, is_kept: bool, stops_all: bool
) -> None:
    box = sandbox(backend, tmp_path, "process:debug")
    with box.session() if is_kept else contextlib.nullcontext(box) as runner:
        done = runner.run(interpreter(f"STOPS_ALL = {stops_all}\n{STOPPED}"), timeout=1)
        size = (tmp_path / "alive").stat().st_size
        runner.run(["sleep", "0.2"])  # time enough for whoever goes on

    assert (done.stdout, done.outcome) == ("asked 0\n", Outcome.TIMED_OUT), done.describe()
    assert (tmp_path / "alive").stat().st_size == size
