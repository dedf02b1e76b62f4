"""Launches whose connections corral is asked about: the way of the questions is sent, or nothing runs."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import socket
import struct

import launching
import pytest

from corral.linux.bpf import compile_filter
from corral.linux.filter import SocketPolicy, default_filter
from corral.linux.listening import listened, with_questions, with_reports
from corral.linux.spec import GatewayFlag, GatewaySockets
from corral.linux.syscalls import Arch, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.linux.spec import Spec

ARCH = Arch(os.uname().machine)
NUMBER = number(ARCH, "connect")


def _asking(*argv: str, **more: object) -> Spec:
    rules = default_filter(sockets=SocketPolicy.PROXIED, private_ipc_by_filter=True)
    return launching.bare(
        *argv,
        gateway=GatewaySockets((), GatewayFlag.NOTIFY),
        seccomp=compile_filter(with_questions(with_reports(rules, (), hears=False)), ARCH),
        listens=tuple(listened(ARCH)),
        **more,
    )


def test_without_anybody_to_send_it_to_nothing_runs(launcher: Path, user: int, open_directory: Path) -> None:
    """The status channel is a pipe, by which no descriptor passes."""
    spec = _asking(*launching.shell(f"touch {open_directory}/ran"))

    done = launching.launch(launcher, spec, user=user)

    assert done.lines == [f"failed net {errno.ENOTSOCK} a way to ask corral about connections"]
    assert done.exit_code == 125
    assert list(open_directory.iterdir()) == []


@pytest.fixture
def by_socket(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """The status channel is a pair of sockets; the test's own end of it is kept."""
    kept: list[socket.socket] = []
    make_pipe = os.pipe

    def pipe() -> tuple[int, int]:
        if kept:
            return make_pipe()
        ours, theirs = socket.socketpair()
        kept.append(ours)
        return os.dup(ours.fileno()), theirs.detach()

    monkeypatch.setattr(launching.os, "pipe", pipe)
    return kept


def test_questions_come_with_their_listener_and_a_command_holds_neither(
    launcher: Path, user: int, by_socket: list[socket.socket]
) -> None:
    script = (
        "import os, socket\n"
        "names = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd') if int(n) > 2]\n"
        "print([name for name in names if os.path.lexists(name)])\n"
        "print(socket.socket().connect_ex(('127.0.0.1', 7)), flush=True)\n"
    )

    running = launching.start(launcher, _asking("python3", "-c", script), user=user)
    asked = _receive_way(by_socket[0])
    question, ancillary, _, _ = asked.recvmsg(100, socket.CMSG_SPACE(4))
    assert len(ancillary) == 1
    ((_, _, sent),) = ancillary
    (listener,) = array.array("i", sent)
    assert os.readlink(f"/proc/self/fd/{listener}") == "anon_inode:seccomp notify"
    id_, thread, _, number, _, _, *_ = struct.unpack("=QIIiIQ6Q", question)
    fcntl.ioctl(listener, 0xC018_2101, bytearray(struct.pack("=QqiI", id_, 0, -errno.ENETDOWN, 0)))
    os.close(listener)
    running.finish()
    asked.close()

    assert number == NUMBER
    assert thread > 0
    assert running.output == f"[]\n{errno.ENETDOWN}\n".encode()


def test_a_corral_that_does_not_ask_any_more_permits_nothing(
    launcher: Path, by_socket: list[socket.socket]
) -> None:
    script = "import socket; input(); print(socket.socket().connect_ex(('127.0.0.1', 7)), flush=True)"
    spec = _asking("sh", "-c", 'echo | python3 -c "$0"', script)

    running = launching.start(launcher, spec)
    _receive_way(by_socket[0]).close()
    running.finish()

    assert running.output == f"{errno.ENOSYS}\n".encode()


def test_what_is_refused_is_told_beside_questions(launcher: Path, by_socket: list[socket.socket]) -> None:
    """A process can have one filter with a listener: this one has both."""
    running = launching.start(launcher, _asking("unshare", "--user", "true"))
    way = _receive_way(by_socket[0])
    running.finish()
    way.close()

    told = [line.split(" ")[1:3] for line in running.lines if line.startswith("refused ")]
    assert told == [[f"{number(ARCH, 'unshare'):x}", "1"]]


def _receive_way(status: socket.socket) -> socket.socket:
    word, ancillary, _, _ = status.recvmsg(len("gateway\n"), socket.CMSG_SPACE(16))
    assert word == b"gateway\n"
    assert ancillary
    ((_, _, sent),) = ancillary
    (way,) = array.array("i", sent[: len(sent) // 4 * 4])
    os.set_blocking(way, True)
    return socket.socket(fileno=way)


@pytest.mark.parametrize("phase", ["net"])
def test_a_fault_before_it_runs_nothing(checked: Path, phase: str, open_directory: Path) -> None:
    spec = _asking(*launching.shell(f"touch {open_directory}/ran"), fault=phase)

    done = launching.launch(checked, spec)

    assert done.lines[0].startswith(f"failed {phase} ")
    assert list(open_directory.iterdir()) == []
