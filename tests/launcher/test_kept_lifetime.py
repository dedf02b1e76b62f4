"""Nothing of a kept sandbox without namespaces outlives its lifeline or its server."""

from __future__ import annotations

import array
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from launching import PATH, PATIENCE_SECONDS, bare, start

from corral.linux.encode import encode
from corral.linux.spec import ServeFlag, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from launching import Running

#: A command that ends and leaves a process behind, which says its number.
_LEAVES = "sleep 1000 >/dev/null 2>&1 & echo $!"


class Kept:
    """A server, and the ends of the pipes of one command."""

    def __init__(self, launcher: Path) -> None:
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        spec = bare(serves=ServeFlag(0), env=(), cwd="")
        self.server: Running = start(launcher, spec, stdin=theirs.fileno())
        theirs.close()
        self.requests.settimeout(PATIENCE_SECONDS)
        _, fds, _, _ = socket.recv_fds(self.requests, 16, 1)
        for fd in fds:
            os.close(fd)
        self.lifeline = -1
        self.has_left = False

    def run(self, script: str) -> int:
        """Run a command that is kept; returns the number that it prints."""
        status, status_theirs = os.pipe()
        life_theirs, self.lifeline = os.pipe()
        out, out_theirs = os.pipe()
        null = os.open("/dev/null", os.O_RDONLY)
        given = [null, out_theirs, null, status_theirs, life_theirs]
        words = encode(Spec(argv=("sh", "-c", script), cwd="/", env=(PATH,), keeps=True))
        self.requests.sendmsg([words], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))])
        for fd in set(given):
            os.close(fd)
        number = int(os.read(out, 64))
        said = b""
        while b"usage" not in said:
            said += os.read(status, 4096)
        self.has_left = b"left\n" in said
        for fd in (out, status):
            os.close(fd)
        return number


@pytest.fixture
def kept(plain: Path) -> Iterator[Kept]:
    made = Kept(plain)
    yield made
    for fd in {made.lifeline} - {-1}:
        os.close(fd)
    made.requests.close()
    made.server.finish()


def _is_gone(pid: int) -> bool:
    end = time.monotonic() + PATIENCE_SECONDS / 4
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return False


def test_what_was_left_ends_with_the_lifeline(kept: Kept) -> None:
    left = kept.run(_LEAVES)
    assert kept.has_left and Path(f"/proc/{left}").exists()

    os.close(kept.lifeline)
    kept.lifeline = -1

    assert _is_gone(left)


def test_no_job_outlives_its_server(kept: Kept) -> None:
    """The death signal: nobody else is told when a server is killed."""
    kept.run("echo 1")  # so that there is one which has got as far as that
    listed = Path(f"/proc/{kept.server.pid}/task/{kept.server.pid}/children").read_text()
    jobs = [int(pid) for pid in listed.split()]

    kept.server.kill(signal.SIGKILL)

    gone = [_is_gone(job) for job in jobs]
    assert gone and all(gone)
