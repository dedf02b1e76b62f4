"""The launcher keeps a sandbox: a command that cannot be started is told, and the next one runs."""

from __future__ import annotations

import array
import errno
import os
import select
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from launching import PATH, Running, bare, confined, start

from corral.linux.encode import encode
from corral.linux.spec import ServeFlag, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PHASES = [
    *("cgroup", "session", "limits", "no_new_privs"),
    *("caps", "surroundings", "landlock", "seccomp", "exec"),
]
_SECONDS = 20.0


@dataclass
class Server:
    running: Running
    requests: socket.socket

    def run(self, *argv: str, fault: str = "", wall_ms: int = 0) -> tuple[list[str], bytes]:
        """What is reported of a command, and what it prints."""
        spec = Spec(argv=argv, cwd="/", env=(PATH,), keeps=True, fault=fault, wall_ms=wall_ms, grace_ms=500)
        return self.send(encode(spec))

    def send(self, words: bytes) -> tuple[list[str], bytes]:
        status, status_theirs = os.pipe()
        life_theirs, life = os.pipe()
        out, out_theirs = os.pipe()
        null = os.open("/dev/null", os.O_RDONLY)
        given = [null, out_theirs, out_theirs, status_theirs, life_theirs]
        self.requests.sendmsg([words], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))])
        for fd in set(given):
            os.close(fd)
        try:
            lines = _read_to_end(status).decode().splitlines()
            return [line for line in lines if not line.startswith("usage ")], _read_to_end(out)
        finally:
            for fd in (status, out, life):
                os.close(fd)

    def end(self) -> Running:
        self.requests.close()
        return self.running.finish()


def _read_to_end(fd: int) -> bytes:
    data, end = b"", time.monotonic() + _SECONDS
    while select.select([fd], [], [], max(0.0, end - time.monotonic()))[0]:
        piece = os.read(fd, 65536)
        if not piece:
            return data
        data += piece
    raise AssertionError(f"no end of it: {data!r}")


def serve(binary: Path, spec: Spec, user: int = 0) -> Server:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    running = start(binary, spec, user=user, stdin=theirs.fileno())
    theirs.close()
    ours.settimeout(_SECONDS)
    data, fds, _, _ = socket.recv_fds(ours, 16, 1)
    assert data == b"r", running.status
    for fd in fds:
        os.close(fd)
    return Server(running, ours)


@pytest.fixture(params=["namespaces", "bare"])
def server(request: pytest.FixtureRequest, checked: Path, user: int) -> Iterator[Server]:
    more: dict[str, object] = {"serves": ServeFlag(0), "env": (), "cwd": ""}
    spec = bare(**more) if request.param == "bare" else confined(user=user, **more)
    made = serve(checked, spec, user)
    yield made
    assert made.end().exit_code == 0


def test_commands_run_one_after_the_other(server: Server) -> None:
    for number in range(5):
        lines, output = server.run("sh", "-c", f"echo {number}; exit {number}")
        assert (lines, output) == (["started", f"exited {number}"], f"{number}\n".encode())


@pytest.mark.parametrize("phase", PHASES)
def test_a_fault_is_told_and_the_next_command_runs(server: Server, phase: str) -> None:
    lines, output = server.run("echo", "never", fault=phase)

    assert lines == [f"failed {phase} {errno.EIO} injected fault"]
    assert b"never" not in output  # the sanitizers have a word about the stack of the process that fails
    assert server.run("echo", "well") == (["started", "exited 0"], b"well\n")


def test_a_command_that_runs_is_not_called_failed_when_the_server_cannot_be_told(server: Server) -> None:
    """As at its end: what reads is closed a moment before the jobs are ended."""
    for _ in range(3):
        assert server.run("echo", "well", fault="taken") == (["started", "exited 0"], b"well\n")


def test_a_program_that_is_not_there_is_told(server: Server) -> None:
    lines, _ = server.run("nothing-of-that-name")

    assert lines == [f"failed exec {errno.ENOENT} nothing-of-that-name"]
    assert server.run("true")[0] == ["started", "exited 0"]


def test_who_heeds_the_end_of_its_time_leaves_nobody_in_its_place(server: Server) -> None:
    script = "trap 'exit 0' TERM; (trap '' TERM; exec sleep 1000) & while :; do sleep 0.1; done"

    lines, _ = server.run("sh", "-c", script, wall_ms=300)

    assert lines[0] == "started" and "timed-out" in lines and "left" not in lines


def test_words_that_are_no_spec_are_told(server: Server) -> None:
    lines, _ = server.send(b"no spec at all")

    assert lines[0].startswith(f"failed spec {errno.EINVAL} ")
    assert server.run("true")[0] == ["started", "exited 0"]
