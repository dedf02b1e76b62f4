"""proc.identity: a command of root's has no user id and no group id of the host's."""

from __future__ import annotations

import os
import socket
import struct
import threading

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.confinement import Attempt, Case, Stage

pytestmark = pytest.mark.proves(Feature.PROC_IDENTITY)

_REQUIRED = ("feature:require:proc.identity",)
_SO_PEERGROUPS = 59
_LEAST = 65536  # users of the host are below
# Whoever is called says so when he has asked the kernel who it is.
_CALL = """
import socket
with socket.socket(socket.AF_UNIX) as caller:
    caller.connect('door')
    caller.recv(1)
"""


class Door:
    """A socket in the workspace, and who has called there, as the host's kernel knows him."""

    def __init__(self, directory: Path) -> None:
        self.seen: set[tuple[str, int]] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        handle = os.open(directory, os.O_PATH)
        self._listener.bind(f"/proc/self/fd/{handle}/door")  # the path itself may be too long for an address
        os.close(handle)
        (directory / "door").chmod(0o777)
        self._listener.listen()
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with caller:
                _, uid, gid = struct.unpack(
                    "3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                )
                groups = caller.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 1024)
                self.seen |= {("uid", uid), ("gid", gid)}
                self.seen |= {("gid", each) for (each,) in struct.iter_unpack("i", groups)}
                caller.send(b".")

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture(autouse=True)
def for_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("an ordinary user's command has his id, and that is what it should have")


@pytest.fixture
def door(stage: Stage) -> Iterator[Door]:
    opened = Door(stage.work)
    yield opened
    opened.close()


def _call(backend: Case, stage: Stage, door: Door, kind: str) -> Attempt:
    done = attempt(
        backend,
        stage,
        python(_CALL),
        effect=lambda _: any(which == kind and number < _LEAST for which, number in door.seen),
        reset=door.seen.clear,
        capabilities=_REQUIRED,
    )
    assert door.seen, "nobody called"
    return done


def test_the_hosts_kernel_knows_it_by_another_user_id(backend: Case, stage: Stage, door: Door) -> None:
    assert not _call(backend, stage, door, "uid").worked


def test_it_is_in_no_group_of_the_hosts(backend: Case, stage: Stage, door: Door) -> None:
    assert not _call(backend, stage, door, "gid").worked


def test_what_it_makes_in_the_workspace_belongs_to_root(backend: Case, stage: Stage) -> None:
    """And it reads and writes there what root alone may."""
    own = stage.work / "own"
    own.write_text("secret")
    own.chmod(0o600)
    stage.work.chmod(0o700)
    other = stage.outside / "file"
    other.write_text("kept")
    other.chmod(0o666)
    copy = "import os; open('made', 'w').write(open('own').read()); os.chmod('made', 0o600)"
    script = f"{copy}; open({str(other)!r}, 'w')"

    done = attempt(
        backend,
        stage,
        python(script),
        effect=lambda _: other.read_text() != "kept",
        reset=lambda: (other.write_text("kept"), (stage.work / "made").unlink()),
        capabilities=_REQUIRED,
    )

    assert not done.worked
    made = (stage.work / "made").stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o777) == (0, 0, 0o600)
    assert (stage.work / "made").read_text() == "secret"
