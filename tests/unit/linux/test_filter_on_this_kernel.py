"""The default filter, installed: this kernel accepts it and refuses what it says.

Calls are tried with bad pointers and descriptors, as bubblewrap's try-syscall does: what passes the
filter fails harmlessly in the kernel. Each refusal is compiled as its errno plus 1000, which no
kernel returns by chance.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.linux.bpf import compile_filter
from corral.linux.filter import SocketPolicy, default_filter
from corral.linux.rule import Action, Filter, Verdict, fail_with
from corral.linux.syscalls import Arch, number, numbers

if sys.platform != "linux" or os.uname().machine not in {arch.value for arch in Arch}:
    pytest.skip("needs Linux on x86_64 or aarch64", allow_module_level=True)

ARCH = Arch(os.uname().machine)
MARK = 1000
BAD = -1  # as a descriptor, a pointer, a size
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
libc = ctypes.CDLL(None, use_errno=True)


class _SockFprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install(program: bytes) -> None:
    prog = _SockFprog(len(program) // 8, program)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(prog), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def attempt(name: str | int, *arguments: int) -> int:
    """Make a call; return the error, or 0."""
    nr = name if isinstance(name, int) else number(ARCH, name)
    assert nr is not None
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(nr), *(ctypes.c_long(value) for value in arguments))
    return ctypes.get_errno() if done == -1 else 0


def in_child(program: bytes | None, work: Callable[[], object]) -> object:
    """Do the work in a process confined by the program, and return what it returned."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if program is not None:
                install(program)
            os.write(writer, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return json.loads(text) if text else "the child failed"


def marked(policy: Filter) -> Filter:
    def mark(action: Action) -> Action:
        return fail_with(action.errno + MARK) if action.verdict is Verdict.ERRNO else action

    rules = tuple(rule.replace(action=mark(rule.action)) for rule in policy.rules)
    return policy.replace(rules=rules, unknown=mark(policy.unknown))


def program_for(sockets: SocketPolicy) -> bytes:
    return compile_filter(marked(default_filter(sockets=sockets, private_ipc_by_filter=True)), ARCH)


def test_every_unconditional_rule_holds() -> None:
    policy = default_filter(sockets=SocketPolicy.NONE, private_ipc_by_filter=True)
    # vhangup has no argument that could be bad: were it let through, it would act.
    skipped = {"vhangup", "socket"}
    expected = {
        rule.syscall: rule.action.errno + MARK
        for rule in policy.rules
        if not rule.conditions and rule.syscall in numbers(ARCH) and rule.syscall not in skipped
    }

    found = in_child(
        program_for(SocketPolicy.NONE), lambda: {name: attempt(name, *[BAD] * 6) for name in expected}
    )

    assert found == expected
    assert len(expected) > 60


def test_ordinary_calls_reach_the_kernel() -> None:
    tried = {
        "read": (BAD, BAD, 1),
        "write": (BAD, BAD, 1),
        "openat": (BAD, BAD, 0),
        "execve": (BAD, 0, 0),
        "close": (BAD,),
        "mmap": (0, 0, 0, 0, BAD, 0),
        "futex": (BAD, BAD, 0),
        "clone": (0x800,),  # CLONE_SIGHAND without CLONE_VM: EINVAL
        "ioctl": (BAD, 0x5401),
        "personality": (0xFFFF_FFFF,),
        "sched_setscheduler": (0, 0, 0),
        "prlimit64": (0, 99, 0, 0),
        "landlock_create_ruleset": (0, 0, 1),
        "seccomp": (BAD, 0, 0),
        "setsockopt": (BAD, 6, 1, 0, 0),
        "connect": (BAD, 0, 0),
        "statx": (BAD, BAD, 0, 0, 0),
        "getrandom": (0, 0, 0),
    }

    found = in_child(
        program_for(SocketPolicy.NONE), lambda: {name: attempt(name, *tried[name]) for name in tried}
    )

    assert isinstance(found, dict)
    assert found.keys() == tried.keys()
    assert {name: errno for name, errno in found.items() if errno >= MARK} == {}


def test_arguments_are_judged_by_their_low_half() -> None:
    high = 0x7EAD << 32
    tried: list[tuple[str, tuple[int, ...]]] = [
        ("clone", (0x800 | 0x10000000,)),
        ("clone", (0x800 | 0x10000000 | high,)),
        ("ioctl", (BAD, 0x5412)),
        ("ioctl", (BAD, 0x5412 | high)),
        ("ioctl", (BAD, 0x541C)),
        ("ioctl", (BAD, 0x5423)),
        ("personality", (0x0040000,)),
        ("sched_setscheduler", (BAD, 1, 0)),
        ("sched_setscheduler", (BAD, 2 | 0x4000_0000 | high, 0)),
        ("prlimit64", (1, 99, 0, 0)),
    ]

    found = in_child(program_for(SocketPolicy.NONE), lambda: [attempt(name, *call) for name, call in tried])

    assert found == [MARK + 1] * len(tried)


def test_numbers_that_nobody_knows_are_refused() -> None:
    found = in_child(program_for(SocketPolicy.NONE), lambda: [attempt(nr, 0) for nr in (472, 521, 1000)])

    assert found == [MARK + 38] * 3


def test_sockets_are_those_of_the_policy() -> None:
    tried = {
        "unix": (1, 1, 0),
        "tcp": (2, 1, 0),
        "udp": (2, 2, 0),
        "raw": (2, 3, 1),
        "mptcp": (2, 1, 262),
        "netlink route": (16, 3, 0),
        "netlink netfilter": (16, 3, 12),
        "alg": (38, 5, 0),
        "vsock": (40, 1, 0),
        "packet": (17, 3, 0),
    }
    found = {
        sockets: in_child(
            program_for(sockets), lambda: {name: attempt("socket", *call) for name, call in tried.items()}
        )
        for sockets in SocketPolicy
    }

    acces, eperm, proto, family = MARK + 13, MARK + 1, MARK + 93, MARK + 97
    opened = dict(zip(tried, (0, 0, 0, eperm, proto, 0, family, family, family, family), strict=True))
    assert found == {
        SocketPolicy.NAMESPACED: opened,
        SocketPolicy.HOST: opened,
        SocketPolicy.INTERNET: opened | {"unix": acces},
        SocketPolicy.PROXIED: dict(
            zip(tried, (acces, 0, acces, acces, proto, family, family, family, family, family), strict=True)
        ),
        SocketPolicy.NONE: dict.fromkeys(tried, family) | {"unix": acces},
    }


def test_without_network_no_pair_of_sockets_reaches_a_path(tmp_path: Path) -> None:
    """A datagram pair does, unconfined: one end sends wherever it is told."""
    path = str(tmp_path / "service")
    service = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    service.bind(path)

    def send(kind: int) -> str:
        try:
            one, _other = socket.socketpair(socket.AF_UNIX, kind)
            one.sendto(b"out", path)
        except OSError as error:
            return f"errno {error.errno}"
        return "sent"

    assert in_child(None, lambda: send(socket.SOCK_DGRAM)) == "sent"
    assert service.recv(10) == b"out"
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        assert in_child(program_for(SocketPolicy.NONE), lambda kind=kind: send(kind)) == f"errno {MARK + 13}"  # type: ignore[misc]
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        in_child(program_for(SocketPolicy.NONE), lambda kind=kind: send(kind))  # type: ignore[misc]
    with pytest.raises(BlockingIOError):
        service.recv(10)


@pytest.mark.skipif(ARCH is not Arch.X86_64, reason="int 0x80 is x86's")
def test_a_32_bit_call_is_the_end_of_the_process() -> None:
    def getpid_by_int_0x80() -> int:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(
            b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3"
        )  # push rbx; mov eax, 20; int 0x80; pop rbx; ret
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        return int(ctypes.CFUNCTYPE(ctypes.c_int)(address)())

    unconfined = in_child(None, getpid_by_int_0x80)
    if not isinstance(unconfined, int):
        pytest.skip(f"this kernel serves no 32-bit calls: {unconfined}")

    assert in_child(program_for(SocketPolicy.HOST), getpid_by_int_0x80) == "SIGSYS"
