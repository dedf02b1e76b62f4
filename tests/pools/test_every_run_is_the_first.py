"""What one command of a pool leaves behind, no other ever sees; in one session, the next one does."""

from __future__ import annotations

import json
import os

import pytest

from corral import Pool
from support.engines import ENGINES
from support.pooled import EVERY, LOCAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.gates import Gate

#: Leaves a mark everywhere, or says where it finds one.
MARKS = r"""
import ctypes, json, os, socket, subprocess, sys
home, temporary = os.environ["HOME"], os.environ.get("TMPDIR", "/tmp")
port, key = 47113, 0x434F5252
libc = ctypes.CDLL(None)

def leave():
    for place in (temporary, "/dev/shm", home):
        try:
            open(f"{place}/pool-mark", "w").close()
        except OSError:
            pass
    libc.shmget(key, 4096, 0o1600)
    server = '''
import os, socket
tcp = socket.create_server(("127.0.0.1", 47113))
try:
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\\0pool-mark")
    abstract.listen()
except OSError:
    pass
os.write(1, b"up")  # at once: nobody reads on
tcp.accept()
'''
    ready, theirs = os.pipe()
    subprocess.Popen([sys.executable, "-c", server], stdin=subprocess.DEVNULL, stdout=theirs,
                     stderr=subprocess.DEVNULL, start_new_session=True)
    os.close(theirs)
    os.read(ready, 2)

def can_connect(family, address):
    try:
        with socket.socket(family) as connection:
            connection.settimeout(5)
            connection.connect(address)
        return True
    except OSError:
        return False

def look():
    seen = [place for place in (temporary, "/dev/shm", home) if os.path.exists(f"{place}/pool-mark")]
    seen += ["memory"] if libc.shmget(key, 4096, 0) >= 0 else []
    seen += ["abstract"] if can_connect(socket.AF_UNIX, "\0pool-mark") else []
    seen += ["port"] if can_connect(socket.AF_INET, ("127.0.0.1", port)) else []
    seen += ["environment"] if "POOL_MARK" in os.environ else []
    print(json.dumps([mark.replace(temporary, "/tmp").replace(home, "home") for mark in seen]))

leave() if sys.argv[1] == "leave" else look()
"""
LEAVE = ("/usr/bin/env", "python3", "-c", MARKS, "leave")
LOOK = ("/usr/bin/env", "python3", "-c", MARKS, "look")
#: What the next command of one session sees, at least: the control. (Abstract sockets, not even that one.)
SHARED = {"landlock": {"/tmp"}}
SHARED_WITH_NAMESPACES = {"/tmp", "home", "/dev/shm", "memory", "port"}


@pytest.mark.parametrize("backend", EVERY)
def test_no_mark_is_seen_by_the_next(backend: str, make_sandbox) -> None:
    sandbox = make_sandbox(backend)
    with sandbox.session() as session:
        session.run(LEAVE, env={"POOL_MARK": "1"}).check()
        in_one_session = set(json.loads(session.run(LOOK).check().stdout))

    size = 1 if backend in ENGINES else 2  # a container takes seconds, and each run of a pool takes one more
    with Pool(sandbox, size=size) as pool:
        pool.run(LEAVE, env={"POOL_MARK": "1"}).check()
        seen = [json.loads(pool.run(LOOK).check().stdout) for _ in range(size + 1)]

    assert in_one_session >= SHARED.get(backend, SHARED_WITH_NAMESPACES)
    assert seen == [[]] * (size + 1)


@pytest.mark.parametrize("backend", LOCAL)
def test_nothing_that_a_command_started_outlives_it(
    backend: str, make_sandbox, work: Path, gate: Gate
) -> None:
    """The gate is left by the time `run` returns; with a session it is held until that is closed."""
    held = "exec 9>gate; setsid sleep 600 >/dev/null 2>&1 & exit 0"
    sandbox = make_sandbox(backend)
    with sandbox.session() as session:
        session.run(held).check()
        is_left_in_session = gate.is_left(0)

    with Pool(sandbox, size=1) as pool:
        pool.run(held).check()
        is_left = gate.is_left(0)

    assert not is_left_in_session
    assert is_left


def test_a_limit_reached_by_one_command_does_not_tell_on_the_next(make_sandbox) -> None:
    with Pool(make_sandbox(), size=1) as pool:
        first = pool.run("sleep 600", timeout=0.2)
        second = pool.run("echo fine")

    assert first.outcome.value == "timed-out"
    assert second.stdout == "fine\n"


def test_files_of_the_workspace_stay(make_sandbox, work: Path) -> None:
    with Pool(make_sandbox(), size=1) as pool:
        pool.run("echo 1 > kept").check()

        assert pool.run("cat kept").stdout == "1\n"
    assert (work / "kept").read_text() == "1\n"
    assert os.listdir(work) == ["kept"]
