"""Requests that are none, written straight to the server's socket: it survives them, and loses nothing."""

from __future__ import annotations

import array
import os
import socket
from pathlib import Path

import pytest

from corral.model.errors import SetupError
from corral.streams.streams import GivenStreams
from support.keeping import MOST_IDLE, server_of, wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.session import Session
    from support.keeping import Keeper

BACKENDS = ("native", "landlock", "bubblewrap")
GARBAGE = b"\xff" * 64


def send(session: Session, words: bytes, count: int) -> None:
    """A message with so many descriptors, all of the null device."""
    kept = session._kept
    assert kept._requests is not None
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [kept._null] * count))] if count else []
    kept._requests.sendmsg([words], rights)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("words", "count"),
    [
        pytest.param(GARBAGE, 5, id="garbage"),
        pytest.param(GARBAGE, 0, id="nothing-given"),
        pytest.param(GARBAGE, 1, id="too-few"),
        pytest.param(GARBAGE, 4, id="one-too-few"),
        pytest.param(GARBAGE, 7, id="one-too-many"),
        pytest.param(GARBAGE, 200, id="far-too-many"),
        pytest.param(b"x" * 80_000, 5, id="oversized"),
        pytest.param(b"f", 6, id="empty-file"),
        pytest.param(b"x", 5, id="one-byte"),
    ],
)
def test_the_server_survives(keeper: Keeper, backend: str, words: bytes, count: int) -> None:
    session = keeper.session(backend=backend)

    for _ in range(5):
        send(session, words, count)
        assert session.run(["/bin/echo", "well"], timeout=20).stdout == "well\n"


def test_truncated_specs_are_refused_one_by_one(keeper: Keeper) -> None:
    session = keeper.session()
    spec = session._kept.encode(("/bin/true",), "/")
    for length in range(1, len(spec), 7):
        send(session, spec[:length], 5)

    assert session.run(["/bin/echo", "well"], timeout=20).stdout == "well\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot look into the server either")
def test_the_server_keeps_no_descriptor_of_a_broken_request(keeper: Keeper) -> None:
    session = keeper.session()
    session.run("true")
    server = server_of(session)
    before = len(os.listdir(f"/proc/{server}/fd"))
    for count in (0, 1, 4, 7, 31, 200) * 5:
        send(session, GARBAGE, count)
    session.run("true")

    wait_until(lambda: len(os.listdir(f"/proc/{server}/fd")) == before, "all were closed")
    wait_until(lambda: 1 <= len(_children(server)) <= MOST_IDLE, "jobs wait, and no other is left")
    jobs = [len(os.listdir(f"/proc/{job}/fd")) for job in _children(server)]
    assert max(jobs) < 20, "a job holds what came with a broken request"


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH], ids=["open", "path"])
def test_a_directory_is_no_stdio_of_a_command(
    keeper: Keeper, tmp_path: Path, number: int, flags: int
) -> None:
    """`openat` on it would be no lookup from the root inside: refused by corral, and by the job."""
    session = keeper.session()
    kept = session._kept
    directory = os.open(tmp_path, flags)
    given = [kept._null] * 3
    given[number] = directory
    try:
        streams = GivenStreams(tuple(os.dup(each) for each in given))  # type: ignore[arg-type]
        with pytest.raises(SetupError, match="directory"):
            session.finish(session.prepare_on(streams, ("/bin/true",)))
        assert (
            _ask(session, given) == b"failed spec 9 a directory or a mere path as stdin, stdout or stderr\n"
        )
    finally:
        os.close(directory)
    assert session.run(["/bin/echo", "well"], timeout=20).stdout == "well\n"


def _ask(session: Session, stdio: list[int]) -> bytes:
    """What a job says to a request that corral itself would not make."""
    requests, spec = session._kept._requests, session._kept.encode(("/bin/true",), "/")
    assert requests is not None
    status, status_theirs = os.pipe()
    lifeline_theirs, lifeline = os.pipe()
    rights = array.array("i", [*stdio, status_theirs, lifeline_theirs])
    requests.sendmsg([spec], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    os.close(status_theirs)
    os.close(lifeline_theirs)
    with open(status, "rb") as said:
        text = said.read()
    os.close(lifeline)
    return text


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
