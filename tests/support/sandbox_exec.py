"""A stand-in for macOS's `sandbox-exec`, on Linux: every call of a command is held against the profile first.

    sandbox-exec -f FILE | -p TEXT COMMAND [ARGUMENT...]

As the real one it becomes the command. A second process, which has left its session, is asked by the kernel
(seccomp's user notification) whenever the command, or whatever that starts, makes a call that Seatbelt would
judge; it puts the call into Seatbelt's words (`support/seatbelt_words.py`) and asks the evaluator of profiles
(`support/sbpl.py`). What the profile does not allow fails with EPERM, as on macOS.

It proves what corral does around a profile, and what the profile says. It is no wall: a path is looked at
before the kernel looks at it, and a second thread could change it in between. No test races that.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import sys

from corral.linux.syscalls import Arch, number
from support.sbpl import Profile, Request, UnknownWord
from support.seatbelt_words import ALWAYS_REFUSED, UNKNOWN_THERE, WORDS, Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

#: Of the real one, for what it cannot read and what it cannot apply.
EX_DATAERR, EX_USAGE = 65, 64

_ARCH = Arch(os.uname().machine)
_SECCOMP = number(_ARCH, "seccomp") or 0
_PIDFD_GETFD = number(_ARCH, "pidfd_getfd") or 0
_SET_FILTER, _NEW_LISTENER = 1, 1 << 3
_ALLOW, _ASK, _KILL = 0x7FFF0000, 0x7FC00000, 0x80000000
_GO_ON = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTICE = struct.Struct("<QIIiIQ6Q")  # struct seccomp_notif
_ANSWER = struct.Struct("<QqiI")  # struct seccomp_notif_resp
_MOST_KEPT = 65_536
_libc = ctypes.CDLL(None, use_errno=True)


def main(words: list[str]) -> NoReturn:
    """Become the command, watched."""
    option, source, *command = (*words, "", "")[:2] + tuple(words[2:])
    if option not in {"-f", "-p"} or not command:
        _leave(EX_USAGE, "Usage: sandbox-exec [-f profile-file] [-p profile-string] command [arguments ...]")
    try:
        text = source
        if option == "-f":
            with open(source, encoding="utf-8") as file:
                text = file.read()
        # Where macOS keeps /etc, /tmp and /var; here they are what they are called.
        profile = Profile(text.replace('"/private/', '"/').replace('"^/private/', '"^/'))
    except (OSError, UnknownWord) as problem:
        _leave(EX_DATAERR, f"sandbox-exec: {problem}")
    ours, theirs = socket.socketpair()
    first = os.getpid()
    if os.fork() == 0:
        ours.close()
        _watch(profile, theirs, first)
    theirs.close()
    _be_asked_about(ours)
    try:
        os.execvp(command[0], command)
    except OSError as problem:
        _leave(71, f"sandbox-exec: execvp() of '{command[0]}' failed: {problem.strerror}")


def _leave(status: int, words: str) -> NoReturn:
    os.write(2, f"{words}\n".encode())
    os._exit(status)


def _be_asked_about(channel: socket.socket) -> None:
    """From here on the other process is asked. Set-user-id programs give no rights, as in Seatbelt."""
    if _libc.prctl(38, 1, 0, 0, 0) or _libc.prctl(0x59616D61, ctypes.c_ulong(-1 & (2**64 - 1)), 0, 0, 0):
        ctypes.set_errno(0)  # PR_SET_PTRACER is Yama's, and not everywhere
    program = _program()
    memory = ctypes.create_string_buffer(program)
    described = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(memory))
    listener = _libc.syscall(_SECCOMP, _SET_FILTER, _NEW_LISTENER, ctypes.create_string_buffer(described))
    if listener < 0:
        _leave(71, f"sandbox-exec: sandbox_apply: {os.strerror(ctypes.get_errno())}")
    # By write, which nobody is asked about: the descriptor itself is fetched from this process.
    os.write(channel.fileno(), struct.pack("<i", listener))
    os.read(channel.fileno(), 1)
    os.close(listener)
    channel.close()


def _program() -> bytes:
    asked = {
        number(_ARCH, name)
        for name in (*WORDS, *ALWAYS_REFUSED, *UNKNOWN_THERE)
        if number(_ARCH, name) is not None
    }
    listed = sorted(asked)
    lines = [(0x20, 0, 0, 4), (0x15, 1, 0, _ARCH.audit), (0x06, 0, 0, _KILL), (0x20, 0, 0, 0)]
    lines += [(0x15, len(listed) - at, 0, wanted) for at, wanted in enumerate(listed)]
    lines += [(0x06, 0, 0, _ALLOW), (0x06, 0, 0, _ASK)]
    return b"".join(struct.pack("<HBBI", *line) for line in lines)


def _watch(profile: Profile, channel: socket.socket, first: int) -> NoReturn:
    """Until nobody is left in the sandbox."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    told = os.read(channel.fileno(), 4)
    listener = (
        _libc.syscall(_PIDFD_GETFD, os.pidfd_open(first), *struct.unpack("<i", told), 0) if told else -1
    )
    if listener < 0:
        os._exit(1)  # whoever asks is told ENOSYS: nothing is allowed
    os.write(channel.fileno(), b"x")
    channel.close()
    judge = Judge(profile, first)
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    while True:
        (_, events), *_ = poller.poll()
        if not events & select.POLLIN:
            os._exit(0)
        _answer(listener, judge)


def _answer(listener: int, judge: Judge) -> None:
    notice = bytearray(_NOTICE.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, notice)
    except OSError:
        return  # who asked is gone
    id_, pid, _flags, nr, _arch, _ip, *arguments = _NOTICE.unpack(notice)
    refused = judge.ask(pid, nr, tuple(arguments))
    answer = _ANSWER.pack(id_, 0, -refused, 0 if refused else _GO_ON)
    try:
        fcntl.ioctl(listener, _SEND, answer)
    except OSError:
        return


class Judge:
    """Says for one call which error it ends with; 0: none, and it goes on."""

    def __init__(self, profile: Profile, first: int) -> None:
        self._profile, self._first = profile, first
        self._names = {number(_ARCH, name): name for name in (*WORDS, *ALWAYS_REFUSED, *UNKNOWN_THERE)}
        self._known: dict[Request, bool] = {}

    def ask(self, pid: int, nr: int, arguments: tuple[int, ...]) -> int:
        name = self._names[nr]
        if name in UNKNOWN_THERE:
            return errno.ENOSYS
        if name in ALWAYS_REFUSED:
            return errno.EPERM
        try:
            requests = WORDS[name](Call(pid, arguments, self._first))
        except OSError:
            return 0  # what cannot be read, the kernel cannot read either: the call fails by itself
        return 0 if all(map(self._allows, requests)) else errno.EPERM

    def _allows(self, request: Request) -> bool:
        if request not in self._known:
            if len(self._known) > _MOST_KEPT:
                self._known.clear()
            self._known[request] = self._profile.allows(request)
        return self._known[request]


if __name__ == "__main__":
    main(sys.argv[1:])
