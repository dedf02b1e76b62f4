"""Memory that no process shows counts as well, whoever counts it."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.result import Outcome
from support.arena import HOLD_SECONDS, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.arena import Arena

_LIMIT = "memory:limit:64MiB"

_MEMFD = """
held = os.memfd_create('held')
for _ in range(160): os.write(held, bytes(1 << 20))
"""
_SYSTEM_V = """
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for _ in range(10):
    segment = libc.shmget(0, ctypes.c_size_t(16 << 20), 0o600)
    if segment < 0: raise OSError('no segment')
    place = libc.shmat(segment, None, 0)
    ctypes.memset(place, 1, 16 << 20)
    libc.shmdt(ctypes.c_void_p(place))
"""
_LET_GO = """
held = mmap.mmap(-1, 160 << 20)
for at in range(0, 160 << 20, 4 << 20):
    held[at:at + (4 << 20)] = bytes(b'x') * (4 << 20)
    held.madvise(mmap.MADV_DONTNEED, at, 4 << 20)
"""
_NOT_DUMPABLE = """
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
held = bytearray(160 << 20)
"""
_INHERITED = """
held = mmap.mmap(-1, 160 << 20)
for part in range(8):
    if os.fork() == 0:
        size = (160 << 20) // 8
        held[part * size:(part + 1) * size] = bytes(b'x') * size
        os._exit(0)
    if os.wait()[1] != 0: raise OSError('it was ended')
"""
# To read is enough: the page is that of the zeros, and the tables that lead to it are one's own.
_PAGE_TABLES = """
held = mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
held.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, 64 << 30, 2 << 20): held[at]
"""
_EMPTY_FILES = """
for folder in range(40):
    os.mkdir(f'/tmp/{folder}')
    for number in range(1000): open(f'/tmp/{folder}/{number:0200}', 'w').close()
"""
_HIDING = pytest.mark.parametrize(
    "hide",
    [_MEMFD, _SYSTEM_V, _LET_GO, _NOT_DUMPABLE, _INHERITED, _PAGE_TABLES],
    ids=["memfd", "system v", "released", "not dumpable", "of dead children", "page tables"],
)
_SCRIPT = """
import ctypes, fcntl, mmap, os, sys, time
try:
    {hide}
except OSError:
    sys.exit(3)
time.sleep(float(sys.argv[1]))
open('mark', 'w').close()
"""


def _script(hide: str) -> str:
    return _SCRIPT.format(hide=hide.strip().replace("\n", "\n    "))


@_HIDING
def test_hidden_memory_is_refused_or_found(arena: Arena, work: Path, hide: str) -> None:
    result = arena.run(python(_script(hide), "0" if arena.is_grouped else str(HOLD_SECONDS)), _LIMIT)

    assert result.outcome is Outcome.OUT_OF_MEMORY or result.exit_code == 3, (result, result.stderr)
    assert not (work / "mark").exists()


@_HIDING
def test_without_a_limit_it_can_be_had(arena: Arena, work: Path, hide: str) -> None:
    if arena.backend == "landlock" and hide == _SYSTEM_V:
        pytest.skip("landlock lets nobody have segments, with or without a limit")
    result = arena.run(python(_script(hide), "0"))

    assert result.ok, (result, result.stderr)
    assert (work / "mark").exists()


@pytest.mark.parametrize("limit", [("memory:limit:32MiB",), ()], ids=["with a limit", "without one"])
def test_empty_files_take_memory_too(arena: Arena, work: Path, limit: tuple[str, ...]) -> None:
    arena.needs(Feature.LIMIT_DISK)  # else the areas are on a disk
    hold = str(HOLD_SECONDS) if limit and not arena.is_grouped else "0"
    result = arena.run(python(_script(_EMPTY_FILES), hold), *limit)

    assert result.ok == (not limit), (result, result.stderr)
    assert (work / "mark").exists() == (not limit)


#: Connections on the loopback of the run's own network, whose buffers the kernel lets grow as it likes.
_CONNECTIONS = """
import socket, time
server = socket.create_server(('127.0.0.1', 0), backlog=256)
held, total = [], 0
while total < 300 << 20 and len(held) < 400:
    ours = socket.create_connection(server.getsockname())
    theirs, _ = server.accept()
    held.append((ours, theirs))
    for end in (ours, theirs):
        end.setblocking(False)
        try:
            while True: total += end.send(bytes(65536))
        except BlockingIOError: pass
print(total >> 20)
"""


def test_buffers_of_connections_are_held_where_a_group_counts(arena: Arena) -> None:
    """With room, hundreds of MiB fit. Version 1 counts them beside the rest: twice the limit at most."""
    if not arena.is_grouped or arena.backend != "native":
        pytest.skip("only a control group counts them, and only native has a loopback of its own")
    free = arena.run(python(_CONNECTIONS), "memory:limit:2GiB")
    held = arena.run(python(_CONNECTIONS), _LIMIT)

    if int(free.stdout or 0) <= 160:
        pytest.skip("this machine gives the buffers of all connections together too little memory to tell")
    assert held.outcome is Outcome.OUT_OF_MEMORY or int(held.stdout or 0) <= 128
