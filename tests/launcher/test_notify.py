"""Launches whose connections corral is asked about: the filter's descriptor is sent, or nothing runs."""

from __future__ import annotations

import array
import errno
import os
import socket

import launching
import pytest

from corral.linux.spec import GatewayFlag, GatewaySockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

ASKING = GatewaySockets((), GatewayFlag.NOTIFY)


def test_without_anybody_to_send_it_to_nothing_runs(launcher: Path, user: int, open_directory: Path) -> None:
    """The status channel is a pipe, by which no descriptor passes."""
    spec = launching.bare(*launching.shell(f"touch {open_directory}/ran"), gateway=ASKING)

    done = launching.launch(launcher, spec, user=user)

    assert done.lines == [f"failed net {errno.ENOTSOCK} send the filter's descriptor to corral"]
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


def test_the_descriptor_is_sent_and_kept_by_nobody(
    launcher: Path, user: int, by_socket: list[socket.socket]
) -> None:
    script = 'for link in /proc/self/fd/* /proc/$$/fd/*; do readlink "$link"; done'
    spec = launching.bare(*launching.shell(script), gateway=ASKING)

    running = launching.start(launcher, spec, user=user)
    word, ancillary, _, _ = by_socket[0].recvmsg(100, socket.CMSG_SPACE(16))
    running.finish()

    assert word.startswith(b"gateway\n")
    ((_, _, sent),) = ancillary
    (listener,) = array.array("i", sent[: len(sent) // 4 * 4])
    assert os.readlink(f"/proc/self/fd/{listener}") == "anon_inode:seccomp notify"
    assert running.output and b"seccomp notify" not in running.output
    os.close(listener)
    by_socket[0].close()


@pytest.mark.parametrize("phase", ["net"])
def test_a_fault_before_it_runs_nothing(checked: Path, phase: str, open_directory: Path) -> None:
    spec = launching.bare(*launching.shell(f"touch {open_directory}/ran"), gateway=ASKING, fault=phase)

    done = launching.launch(checked, spec)

    assert done.lines[0].startswith(f"failed {phase} ")
    assert list(open_directory.iterdir()) == []
