"""Limits without a control group: the launcher looks for itself, and ends or stops the tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import bare, confined, launch, shell, start

from corral.linux.spec import Areas, LimitWatch, Mount, MountKind
from support.spinning import SPIN

_MIB = 1 << 20


def python(script: str) -> tuple[str, str, str]:
    return "python3", "-c", script


@pytest.mark.parametrize("make", [bare, confined])
def test_too_much_memory_ends_the_tree(launcher: Path, make) -> None:
    script = "held = bytearray(200 << 20)\nprint('had it all', flush=True)\nimport time; time.sleep(60)"
    done = launch(launcher, make(*python(script), watch=LimitWatch(memory_bytes=64 * _MIB)))

    assert "limit memory" in done.lines
    assert "signalled 9" in done.lines


@pytest.mark.parametrize("make", [bare, confined])
def test_enough_memory_is_enough(launcher: Path, make) -> None:
    done = launch(
        launcher, make(*python("held = bytearray(30 << 20)"), watch=LimitWatch(memory_bytes=256 * _MIB))
    )

    assert done.lines == ["started", "exited 0"]


@pytest.mark.parametrize("make", [bare, confined])
def test_memory_of_many_children_counts_together(launcher: Path, make) -> None:
    script = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = bytearray(os.urandom(4096)) * (20 * 256)
        time.sleep(60)
time.sleep(60)
"""
    done = launch(launcher, make(*python(script), watch=LimitWatch(memory_bytes=96 * _MIB)))

    assert "limit memory" in done.lines


@pytest.mark.parametrize("make", [bare, confined])
def test_memory_that_children_share_counts_once(launcher: Path, make) -> None:
    script = """
import os, time
held = bytearray(os.urandom(4096)) * (40 * 256)
for _ in range(6):
    if os.fork() == 0:
        time.sleep(0.3); os._exit(0)
for _ in range(6): os.wait()
"""
    done = launch(launcher, make(*python(script), watch=LimitWatch(memory_bytes=120 * _MIB)))

    assert done.lines == ["started", "exited 0"]


def test_a_process_that_hides_its_memory_counts_whole(launcher: Path) -> None:
    script = """
import ctypes, os, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # not dumpable: nobody may look closer
held = bytearray(os.urandom(4096)) * (100 * 256)
time.sleep(60)
"""
    done = launch(launcher, confined(*python(script), watch=LimitWatch(memory_bytes=64 * _MIB)))

    assert "limit memory" in done.lines


def test_shared_memory_that_is_let_go_of_counts(launcher: Path) -> None:
    """Filled pages of a shared mapping stay when their process drops them, and are resident nowhere."""
    script = """
import mmap, time
held = mmap.mmap(-1, 200 << 20)
for at in range(0, 200 << 20, 4 << 20):
    held[at:at + (4 << 20)] = b'x' * (4 << 20)
    held.madvise(mmap.MADV_DONTNEED, at, 4 << 20)
time.sleep(60)
"""
    done = launch(launcher, confined(*python(script), watch=LimitWatch(memory_bytes=96 * _MIB)))

    assert "limit memory" in done.lines


def test_files_in_private_areas_count(launcher: Path) -> None:
    area = Mount(MountKind.AREA, "/area", mode=0o1777)
    spec = confined(
        *shell("head -c 200m /dev/zero > /area/file; sleep 60"),
        mounts=(area,),
        areas=Areas(1 << 30, 100),
        watch=LimitWatch(memory_bytes=64 * _MIB),
    )

    assert "limit memory" in launch(launcher, spec).lines


_DEEP = """
import os, time
for _ in range(120):
    if os.fork(): os.wait(); os._exit(0)
held = bytearray(600 << 20)
time.sleep(60)
"""


@pytest.mark.parametrize("make", [bare, confined])
def test_descendants_of_any_depth_count(launcher: Path, make) -> None:
    done = launch(launcher, make(*python(_DEEP), watch=LimitWatch(memory_bytes=300 * _MIB)))

    assert "limit memory" in done.lines
    assert "signalled 9" in done.lines


_SOCKETS = """
import socket, sys
held = []
for _ in range(int(sys.argv[1])):
    pair = socket.socketpair()
    held.append(pair)
    pair[0].setblocking(False)
    try:
        while True: pair[0].send(b'x' * 4096)
    except BlockingIOError: pass
input()
"""


def test_buffers_of_sockets_count(launcher: Path) -> None:
    many = confined("python3", "-c", _SOCKETS, "400", watch=LimitWatch(memory_bytes=128 * _MIB))
    few = confined("python3", "-c", _SOCKETS, "20", watch=LimitWatch(memory_bytes=128 * _MIB))

    assert "limit memory" in launch(launcher, many).lines
    assert "limit memory" not in launch(launcher, few).lines


@pytest.mark.parametrize("make", [bare, confined])
def test_too_many_processes_end_the_tree(launcher: Path, make) -> None:
    script = "for i in $(seq 40); do sleep 60 & done; echo all; wait"
    done = launch(launcher, make(*shell(script), watch=LimitWatch(processes=20)))

    assert "limit processes" in done.lines
    assert "signalled 9" in done.lines


@pytest.mark.parametrize("make", [bare, confined])
def test_threads_count_as_processes(launcher: Path, make) -> None:
    script = (
        "import threading, time\nfor _ in range(40): threading.Thread(target=time.sleep, args=(60,)).start()"
    )
    done = launch(launcher, make(*python(script), watch=LimitWatch(processes=20)))

    assert "limit processes" in done.lines


@pytest.mark.parametrize("spinners", ["1", "3"], ids=["one process", "several"])
def test_a_share_of_all_processes_is_kept_by_stopping(launcher: Path, spinners: str) -> None:
    line = (*python(SPIN), spinners)
    done = launch(launcher, confined(*line, watch=LimitWatch(share_permille=300, processors=1)))

    assert 0.02 < float(done.output) < 0.32  # less where others want the processor as well


def test_a_stopped_tree_can_be_ended(launcher: Path) -> None:
    running = start(launcher, confined("sleep", "60", watch=LimitWatch(share_permille=10, processors=1)))
    running.wait_for("started")
    running.cut_lifeline()
    running.finish()

    assert "signalled 9" in running.lines


def test_a_stopped_command_gets_its_signals(launcher: Path) -> None:
    running = start(launcher, confined("sleep", "600", watch=LimitWatch(share_permille=100, processors=1)))
    running.wait_for("started")
    running.kill(15)
    running.finish()

    assert "signalled 15" in running.lines
