"""Follow a process of the launcher from one system call to the next, by ptrace."""

from __future__ import annotations

import ctypes
import os
import signal
from dataclasses import dataclass

from corral.linux.syscalls import Arch, numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SEIZE, _INTERRUPT, _SYSCALL, _DETACH, _GET_SYSCALL_INFO = 0x4206, 0x4207, 24, 17, 0x420E
_TRACE_SYSGOOD, _WALL = 1, 0x40000000
_ENTRY, _EXIT = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


class _Info(ctypes.Structure):
    """struct ptrace_syscall_info: `words` are the number and the arguments, or the result."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("padding", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("pointers", ctypes.c_uint64 * 2),
        ("words", ctypes.c_int64 * 8),
    )


@dataclass(frozen=True)
class Call:
    """A system call that has returned."""

    name: str
    first: int  # its first argument
    result: int


class Tracee:
    """A process that stands still between the calls that are asked for."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._names = {number: name for name, number in numbers(Arch(os.uname().machine)).items()}
        self._ptrace(_SEIZE, 0, _TRACE_SYSGOOD)
        self._ptrace(_INTERRUPT)
        os.waitpid(pid, _WALL)

    def _ptrace(self, request: int, address: int = 0, data: int | object = 0) -> None:
        if _libc.ptrace(request, self.pid, address, data) < 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")

    def calls(self) -> Iterator[Call]:
        """Let it go on from call to call, until it is gone or nobody asks any more."""
        name, first = "", 0
        while True:
            self._ptrace(_SYSCALL)
            _, status = os.waitpid(self.pid, _WALL)
            if not os.WIFSTOPPED(status):
                return
            if os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
                continue  # the stop that was asked for at the beginning
            info = _Info()
            self._ptrace(_GET_SYSCALL_INFO, ctypes.sizeof(info), ctypes.addressof(info))
            if info.op == _ENTRY:
                name, first = self._names.get(info.words[0], str(info.words[0])), info.words[1]
            elif info.op == _EXIT:
                yield Call(name, first, info.words[0])

    def release(self) -> None:
        """Let it go its way."""
        self._ptrace(_DETACH)
