"""proc.shielded: the host's processes can be neither signalled nor traced."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.bystanders import Victim
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.PROC_SHIELDED)

# PTRACE_SEIZE with PTRACE_O_EXITKILL: the traced process dies with its tracer.
_TRACE = """
import ctypes
pid = int(open('pid').read())
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace(0x4206, pid, None, ctypes.c_void_p(0x00100000))
"""
# The same, after what a debugger may do: reach a child, but nothing that was there before it.
_DEBUG = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
child = os.fork() or signal.pause()
print('child', libc.ptrace(0x4206, child, None, None), flush=True)
for pid in sorted({*range(1, 12), os.getppid()} - {child, os.getpid()}):
    if libc.ptrace(0x4206, pid, None, None) == 0: print('reached', pid, flush=True)
libc.ptrace(0x4206, int(open('pid').read()), None, ctypes.c_void_p(0x00100000))
os.kill(child, 9)
"""
_SIGNAL_BY_DESCRIPTOR = """
import os, signal
signal.pidfd_send_signal(os.pidfd_open(int(open('pid').read())), 9)
"""


def test_a_host_process_cannot_be_killed(backend: Case, stage: Stage, victim: Victim) -> None:
    done = attempt(
        backend,
        stage,
        shell("kill -9 $(cat pid); true"),
        effect=lambda _: victim.is_dead(),
        reset=victim.revive,
    )

    assert not done.worked


def test_a_host_process_cannot_be_killed_by_descriptor(backend: Case, stage: Stage, victim: Victim) -> None:
    done = attempt(
        backend,
        stage,
        python(_SIGNAL_BY_DESCRIPTOR),
        effect=lambda _: victim.is_dead(),
        reset=victim.revive,
    )

    assert not done.worked


def test_a_host_process_cannot_be_traced(backend: Case, stage: Stage, victim: Victim) -> None:
    done = attempt(
        backend,
        stage,
        python(_TRACE),
        effect=lambda _: victim.is_dead(),
        reset=victim.revive,
    )

    assert not done.worked


def test_a_debugger_reaches_only_what_the_command_has_started(
    backend: Case, stage: Stage, victim: Victim
) -> None:
    """Neither a process of the host nor one of the launcher's, whose numbers inside are the first."""
    done = attempt(
        backend,
        stage,
        python(_DEBUG),
        effect=lambda _: victim.is_dead(),
        reset=victim.revive,
        capabilities=["process:debug"],
    )

    assert not done.worked
    assert done.result.stdout == "alive\nchild 0\n"
