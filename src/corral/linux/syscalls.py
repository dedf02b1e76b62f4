"""System-call names and numbers, for the architectures that corral compiles filters for."""

from __future__ import annotations

from enum import Enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Arch(Enum):
    """An architecture; the value is what `uname -m` calls it."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"
    RISCV64 = "riscv64"

    @property
    def audit(self) -> int:
        """The AUDIT_ARCH_* constant that seccomp shows to a filter (linux/audit.h)."""
        return _AUDIT[self]


_AUDIT = {Arch.X86_64: 0xC000003E, Arch.AARCH64: 0xC00000B7, Arch.RISCV64: 0xC00000F3}
_numbers: dict[Arch, Mapping[str, int]] = {}  # parsed on first use


def number(arch: Arch, name: str) -> int | None:
    """Return the number of a system call, or None when this architecture has no such call."""
    return numbers(arch).get(name)


def numbers(arch: Arch) -> Mapping[str, int]:
    """Return every known name of an architecture with its number."""
    if arch not in _numbers:
        _numbers[arch] = _parse_table(_table(arch))
    return _numbers[arch]


def is_known(name: str) -> bool:
    """Whether some architecture has this call: what tells a typing error from an absent call."""
    return any(name in numbers(arch) for arch in Arch)


def _table(arch: Arch) -> str:
    # Imported here: a run needs one of them.
    match arch:
        case Arch.X86_64:
            from corral.linux.syscalls_x86_64 import TABLE
        case Arch.AARCH64:
            from corral.linux.syscalls_aarch64 import TABLE
        case Arch.RISCV64:
            from corral.linux.syscalls_riscv64 import TABLE
    return TABLE


def _parse_table(table: str) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for line in table.split("\n"):
        first, *names = line.split() or ["0"]
        found.update(zip(names, range(int(first), int(first) + len(names)), strict=True))
    return found
