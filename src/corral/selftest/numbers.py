"""Numbers of system calls for the attacks: they ask the kernel itself, and not the C library."""

from __future__ import annotations

import os

from corral.linux.syscalls import Arch, number
from corral.selftest.probe import NotHereError


def syscall_numbers(*names: str) -> list[str]:
    """The numbers on this machine. Raises NotHereError where it has no such call, or corral no table."""
    machine = os.uname().machine
    if machine not in {arch.value for arch in Arch}:
        raise NotHereError(f"no system-call table for {machine}")
    found = [number(Arch(machine), name) for name in names]
    if None in found:
        raise NotHereError(f"{machine} has no {names[found.index(None)]}")
    return [str(value) for value in found]
