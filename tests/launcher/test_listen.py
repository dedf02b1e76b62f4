"""Calls that a filter sends to the supervisor: answered as the filter says, told once, never left waiting."""

from __future__ import annotations

import ctypes
import os
import signal
import struct

import launching
import pytest

from corral.linux.bpf import compile_filter
from corral.linux.filter import SocketPolicy, default_filter
from corral.linux.listening import listened, with_reports
from corral.linux.syscalls import Arch, number
from corral.model.policy import Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.linux.spec import Spec


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


ARCH = Arch(os.uname().machine)
#: Prints the error number of a call that is made with the words that follow.
CALL = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
number, times, *words = sys.argv[1:]
for _ in range(int(times)):
    libc.syscall(int(number), *(word.encode() for word in words))
print("errno", ctypes.get_errno(), flush=True)
"""


def _filter(*, reports: bool = True, hears: bool = False) -> bytes:
    rules = default_filter(sockets=SocketPolicy.NAMESPACED, private_ipc_by_filter=False)
    return compile_filter(with_reports(rules, (), hears=hears) if reports else rules, ARCH)


def _listening(*argv: str, hears: bool = False, **more: object) -> Spec:
    program = _filter(hears=hears)
    return launching.confined(*argv, seccomp=program, listens=tuple(listened(ARCH)), **more)  # type: ignore[arg-type]


def _call(name: str, *words: str, times: int = 1) -> tuple[str, ...]:
    return ("python3", "-c", CALL, str(number(ARCH, name)), str(times), *words)


def _told(lines: list[str], word: str) -> list[str]:
    return [line for line in lines if line.startswith(f"{word} ")]


def test_a_refused_call_is_told_with_what_it_claims(launcher: Path, user: int) -> None:
    done = launching.launch(launcher, _listening(*_call("chroot", "/somewhere"), user=user))

    told = _told(done.lines, "refused")
    assert len(told) == 1
    words = told[0].split(" ")
    assert (int(words[1], 16), int(words[2], 16)) == (number(ARCH, "chroot"), 1)
    assert bytes.fromhex(words[9]) == b"/somewhere"
    assert done.output == b"errno 1\n"  # what it has without a listener


def test_a_flood_of_refused_calls_is_one_line_and_a_count(plain: Path) -> None:
    done = launching.launch(plain, _listening(*_call("chroot", "/x", times=5000)))

    assert len(_told(done.lines, "refused")) == 1
    assert _told(done.lines, "times") == [f"times {number(ARCH, 'chroot')} 5000"]


def test_calls_that_exist_for_compatibility_are_silent(plain: Path) -> None:
    done = launching.launch(plain, _listening(*_call("clone3", "x")))

    assert done.output == b"errno 38\n"
    assert _told(done.lines, "refused") == []


def test_what_is_written_to_standard_error_is_heard_and_arrives(launcher: Path, user: int) -> None:
    script = (
        "import os, subprocess; os.write(2, b'heard\\n'); os.write(1, b'out\\n')\n"
        "elsewhere = [{}, '-c', \"import os; os.write(2, b'elsewhere')\"]\n"
        "subprocess.run(elsewhere, stderr=subprocess.DEVNULL, check=True)\n"
        "os.write(2, b'7' * 1000)"
    ).format("'python3'")
    done = launching.launch(launcher, _listening("python3", "-c", script, hears=True, user=user))

    said = b"".join(bytes.fromhex(line[5:]) for line in _told(done.lines, "said"))
    assert said == b"heard\n" + b"7" * 1000
    assert done.output == b"heard\nout\n" + b"7" * 1000


def test_of_very_much_the_end_is_kept(plain: Path) -> None:
    script = "import os; [os.write(2, b'%06d\\n' % i) for i in range(9000)]"
    done = launching.launch(plain, _listening("python3", "-c", script, hears=True))

    said = b"".join(bytes.fromhex(line[5:]) for line in _told(done.lines, "said"))
    assert said == done.output[-16384:]
    assert done.output.count(b"\n") == 9000


def test_parts_that_are_written_together_are_heard_together(plain: Path) -> None:
    script = "import os; os.writev(2, [b'one ', b'two ', b'three'])"
    done = launching.launch(plain, _listening("python3", "-c", script, hears=True))

    assert [bytes.fromhex(line[5:]) for line in _told(done.lines, "said")] == [b"one two three"]


def test_with_the_supervisor_everybody_ends(plain: Path) -> None:
    """Nobody is left who waits for an answer."""
    script = "import os; os.write(1, b'ready'); [os.write(2, b'x') for i in iter(int, 1)]"
    running = launching.start(plain, _listening("python3", "-c", script, hears=True))
    running.wait_for_output(b"ready")

    running.kill(signal.SIGKILL)
    running.finish()  # reads the output to its end: the last holder is gone

    assert running.exit_code == -signal.SIGKILL


#: A process that is refused a call, as its parent sees it. What the parent writes is asked about after that.
WAITING = """
import ctypes, os, select, signal, sys
number, (answered, answer) = sys.argv[1], os.pipe()
child = os.fork()
if not child:
    ctypes.CDLL(None).syscall(int(number), b"/x")
    os.write(answer, b"x")
    signal.pause()
def waits():
    with open(f"/proc/{child}/syscall") as file:
        return file.read().split()[0] == number
def went_on():
    return bool(select.select([answered], [], [], 0)[0])
while not waits() and not went_on():
    pass
os.write(2, b"after it\\n")
print("waits" if waits() and not went_on() else "was answered", flush=True)
os.kill(child, signal.SIGKILL)
"""


@pytest.mark.parametrize(("response", "said"), [("deny", b"was answered"), ("terminate", b"waits")])
def test_who_is_to_be_ended_is_not_answered(plain: Path, response: str, said: bytes) -> None:
    calls = tuple(listened(ARCH, response=Response(response)))
    argv = ("python3", "-c", WAITING, str(number(ARCH, "chroot")))
    done = launching.launch(plain, launching.confined(*argv, seccomp=_filter(hears=True), listens=calls))

    assert done.output.splitlines() == [b"after it", said]


def test_without_a_listener_the_same_filter_refuses_in_silence(plain: Path) -> None:
    spec = launching.confined(*_call("chroot", "/x"), seccomp=_filter(hears=True))

    done = launching.launch(plain, spec)

    assert done.output == b"errno 1\n"
    assert _told(done.lines, "refused") == []


def test_inside_another_listener_it_refuses_in_silence(plain: Path) -> None:
    """The kernel permits one listener for each process: the outer one."""
    outer = with_listener_around(plain, _listening(*_call("chroot", "/x")))

    assert outer.output == b"errno 1\n"
    assert _told(outer.lines, "refused") == []


def with_listener_around(launcher: Path, spec: Spec) -> launching.Running:
    """A launch whose launcher is itself under a filter with a listener, which asks about nothing."""
    allow = struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)
    over, still_going = os.pipe()
    real = os.execve

    def execve(*arguments: object) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(38, 1, 0, 0, 0)
        program = _Program(1, allow)
        listener = libc.syscall(number(ARCH, "seccomp"), 1, 1 << 3, ctypes.byref(program))
        assert listener >= 0
        if os.fork() == 0:  # holds the listener: without a holder there is none
            first, second = sorted((over, listener))
            os.closerange(0, first)
            os.closerange(first + 1, second)
            os.closerange(second + 1, 1024)
            os.read(over, 1)
            os._exit(0)
        real(*arguments)  # type: ignore[arg-type]

    launching.os.execve = execve  # type: ignore[assignment]
    try:
        return launching.launch(launcher, spec)
    finally:
        launching.os.execve = real
        os.close(still_going)
        os.close(over)
