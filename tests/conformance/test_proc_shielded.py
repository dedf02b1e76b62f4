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
