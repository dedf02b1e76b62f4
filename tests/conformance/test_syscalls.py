"""syscalls: the system-call filter is installed."""

from __future__ import annotations

import os

import pytest

from corral.model.feature import Feature
from corral.model.violation import Evidence
from support.confinement import attempt, python, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Attempt, Case, Stage

pytestmark = pytest.mark.proves(Feature.SYSCALLS)

# It leaves a file behind where the call is let through; the filter refuses it before the kernel looks at it.
_TRY = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall({number}, {arguments}) >= 0:
    open('mark', 'w').close()
"""
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
_PERSONALITY = {"x86_64": 135, "aarch64": 92, "riscv64": 92}
_NO_RANDOM_ADDRESSES = 0x0040000


def test_the_keyrings_of_the_host_are_out_of_reach(backend: Case, stage: Stage) -> None:
    """KEYCTL_GET_KEYRING_ID of the thread's keyring, made if there is none."""
    script = _TRY.format(number=_KEYCTL[os.uname().machine], arguments="0, -1, 1")

    assert not _attempt(backend, stage, script).worked


def test_address_randomisation_cannot_be_switched_off(backend: Case, stage: Stage) -> None:
    """And it is told: nobody tries that in passing."""
    script = _TRY.format(number=_PERSONALITY[os.uname().machine], arguments=_NO_RANDOM_ADDRESSES)
    done = _attempt(backend, stage, script)

    assert not done.worked
    if backend.is_stored:  # what is known of it is what it printed
        assert "corral: syscalls: personality: " in done.result.stderr
    else:
        told = [(event.subject, event.evidence) for event in done.result.events]
        assert told == [("personality", Evidence.OBSERVED)]


def test_a_system_call_that_the_policy_denies_is_refused(backend: Case, stage: Stage) -> None:
    """Making directories, for one: what the call would have done is not there."""
    made = stage.work / "made"

    done = attempt(
        backend,
        stage,
        shell("mkdir made"),
        effect=lambda _: made.exists(),
        reset=made.rmdir,
        capabilities=["syscall:deny:mkdirat", "syscall:deny:mkdir"],
    )

    assert not done.worked


def test_a_group_has_every_call_for_one_thing(backend: Case, stage: Stage) -> None:
    """`chmod` of coreutils uses fchmodat; what is denied is to change a mode, in whatever way."""
    file = stage.work / "file"
    file.touch(0o600)

    done = attempt(
        backend,
        stage,
        shell("chmod 777 file"),
        effect=lambda _: file.stat().st_mode & 0o777 == 0o777,
        reset=lambda: file.chmod(0o600),
        capabilities=["syscall:deny:@chmod"],
    )

    assert not done.worked


def _attempt(backend: Case, stage: Stage, script: str) -> Attempt:
    mark = stage.work / "mark"
    return attempt(backend, stage, python(script), effect=lambda _: mark.exists(), reset=mark.unlink)
